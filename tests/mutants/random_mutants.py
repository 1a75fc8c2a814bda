"""Random mutants: small changes at random places of the files that the catalogue knows.

Comparisons are widened, conditions are replaced by true or false, operands, calls and assignments are left out. Many
changes have no effect, so a person looks at the survivors, and their number does not count.
"""

from __future__ import annotations

import ast
import itertools
import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final

from mutant import ROOT, BadCatalogue, Mutant

_OTHER: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_TELLS: Final = re.compile(
    r"(\w+\.)*_?log(ger)?\.(debug|info|warning|error|exception|log)\(|(\w+\.)*_?trace\("
)
"""Calls that only write to the log or to traces (not those of a log that is replicated)."""
_WARNS: Final = re.compile(r"(\w+\.)*_?log(ger)?\.(warning|error|exception|log)\(")
"""These calls must be made, because a reached limit must be logged. Only changes of their texts do not count."""
_COUNTS: Final = re.compile(r"(\w+\.)+(bad|dropped|num_\w+|\w*_(sent|received|dropped))\b")
_STACKS: Final = "tests/accounts/test_stack_accounts.py"
_ALONE: Final = "tests/accounts/test_protocol_accounts.py"
_BUDDIES: Final = "tests/accounts/test_buddy_accounts.py"
_RELAY: Final = "tests/accounts/test_relay_accounts.py"
_RANGES: Final = "tests/config/test_ranges.py"
"""The check of values that the ``Config`` of a protocol refuses."""
_NEAR: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "jgroups_py/buddy/",
        (_BUDDIES, "tests/buddy tests/sessions", "tests/cache", "tests/explore tests/export"),
    ),
    ("jgroups_py/sessions/", ("tests/sessions", "tests/cache")),
    ("jgroups_py/cache/", ("tests/cache", "tests/sessions tests/export")),
    ("jgroups_py/export/", (_BUDDIES, "tests/export")),
    ("jgroups_py/rpc/", ("tests/rpc",)),
    ("jgroups_py/maps/", ("tests/maps",)),
    ("jgroups_py/livebackup/", ("tests/livebackup",)),
    ("jgroups_py/tls/", ("tests/tls",)),
    ("jgroups_py/driver/", ("tests/sockets", "tests/api")),
    ("jgroups_py/drill/", ("tests/drill",)),
    ("jgroups_py/aio/", ("tests/aio",)),
    ("jgroups_py/blocking/", ("tests/blocking",)),
    ("jgroups_py/channel/", ("tests/api", "tests/blocking tests/aio tests/rpc")),
    ("jgroups_py/stack/machine", (_STACKS, _RELAY, _ALONE, "tests/stack")),
    ("jgroups_py/stack/windows", (f"{_ALONE} -k nakack2", _STACKS, "tests/stack")),
    ("jgroups_py/stack/lateness", (f"{_ALONE} -k 'fd_ or verify'", _STACKS, "tests/stack")),
    ("jgroups_py/config/", (_STACKS, "tests/config", "tests/tools")),
    ("jgroups_py/stack/", (_STACKS, _RELAY, _ALONE, "tests/stack tests/config")),
    ("jgroups_py/wire/", ("tests/wire", _STACKS, "tests/hostile")),
    ("jgroups_py/testing/sim/", ("tests/sim/test_host.py", "tests/kit", "tests/sim")),
    ("jgroups_py/testing/", ("tests/explore", "tests/kit")),
    ("jgroups_py/router/", ("tests/discovery",)),
    ("jgroups_py/", (_STACKS, "tests/wire", "tests/hostile", "tests/api")),
    (
        "protocols/relay",
        (
            _RELAY,
            f"{_STACKS} -k sites",
            "tests/relay tests/sim/test_relay_sites.py tests/api/test_channel_relay.py",
        ),
    ),
    ("protocols/failure/fd_", (f"{_ALONE} -k 'fd_ or verify'", _STACKS)),
    ("protocols/failure/verify_", (f"{_ALONE} -k 'fd_ or verify'", _STACKS)),
    ("protocols/reliable/nakack2", (f"{_ALONE} -k nakack2", _STACKS)),
    ("protocols/reliable/unicast3", (f"{_ALONE} -k unicast3", _STACKS)),
    ("protocols/membership/gms", (f"{_ALONE} -k 'gms or merge3'", _STACKS)),
    ("protocols/membership/merge3", (f"{_ALONE} -k 'gms or merge3'", _STACKS)),
    ("protocols/frag2", (f"{_ALONE} -k frag2", _STACKS)),
    ("protocols/reliable/stable", (f"{_ALONE} -k stable", _STACKS)),
    ("protocols/state_", (f"{_ALONE} -k state_transfer", _STACKS)),
    ("protocols/flow/mfc", (f"{_ALONE} -k 'mfc or ufc'", _STACKS)),
    ("protocols/flow/ufc", (f"{_ALONE} -k 'mfc or ufc'", _STACKS)),
    ("protocols/flow/", (f"{_ALONE} -k 'mfc or ufc'", _STACKS)),
    ("protocols/discovery/", (f"{_ALONE} -k ping", _STACKS, "tests/discovery")),
    ("protocols/", (f"{_ALONE} -k 'tcp or udp or ping or fd_sock2'", _STACKS)),
    ("tools/", ("tests/tools",)),
)
"""Beginning of a file's path -> further checks beside the catalogue's; the first match counts. All tests near a
random change look for it, the fast and exact ones first."""
_LEFT_OUT: Final = ("check", "statistics", "start", "__init__", "__repr__", "__str__")
"""Functions that only report, or only prepare tables."""
_ELSEWHERE: Final = ("jgroups_py/spark/", "examples/")
"""Folders without random changes: tests of the first need Spark (make test-spark), and no code depends on the
second."""
Change = tuple[int, int, str, str]
"""A change: its beginning and end in the file, the new text, and a description."""


def drawn(catalogue: Sequence[Mutant], areas: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Draw ``count`` changes, each place equally likely; the same for the same seed and sources.

    A change is checked by the checks that the catalogue names for most faults of its area, and by those of
    ``_NEAR``. ``areas``: only places of these; empty: of all areas.
    """
    checks = checks_of(catalogue)
    every = [
        (file, inside, change)
        for file, (area, _) in sorted(checks.items())
        if not areas or area in areas
        for inside, change in places(_text_of(file))
    ]
    random.Random(seed).shuffle(every)
    fitting = (m for where in every if (m := _mutant_of(*where, *checks[where[0]])) is not None)
    return list(itertools.islice(fitting, count))


@cache
def _text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def checks_of(catalogue: Sequence[Mutant]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """File -> the area of most of its mutants, and that area's checks, the commonest first."""
    areas: dict[str, Counter[str]] = {}
    tests: dict[str, Counter[str]] = {}
    for mutant in catalogue:
        if mutant.file.endswith(".py") and (ROOT / mutant.file).exists():
            # One name for each file: packages are links to folders of the root.
            file = (ROOT / mutant.file).resolve().relative_to(ROOT).as_posix()
            if not file.startswith(_ELSEWHERE):
                areas.setdefault(file, Counter())[mutant.area] += 1
            tests.setdefault(mutant.area, Counter()).update(mutant.found_by)
    most = {file: counted.most_common(1)[0][0] for file, counted in areas.items()}
    return {
        file: (area, _all_of([c for c, n in tests[area].most_common() if n > 1], file))
        for file, area in most.items()
    }


def _all_of(checks: Sequence[str], file: str) -> tuple[str, ...]:
    """Return the checks of a file: the commonest one of its area, two near and fast ones, then the rest."""
    near = next((found for start, found in _NEAR if file.startswith(start)), ())
    settings = [_RANGES] if file.startswith("protocols/") else []
    return tuple(dict.fromkeys([*checks[:1], *near[:2], *settings, *checks[1:], *near[2:]]))


def _mutant_of(
    file: str, inside: str, change: Change, area: str, found_by: tuple[str, ...]
) -> Mutant | None:
    """None: only texts would change, the line occurs more than once, or the change does not compile."""
    text = _text_of(file)
    start, end, new, what = change
    if any(low <= start and end <= high for low, high in told(text)):
        return None
    low, high = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    line = text.count("\n", 0, low) + 1
    indent = " " * (len(text[low:]) - len(text[low:].lstrip(" ")))
    low += len(indent)
    old = text[low:high].replace("\n" + indent, "\n")
    changed = (text[low:start] + new + text[end:high]).replace("\n" + indent, "\n")
    mutant = Mutant(area, f"{file}:{line}", file, inside, old, changed, what, found_by)
    try:
        mutant.applied_to(text)
    except BadCatalogue:
        return None
    return mutant


@cache
def places(text: str) -> list[tuple[str, Change]]:
    """Return (Class.function, change) for each possible change of a source; none where it is not ASCII."""
    return _Places(text).found if text.isascii() else []  # columns of a syntax tree are bytes


@cache
def told(text: str) -> list[tuple[int, int]]:
    """Return the places (from, to) that affect only log, traces and counters: arguments of calls that report, and
    conditions of an ``if`` with such calls only."""
    return _Told(text).found if text.isascii() else []


class _Spans(ast.NodeVisitor):
    """The places of a source's nodes in its text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self._lines[node.lineno - 1] + node.col_offset,
            self._lines[node.end_lineno - 1] + node.end_col_offset,
        )

    def _part(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return " ".join(self._text[start:end].split())[:60]


class _Told(_Spans):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.found: list[tuple[int, int]] = []
        self.visit(ast.parse(text))

    def visit_Call(self, node: ast.Call) -> None:
        if _TELLS.match(self._part(node)):
            self.found.append(self._span(node))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not node.orelse and all(self._tells(statement) for statement in node.body):
            self.found.append(self._span(node.test))
        self.generic_visit(node)

    def _tells(self, node: ast.stmt) -> bool:
        part = self._part(node)
        if isinstance(node, ast.Expr):
            return bool(_TELLS.match(part)) and not _WARNS.match(part)
        return isinstance(node, ast.AugAssign) and bool(_COUNTS.match(part))


class _Places(_Spans):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.found: list[tuple[str, Change]] = []
        self._inside: list[str] = []
        self._within = 0
        self.visit(ast.parse(text))

    def _note(self, start: int, end: int, new: str, what: str) -> None:
        if self._within:
            self.found.append((".".join(self._inside), (start, end, new, what)))

    # --- places

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in _LEFT_OUT or self._within:
            return
        self._inside.append(node.name)
        self._within += 1
        for statement in node.body:
            self.visit(statement)
        self._within -= 1
        self._inside.pop()

    def visit_Assert(self, node: ast.Assert) -> None:
        """Assertions are checks themselves."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Skip the text of an error."""

    # --- changes

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            old, new = _OTHER[type(node.ops[0])]
            start, end = self._span(node.left)[1], self._span(node.comparators[0])[0]
            between = self._text[start:end]
            self._note(
                start, end, between.replace(old, new, 1), f"{self._part(node)}: {old} is {new}"
            )
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        neutral = "True" if isinstance(node.op, ast.And) else "False"
        for value in node.values:
            self._note(*self._span(value), neutral, f"{self._part(value)}: is {neutral}")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._span(node)[0]
            self._note(start, self._span(node.operand)[0], "", f"{self._part(node)}: without not")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        right = node.right
        if isinstance(right, ast.Constant) and right.value == 1 and right.value is not True:
            start, end = self._span(node.left)[1], self._span(node)[1]
            self._note(start, end, "", f"{self._part(node)}: without the 1")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            other = "max" if node.func.id == "min" else "min"
            self._note(*self._span(node.func), other, f"{self._part(node)}: {other}")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        for value in ("True", "False"):
            self._note(*self._span(node.test), value, f"if {self._part(node.test)}: {value}")
        self.generic_visit(node)

    def _drop(self, node: ast.stmt) -> None:
        part = self._part(node)
        if not (_TELLS.match(part) or _COUNTS.match(part)):
            self._note(*self._span(node), "pass", f"{self._part(node)}: left out")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._drop(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            self._drop(node)
        else:
            self.generic_visit(node)

    visit_AugAssign = visit_Delete = visit_Continue = visit_Break = _drop
