"""The parts of the lab: a case, the findings of its run, and the interface of a back end.

A case is plain data: all events of one run. The same case gives the same run. A back end is one kind of system: it
draws cases from seeds, plays and judges them, proposes smaller ones, and writes and reads them.

    case, outcome = back_end.explore(seed, profile)      drawn and played
    smaller = shrunk(back_end, case, outcome)            the same check fails
    text = back_end.write(smaller)                       for people, and to be played again
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from jgroups_py.errors import ConfigError
from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.shrink import RUNS_MAX, Pass, shrink

C = TypeVar("C")
D = TypeVar("D")
LENGTH_MAX: Final = 10_000_000
"""The most characters of a case's file."""


@dataclass(slots=True)
class RunOutcome:
    """The findings of a run. ``problems`` is empty if all checks held. ``faults``: those with a target. ``story``: the
    events, for people."""

    seed: int
    problems: list[Violation]
    story: list[str] = field(default_factory=list)
    sent: int = 0
    delivered: int = 0
    faults: int = 0
    events: int = 0
    virtual_s: float = 0.0

    @property
    def first(self) -> Violation | None:
        return self.problems[0] if self.problems else None


def drawing_of(drawings: Mapping[str, D], profile: str) -> D:
    """Return the function that draws the cases of a profile. Raises ``ConfigError`` for an unknown profile."""
    drawing = drawings.get(profile)
    if drawing is None:
        raise ConfigError(f"profile: one of {', '.join(drawings)}, not {profile!r}")
    return drawing


SITES_MAX: Final = 9
SITES_DRAWN: Final = 3
"""The most sites, unless the caller fixes them."""
MEMBERS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Size:
    """The fixed parts of a case's size. ``members``: least and most of each site."""

    sites: int | None = None
    members: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.sites is not None and not 1 <= self.sites <= SITES_MAX:
            raise ConfigError(f"sites: 1 to {SITES_MAX}, not {self.sites}")
        if self.members is not None:
            least, most = self.members
            if not 1 <= least <= most:
                raise ConfigError(f"members: N..M with 1 <= N <= M, not {least}..{most}")
            sites = self.sites or SITES_DRAWN
            if sites * most > MEMBERS_MAX:
                raise ConfigError(
                    f"members: {least}..{most} in up to {sites} sites: at most "
                    f"{MEMBERS_MAX // sites} each, {MEMBERS_MAX} in all"
                )


ANYTHING: Final = Size()


class BackEnd(ABC, Generic[C]):
    """One kind of system under test."""

    kind: str
    """The ``kind`` of its files."""
    profiles: tuple[str, ...]
    command: str
    """The command that replays its files and seeds."""
    passes: Sequence[Pass[C]]
    """The passes that make a case smaller (shrink.py)."""
    before: Sequence[Pass[C]] = ()
    """The passes that are tried once, before the others."""

    @abstractmethod
    def draw(self, seed: int, profile: str, size: Size = ANYTHING) -> C:
        """Draw the case of a seed. Raises ``ConfigError``."""

    @abstractmethod
    def play(self, case: C) -> RunOutcome:
        """Play a case and judge the run."""

    def explore(self, seed: int, profile: str, size: Size = ANYTHING) -> tuple[C, RunOutcome]:
        """Draw the case of a seed and play it; some back ends draw while they play."""
        case = self.draw(seed, profile, size)
        return case, self.play(case)

    @abstractmethod
    def write(self, case: C) -> str:
        """Return the text of a case's file."""

    @abstractmethod
    def read(self, text: str, file: str) -> C:
        """Read the case in a file's text. Raises ``ConfigError``, naming ``file``."""

    def profile_of(self, profile: str, seed: int) -> str:
        """Return the actual profile for this seed."""
        return profile

    def file_name(self, seed: int, profile: str) -> str:
        return f"{seed}.json"

    def __reduce__(self) -> Any:
        return type(self), ()


def shrunk(
    back_end: BackEnd[C], case: C, outcome: RunOutcome, runs: int = RUNS_MAX, **limits: float
) -> C:
    """Return a case that is no larger and fails the first failed check of ``outcome``."""
    assert outcome.first is not None, "nothing failed"
    check = outcome.first.check

    def fails(candidate: C) -> bool:
        found = back_end.play(candidate).first
        return found is not None and found.check == check

    return shrink(case, fails, back_end.passes, before=back_end.before, runs=runs, **limits)


def text_of(file: Path | str) -> str:
    """Read the text of a case's file. Raises ``ConfigError``, ``OSError``."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not a schedule: {error}", file=str(file)) from None
    if len(text) > LENGTH_MAX:
        raise ConfigError(
            f"too long for a schedule (at most {LENGTH_MAX} characters)", file=str(file)
        )
    return text
