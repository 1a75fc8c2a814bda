"""Compiles the hot modules, if ``JGROUPS_PY_COMPILE=1`` is in the environment. Everything else of the package is in
pyproject.toml and setup.cfg.

``JGROUPS_PY_COMPILE=1 pip wheel .`` needs a C compiler, and installs mypy for the build. Without the variable nothing is
compiled and nothing is needed. The sources are in the wheel either way, and jgroups_py/compiled.txt names the modules.

``JGROUPS_PY_OPTIMIZE=0`` compiles in a sixth of the time, for tests: the modules do the same, but slower.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from setuptools import setup

MYPY = "mypy==2.4.1"
"""The release whose compiler was tried. Another one may refuse what this one compiles."""
ROOT = Path(__file__).resolve().parent


def given(name: str, default: str, accepted: Sequence[str]) -> str:
    """Return the value of a variable of the environment. Ends the process if it is none of those accepted."""
    value = os.environ.get(name, default)
    if value not in accepted:
        sys.exit(f"{name} must be {' or '.join(accepted)}, got {value!r}")
    return value


def sources() -> list[str]:
    """Return the files to compile, by the paths that give the modules their names."""
    lines = (ROOT / "jgroups_py" / "compiled.txt").read_text().splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    link = ROOT / "jgroups_py" / "protocols"
    if not link.exists():  # a source archive has no symbolic links
        link.symlink_to("../protocols")
    return [name.replace(".", "/") + ".py" for name in names]


def compiled() -> dict[str, object]:
    """Return what ``setup`` is told of compiled modules."""
    level = given("JGROUPS_PY_OPTIMIZE", "3", ("0", "1", "2", "3"))
    if given("JGROUPS_PY_COMPILE", "0", ("0", "1")) == "0":
        return {}
    try:
        from mypyc.build import mypycify
    except ImportError:
        if "egg_info" in sys.argv:  # the builder asks what the build needs
            return {"setup_requires": [MYPY]}
        sys.exit(
            f"JGROUPS_PY_COMPILE=1 needs {MYPY}: leave --no-build-isolation out, or install it"
        )
    options = [
        "--cache-dir=/dev/null",  # what mypy keeps between runs misleads its compiler
        "--config-file=",  # types are checked by `make check`; here other packages may be absent
        "--ignore-missing-imports",
        "--explicit-package-bases",
        "--follow-imports=silent",
    ]
    return {"ext_modules": mypycify([*options, *sources()], opt_level=level, debug_level="0")}


setup(**compiled())
