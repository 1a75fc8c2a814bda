"""Imports point downwards, and nothing below the channel reads a clock, chance or a thread."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LAYERS = (
    "errors",
    "values",
    "wire",
    "config",
    "stack",
    "protocols",
    "edge",
    "channel",
    "use",
)
"""Bottom first. A module may import its own layer and those before it."""

WHERE = {
    "__main__": "use",
    "errors": "errors",
    "address": "values",
    "view": "values",
    "message": "values",
    "header": "values",
    "batch": "values",
    "values": "values",
    "units": "values",
    "events": "values",
    "numbers": "values",
    "ports": "values",
    "config": "config",
    "stackmodel": "config",
    "stackfile": "config",
    "stackwrite": "config",
    "markup": "config",
    "timing": "config",
    "services": "config",
    "limits": "channel",
    "lateness": "values",
    "machine": "stack",
    "protocol": "stack",
    "stack": "stack",
    "testing": "use",
    "protocols": "protocols",
    "stacks": "errors",
    "driver": "edge",
    "sim": "edge",
    "buddy": "protocols",
    "channel": "channel",
    "stream": "channel",
    "outbox": "channel",
    "backlog": "channel",
    "unwrap": "edge",
    "needs_trio": "edge",
    "aio": "use",
    "blocking": "use",
    "logs": "channel",
    "blame": "channel",
    "callbacks": "errors",
    "log_limit": "errors",
    "cache": "use",
    "drill": "use",
    "explore": "use",
    "export": "use",
    "spark": "use",
    "fuzz": "use",
    "longlife": "use",
    "rpc": "use",
    "histories": "values",
    "sessions": "use",
    "tools": "use",
    "": "use",
}
"""First part of a module's name below jgroups_py -> its layer; what is not listed is wire."""

LATE = {
    ("batch", "objects"),
    ("batch", "packets"),  # a payload is decoded when somebody asks for it
    ("config", "protocols"),  # the registry is asked by name
    ("errors", "address"),  # a type only
    ("errors", "numbers"),  # a type only
    ("stackfile", "stacks"),
}

BANNED = {
    "time": "the machine's clock: use self.now",
    "random": "chance: use self.random (random.Random as a type is fine)",
    "asyncio": "trio is the one loop",
    "threading": "no threads",
    "socket": "sockets belong to the driver",
    "select": "sockets belong to the driver",
    "trio": "tasks belong to the driver and what is above",
    "pickle": "nothing is pickled",
    "uuid": "UUIDs are drawn from self.random",
}
SANS_IO = ("values", "wire", "config", "stack", "protocols")


def modules() -> Iterator[tuple[str, Path]]:
    """(name below jgroups_py, file), ``protocols.udp`` for protocols/transport/udp.py."""
    for folder, prefix in (
        ("jgroups_py", ""),
        ("protocols", "protocols."),
        ("tools", "tools."),
        ("stacks", "stacks."),
    ):
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "jgroups_py" and parts[0] in ("protocols", "tools", "stacks"):
                continue  # links to the folders themselves
            yield (prefix + ".".join(parts)).removesuffix(".__init__"), file


MODULES = [pytest.param(name, file, id=name or "jgroups_py") for name, file in modules()]


def layer(name: str) -> str:
    first = name.partition(".")[0]
    if first.startswith("channel"):
        first = "channel"
    return WHERE.get("" if first == "__init__" else first, "wire")


def imports(file: Path) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} relative import"
            if node.module == "jgroups_py":
                for alias in node.names:
                    yield f"jgroups_py.{alias.name}", node
            elif node.module:
                yield node.module, node


@pytest.mark.parametrize(("name", "file"), MODULES)
def test_imports_point_downwards(name: str, file: Path) -> None:
    mine = layer(name)
    for target, node in imports(file):
        if not target.startswith("jgroups_py."):
            continue
        other = target.removeprefix("jgroups_py.")
        if (name, other.partition(".")[0]) in LATE:
            continue
        allowed = LAYERS.index(layer(other)) <= LAYERS.index(mine)
        assert allowed, f"{file.name}:{node.lineno} {mine} imports {target} ({layer(other)})"


SHARED_BY_PROTOCOLS = {
    file.stem
    for _, file in modules()
    if file.parent == ROOT / "protocols" and not file.read_text().count("    protocol_id")
}
"""Modules in protocols/ that hold no protocol: what several of them have in common."""


def test_a_protocol_imports_no_other_protocol() -> None:
    """It may be made from another one, as a subclass; it may not look for one in its stack."""
    for name, file in modules():
        if not name.startswith("protocols.") or name == "protocols.registry":
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        bases = {
            ast.unparse(base)
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        }
        for target, node in imports(file):
            other = target.removeprefix("jgroups_py.protocols.").partition(".")[0]
            if not target.startswith("jgroups_py.protocols.") or other in SHARED_BY_PROTOCOLS:
                continue
            if name.startswith(f"protocols.{other}_"):
                continue  # a part of that protocol, in a file of its own
            imported = {alias.name for alias in getattr(node, "names", ())}
            assert imported <= bases, f"{file.name}:{node.lineno} imports {target}"


@pytest.mark.parametrize(("name", "file"), MODULES)
def test_the_sans_io_part_reads_no_clock_and_no_chance(name: str, file: Path) -> None:
    if layer(name) not in SANS_IO and not name.startswith("sim"):
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for target, node in imports(file):
        top = target.partition(".")[0]
        if top != "random":  # its type is welcome; calls are looked at below
            assert top not in BANNED, f"{file.name}:{node.lineno} imports {top}: {BANNED[top]}"
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "random"
    }
    for use in random_calls(tree, aliases):
        raise AssertionError(f"{file.name}:{use.lineno} {ast.unparse(use)}: {BANNED['random']}")


def random_calls(tree: ast.AST, aliases: set[str]) -> Iterator[ast.Attribute]:
    """``random.x`` of the module, x not Random; parameters of that name hide the module."""
    if isinstance(tree, ast.FunctionDef):
        aliases = aliases - {a.arg for a in ast.walk(tree.args) if isinstance(a, ast.arg)}
    if isinstance(tree, ast.Attribute) and isinstance(tree.value, ast.Name):
        if tree.value.id in aliases and tree.attr != "Random":
            yield tree
    for child in ast.iter_child_nodes(tree):
        yield from random_calls(child, aliases)


def test_the_kit_for_users_needs_hypothesis_for_strategies_only() -> None:
    needing = {
        name
        for name, file in modules()
        if any(target.partition(".")[0] == "hypothesis" for target, _ in imports(file))
    }
    assert needing == {"testing.needs"}, "which says what to install"
    parts = ("stateful", "strategies", "strategies_headers", "strategies_values")
    needing |= {f"testing.{part}" for part in parts}
    for name, file in modules():
        if name.startswith("testing") and name not in needing:
            targets = {target for target, _ in imports(file)}
            assert not targets & {f"jgroups_py.{other}" for other in needing}, file.name


def test_who_lacks_hypothesis_is_told_what_to_install() -> None:
    for part in ("strategies", "stateful"):
        code = f"import sys; sys.modules['hypothesis'] = None; import jgroups_py.testing.{part}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 1
        assert "pip install 'jgroups_py[testing]'" in done.stderr.splitlines()[-1]
    code = "import sys; sys.modules['hypothesis'] = None; import jgroups_py.testing"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_no_module_uses_asyncio_or_pickle() -> None:
    """``jgroups_py.aio`` is for asyncio programs, and nothing of ours imports it."""
    for name, file in modules():
        inside = name.partition(".")[0] == "aio"
        for target, node in imports(file):
            top = target.partition(".")[0]
            assert top not in ("pickle", "marshal", "shelve"), f"{file}:{node.lineno}"
            assert inside or top != "asyncio", f"{file}:{node.lineno}"
            assert inside or not target.startswith("jgroups_py.aio"), f"{file}:{node.lineno}"


def test_importing_the_package_imports_the_core_only() -> None:
    import subprocess
    import sys

    code = "import jgroups_py, sys; print(' '.join(sorted(m for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"click", "rich", "jinja2", "asyncio", "pytest", "hypothesis"}
    assert "jgroups_py.testing.explore" not in done.stdout
    assert "jgroups_py.drill" not in done.stdout and "jgroups_py.testing.sim" not in done.stdout
