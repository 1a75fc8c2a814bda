"""Imports point downwards, and no module below the channel uses a clock, random numbers or a thread."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from parsed import Import, facts_of

ROOT = Path(__file__).resolve().parents[2]

FLOORS = (
    "lazy",
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
"""The floors, the lowest first. A module imports from its own floor and from lower ones. ``testing`` is more than one
floor: drills run on its simulator, and its explorer attacks the files of drills. The empty name is ``jgroups_py``
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


MODULES = list(modules())


def floor(name: str) -> str:
    """Return the floor of a module: the longest entry with which its name begins."""
    parts = name.replace("testing.check", "testing.sim").split(".")  # they judge during the run
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in FLOORS:
            return ".".join(parts[:length])
    return ""


def imports(file: Path) -> tuple[Import, ...]:
    return facts_of(file).imports


def test_imports_point_downwards() -> None:
    """Imports that are for types only count, too."""
    upwards = []
    for name, file in MODULES:
        mine = floor(name)
        for target, line, _ in imports(file):
            other = target.removeprefix("jgroups_py.")
            if other == target or (name, other.partition(".")[0]) in LATE:
                continue
            if FLOORS.index(floor(other)) > FLOORS.index(mine):
                upwards.append(f"{file}:{line} {mine} imports {target} ({floor(other)})")
    assert upwards == []


def test_modules_import_each_other_in_one_direction() -> None:
    """Imports for types count, too: a part gets only the objects that it needs, not the whole."""
    names = {name for name, _ in MODULES}
    edges = {name: set(_targets(file, names)) - {name} for name, file in MODULES}
    assert [sorted(circle) for circle in _circles(edges)] == []


def _targets(file: Path, names: set[str]) -> Iterator[str]:
    for target, _, imported in imports(file):
        module = target.removeprefix("jgroups_py").removeprefix(".")
        if module in imported:  # from jgroups_py import name
            yield ""
            continue
        if not imported:
            yield module
        for name in imported:
            full = f"{module}.{name}"
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
    for name, file in MODULES
    if name.startswith("protocols.") and not file.read_text().count("    protocol_id")
}
"""Modules in protocols/ without a protocol: common parts of several protocols."""

OF_ITS_OWN = (
    "protocols.transport",
    "protocols.relay",
    "protocols.membership.gms",
    "protocols.reliable.nakack2",
)
"""Folders whose parts belong together and may know each other."""


def test_a_protocol_imports_no_other_protocol() -> None:
    """A protocol may be a subclass of another one, but may not search for another one in its stack."""
    for name, file in MODULES:
        if not name.startswith("protocols.") or name == "protocols.registry":
            continue
        bases = facts_of(file).bases
        for target, line, imported in imports(file):
            other = target.removeprefix("jgroups_py.")
            if not other.startswith("protocols.") or other in SHARED_BY_PROTOCOLS:
                continue
            if any(name.startswith(own) and other.startswith(own) for own in OF_ITS_OWN):
                continue  # a part of that protocol, in a file of its own
            assert set(imported) <= bases, f"{file.name}:{line} imports {target}"


def test_the_sans_io_part_reads_no_clock_and_no_chance() -> None:
    found = []
    for name, file in MODULES:
        if floor(name) not in SANS_IO:
            continue
        tops = [(target.partition(".")[0], line) for target, line, _ in imports(file)]
        found += [
            f"{file}:{line} imports {top}: {BANNED[top]}"
            for top, line in tops
            if top in BANNED
            and top != "random"  # its type may be imported; calls are checked below
        ]
        text = file.read_text(encoding="utf-8")
        if "import random" not in text:
            continue
        tree = ast.parse(text)
        aliases = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name == "random"
        }
        found += [
            f"{file}:{use.lineno} {ast.unparse(use)}: {BANNED['random']}"
            for use in random_calls(tree, aliases)
        ]
    assert found == []


def random_calls(tree: ast.AST, aliases: set[str]) -> Iterator[ast.Attribute]:
    """``random.x`` of the module, where x is not Random; parameters with that name hide the module."""
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
        for name, file in MODULES
        if any(used.target.partition(".")[0] == "hypothesis" for used in imports(file))
    }
    assert needing == {"testing.needs"}, "which says what to install"
    parts = ("stateful", "strategies", "strategies_headers", "strategies_values")
    needing |= {f"testing.{part}" for part in parts}
    for name, file in MODULES:
        if name.startswith("testing") and name not in needing:
            targets = {used.target for used in imports(file)}
            if name == "testing.conflict_rules":  # inside a function, for users of a strategy
                targets.remove("jgroups_py.testing.needs")
            assert not targets & {f"jgroups_py.{other}" for other in needing}, file.name


def test_the_error_without_hypothesis_names_the_extra_to_install() -> None:
    code = """
import importlib, sys
sys.modules["hypothesis"] = None
import jgroups_py.testing
for part in ("strategies", "stateful"):
    try:
        importlib.import_module(f"jgroups_py.testing.{part}")
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert len(said) == 2 and all("pip install 'jgroups_py[testing]'" in line for line in said)


def test_no_module_uses_asyncio_or_pickle() -> None:
    """``jgroups_py.aio`` is for asyncio programs, and no module of ours imports it. The client of NATS with which a
    bench compares needs asyncio."""
    for name, file in MODULES:
        inside = name.partition(".")[0] == "aio" or name == "tools.bench.peers.nats"
        for target, line, _ in imports(file):
            top = target.partition(".")[0]
            assert top not in ("pickle", "marshal", "shelve"), f"{file}:{line}"
            assert inside or top != "asyncio", f"{file}:{line}"
            assert inside or not target.startswith("jgroups_py.aio"), f"{file}:{line}"


def test_importing_the_package_imports_the_core_only() -> None:
    import subprocess
    import sys

    code = "import jgroups_py, sys; print(' '.join(sorted(m for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"click", "rich", "jinja2", "asyncio", "pytest", "hypothesis"}
    assert "jgroups_py.testing.explore" not in done.stdout
    for room in ("cache", "drill", "testing.sim"):
        assert f"jgroups_py.{room}" not in done.stdout


def test_a_member_without_keys_loads_neither_cryptography_nor_a_database() -> None:
    """Such imports would cost ten megabytes of memory and a tenth of a second."""
    code = (
        "import sys; from jgroups_py import open_channel, open_rpc\n"
        "from jgroups_py.stack.stack import make_protocols\n"
        "for stack in ('udp.xml', 'tcp.xml'): make_protocols(stack)\n"
        "print(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"cryptography", "sqlite3", "psutil", "asyncio", "email", "yaml"}


def test_a_map_loads_no_stack_and_a_channel_of_a_facade_loads_no_cache() -> None:
    """A web worker with an open map imports only the modules of maps."""
    steps = (
        ("maps.open, jgroups_py.aio.maps", "aio open_map", "stack.protocol wire channel rpc cache"),
        ("maps.open", "aio open_channel", "cache buddy buckets livebackup"),
        ("maps.open", "blocking open_channel", "cache buddy buckets livebackup"),
    )
    code = "import sys\n" + "".join(
        f"import jgroups_py.{first}\nfrom jgroups_py.{room} import {name}\n"
        f"print([m for m in {strange.split()} if 'jgroups_py.' + m in sys.modules])\n"
        for first, (room, name), strange in ((a, b.split(), c) for a, b, c in steps)
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "[]", "[]", ""]
