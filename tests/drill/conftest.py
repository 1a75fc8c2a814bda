"""An invented drill: the logs of its applications, with faults planted by the test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from jgroups_py.drill.file.model import Expectation, FilePlace
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.verdict import Verdict, judge
from jgroups_py.drill.log import DrillRecord

HOME, AWAY = 0.001, 0.05  # seconds to a member of the same site and of the other site


class Story:
    """Members are written ``NYC.E``, ``NYC.E#2``."""

    def __init__(self, sites: dict[str, Sequence[str]]) -> None:
        self.records: list[DrillRecord] = []
        self.sites = {site: [f"{name}#1" for name in names] for site, names in sites.items()}
        self._views = 0
        self._sent: dict[str, int] = {}
        for site, names in self.sites.items():
            for name in names:
                self._add(-2.0, f"{site}.{name}", "join")
            self.view(-1.0, site)
            self.bridge(-0.5, site, list(sites))

    def _add(
        self,
        t: float,
        who: str,
        event: str,
        origin: str | None = None,
        seqno: int | None = None,
        **detail: Any,
    ) -> None:
        site, _, name = who.partition(".")
        name, _, incarnation = name.partition("#")
        self.records.append(
            DrillRecord(
                t,
                site or None,
                name or None,
                event,
                origin,
                seqno,
                detail or None,
                int(incarnation or 1),
            )
        )

    def view(
        self, t: float, site: str, members: Sequence[str] = (), to: Iterable[str] = ()
    ) -> None:
        """Install a view at all its members, or at some."""
        members = [m if "#" in m else f"{m}#1" for m in members] or self.sites[site]
        self._views += 1
        for name in list(to) or members:
            self._add(t, f"{site}.{name}", "view", id=f"v{self._views}", members=members)
        if not to:
            self.sites[site] = list(members)

    def bridge(self, t: float, site: str, sites: Sequence[str]) -> None:
        self._add(
            t, f"{site}.{self.sites[site][0]}", "view", id="b", members=[], bridge=True, sites=sites
        )

    def send(self, t: float, who: str, skip: Sequence[str] = (), length: int = 1) -> int:
        """A message that all present members deliver, except those in ``skip``."""
        first = self._sent.get(who, 0) + 1
        self._sent[who] = first + length - 1
        count = {"count": length} if length > 1 else {}
        origin = who.partition(".")[2]
        self._add(t, who, "send", origin if "#" in origin else f"{origin}#1", first, **count)
        home = who.partition(".")[0]
        for site, names in self.sites.items():
            for name in names:
                if f"{site}.{name}" not in skip and f"{site}.{name.removesuffix('#1')}" not in skip:
                    self.deliver(
                        t + (HOME if site == home else AWAY), f"{site}.{name}", who, first, length
                    )
        return first

    def deliver(self, t: float, who: str, origin: str, seqno: int, length: int = 1) -> None:
        home, _, name = origin.partition(".")
        detail: dict[str, Any] = {"count": length} if length > 1 else {}
        if home != who.partition(".")[0]:
            detail["from"] = home
        name = name if "#" in name else f"{name}#1"
        self._add(t, who, "deliver", name, seqno, **detail)

    def fault(self, t: float, event: str, who: str = "", **detail: Any) -> None:
        self._add(t, who, event, **detail)

    def fail(self, t: float, site: str) -> None:
        self.fault(t, "fail_site", site)
        for name in self.sites[site]:
            self.fault(t, "vanish", f"{site}.{name}", by="fail_site")
        self.sites[site] = []

    def evidence(self) -> Evidence:
        return Evidence.of(sorted(self.records, key=lambda record: record.t), list(self.sites))

    def judge(
        self,
        primary: str | None = "NYC",
        grace: float = 1.0,
        primary_only: bool = False,
        **expect: str,
    ) -> Verdict:
        expectations = []
        for name, text in expect.items():
            compare, _, limit = text.rpartition(" ")
            expectations.append(
                Expectation(name, compare or "=", float(limit), text, FilePlace("x", 1, 1))
            )
        return judge(
            self.evidence(),
            primary=primary,
            grace=grace,
            expect=expectations,
            primary_only=primary_only,
        )


@pytest.fixture
def story() -> Story:
    return Story({"NYC": ["E", "D", "C"], "SFO": ["T", "S"]})


@pytest.fixture
def new_story() -> type[Story]:
    return Story
