"""Imports point downwards, and nothing below the channel reads a clock, chance or a thread."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FLOORS = (
    "values",
    "errors",
    "units",
    "wire",
    "config",
    "tls",
    "stack",
    "protocols",
    "driver",
    "router",
    "channel",
    "rpc",
    "",
    "buddy",
    "cache",
    "export",
    "maps",
    "livebackup",
    "buckets",
    "blocking",
    "aio",
    "sessions",
    "stacks",
    "testing.histories",
    "testing.sim",
    "drill",
    "testing",
    "spark",
    "tools",
    "__main__",
)
"""Lowest first. A module imports from its own floor and from lower ones. ``testing`` is more than one floor: drills run on its
simulator, and its explorer attacks the files of drills. The empty name is ``jgroups_py``
itself: channels and calls."""

LATE = {
    ("config.settings", "protocols"),  # the registry is asked by name
    ("config.file", "stacks"),
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
SANS_IO = ("values", "wire", "config", "stack", "protocols", "testing.sim")


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


def floor(name: str) -> str:
    """The floor of a module: the longest one that its name begins with."""
    parts = name.replace("testing.check", "testing.sim").split(".")  # they judge as it runs
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in FLOORS:
            return ".".join(parts[:length])
    return ""


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
    """Also those that are for types only."""
    mine = floor(name)
    for target, node in imports(file):
        if not target.startswith("jgroups_py."):
            continue
        other = target.removeprefix("jgroups_py.")
        if (name, other.partition(".")[0]) in LATE:
            continue
        allowed = FLOORS.index(floor(other)) <= FLOORS.index(mine)
        assert allowed, f"{file.name}:{node.lineno} {mine} imports {target} ({floor(other)})"


def test_modules_import_each_other_in_one_direction() -> None:
    """Imports that are there for types count, too: a part gets what it needs, not the whole."""
    names = {name for name, _ in modules()}
    edges = {name: set(_targets(file, names)) - {name} for name, file in modules()}
    assert [sorted(circle) for circle in _circles(edges)] == []


def _targets(file: Path, names: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name.removeprefix("jgroups_py.") for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.removeprefix("jgroups_py").removeprefix(".")
            for alias in node.names:
                full = f"{module}.{alias.name}"
                yield full if full in names else module


def _circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Sets of two and more modules that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for target in edges.get(todo.pop(), ()):
                if target in edges and target not in seen:
                    seen.add(target)
                    todo.append(target)
        return seen

    reach = {name: reached(name) for name in edges}
    circles: list[set[str]] = []
    for name in edges:
        if name in reach[name] and not any(name in circle for circle in circles):
            circles.append({other for other in reach[name] if name in reach[other]})
    return [circle for circle in circles if len(circle) > 1]


SHARED_BY_PROTOCOLS = {
    name
    for name, file in modules()
    if name.startswith("protocols.") and not file.read_text().count("    protocol_id")
}
"""Modules in protocols/ that hold no protocol: what several of them have in common."""

OF_ITS_OWN = (
    "protocols.transport",
    "protocols.relay",
    "protocols.membership.gms",
    "protocols.reliable.nakack2",
)
"""Folders whose parts belong together and may know each other."""


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
            other = target.removeprefix("jgroups_py.")
            if not other.startswith("protocols.") or other in SHARED_BY_PROTOCOLS:
                continue
            if any(name.startswith(own) and other.startswith(own) for own in OF_ITS_OWN):
                continue  # a part of that protocol, in a file of its own
            imported = {alias.name for alias in getattr(node, "names", ())}
            assert imported <= bases, f"{file.name}:{node.lineno} imports {target}"


@pytest.mark.parametrize(("name", "file"), MODULES)
def test_the_sans_io_part_reads_no_clock_and_no_chance(name: str, file: Path) -> None:
    if floor(name) not in SANS_IO:
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
            if name == "testing.conflict_rules":  # in a function, for who has given a strategy
                targets.remove("jgroups_py.testing.needs")
            assert not targets & {f"jgroups_py.{other}" for other in needing}, file.name


def test_a_user_without_hypothesis_is_told_what_to_install() -> None:
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
