"""Gets a JGroups jar, compiles our Java sources against it, and extracts its stack files: once per run.

No part of JGroups is kept in the repository: the jar comes from Maven's usual places, the stack files are read from it
when the tests run. All files go to ``build/java``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "java"
VERSION = "5.5.6.Final"
OLDER = "5.4.12.Final"
BOUNCY_CASTLE = "1.78.1"
POSTGRESQL = "42.7.4"
_FETCH_TIMEOUT = 120  # seconds, for Maven with an empty cache


class Unavailable(Exception):
    """The reason why there are no Java members on this machine."""


@dataclass(frozen=True)
class JavaParts:
    """The parts that start a Java member, and the stack files of its jar."""

    version: str
    jar: Path
    classes: Path
    stacks: Path
    more: tuple[Path, ...] = ()
    """Other jars that it needs."""
    options: tuple[str, ...] = ()
    """Further options of the JVM."""

    def command(self) -> list[str]:
        """Return the command line of one member."""
        options = [
            "-Djgroups.bind_addr=127.0.0.1",
            "-Djava.net.preferIPv4Stack=true",
            "-XX:TieredStopAtLevel=1",
            "-Xmx256m",
            *self.options,
        ]
        places = os.pathsep.join(str(place) for place in (self.jar, self.classes, *self.more))
        return ["java", *options, "-cp", places, "Peer"]


def java_parts(version: str = VERSION) -> JavaParts:
    """Return the parts for one version.

    Raises: Unavailable: no Java 11 or later, no compiler, or no jar.
    """
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            raise Unavailable(f"there is no {tool} here")
    jar = _jar(version)
    classes = BUILD / version / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    sources = [str(source) for source in sorted((HERE / "java").glob("*.java"))]
    _run(["javac", "-nowarn", "-cp", str(jar), "-d", str(classes), *sources])
    stacks = BUILD / version / "stacks"
    stacks.mkdir(exist_ok=True)
    with zipfile.ZipFile(jar) as archive:
        names = {"udp.xml", "udp-default.xml", "tcp.xml", "tcp-default.xml"}
        archive.extractall(stacks, names.intersection(archive.namelist()))
    return JavaParts(version, jar, classes, stacks)


def with_postgresql(parts: JavaParts) -> JavaParts:
    """Return the parts with PostgreSQL's driver for Java.

    Raises:
        Unavailable: the driver cannot be fetched.
    """
    return replace(parts, more=(_fetch("org.postgresql", "postgresql", POSTGRESQL),))


def with_bouncy_castle(parts: JavaParts) -> JavaParts:
    """Return the parts with the provider that JGroups needs for AES/GCM, behind Java's own: ``provider="BC"`` names it.

    Raises: Unavailable: the jar cannot be fetched.
    """
    jar = _fetch("org.bouncycastle", "bcprov-jdk18on", BOUNCY_CASTLE)
    file = BUILD / "bouncy-castle.security"
    file.write_text("security.provider.13=org.bouncycastle.jce.provider.BouncyCastleProvider\n")
    return replace(parts, more=(jar,), options=(f"-Djava.security.properties={file}",))


def _jar(version: str) -> Path:
    return _fetch("org.jgroups", "jgroups", version)


def _fetch(group: str, artifact: str, version: str) -> Path:
    jar = BUILD / f"{artifact}-{version}.jar"
    if jar.exists():
        return jar
    if shutil.which("mvn") is None:
        raise Unavailable(f"{jar} is not there, and there is no mvn to get it")
    BUILD.mkdir(parents=True, exist_ok=True)
    name = f"{group}:{artifact}:{version}"
    _run(["mvn", "-q", "-B", "dependency:get", f"-Dartifact={name}", "-Dtransitive=false"])
    _run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={name}", f"-DoutputDirectory={BUILD}"])
    if not jar.exists():
        raise Unavailable(f"mvn did not put {jar.name} into build/java")
    return jar


def _run(command: list[str]) -> None:
    try:
        subprocess.run(
            command, cwd=BUILD, check=True, timeout=_FETCH_TIMEOUT, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {_FETCH_TIMEOUT} s") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr + error.stdout).strip().splitlines() or [""]
        raise Unavailable(f"{' '.join(command[:3])} failed: {said[0][:300]}") from None
