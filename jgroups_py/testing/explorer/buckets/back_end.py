"""The lab's back end for the bucket store."""

from __future__ import annotations

from jgroups_py.buckets.errors import BucketError
from jgroups_py.errors import ConfigError
from jgroups_py.testing.check.violation import violation_of
from jgroups_py.testing.explorer.buckets.administered import play_orders
from jgroups_py.testing.explorer.buckets.repartition import play_repartition
from jgroups_py.testing.explorer.buckets.schedule import FAULTS, KIND, BucketCase, Run, draw, play
from jgroups_py.testing.explorer.case_text import read_as, written
from jgroups_py.testing.explorer.lab import ANYTHING, BackEnd, RunOutcome, Size
from jgroups_py.testing.explorer.shrink import parts


class Buckets(BackEnd[BucketCase]):
    """Requests and faults are steps. ``blips``, ``versions``, ``repartition``, ``late`` and ``orders``: see ``BucketCase``."""

    kind = KIND
    profiles = (
        "buckets",
        "buckets-blips",
        "buckets-versions",
        "buckets-versions-blips",
        "buckets-repartition",
        "buckets-late",
        "buckets-orders",
    )
    command = "buckets-explore"
    passes = (parts("faults"), parts("asks"))

    def draw(self, seed: int, profile: str, size: Size = ANYTHING) -> BucketCase:
        return draw(
            seed,
            blips="blips" in profile,
            versions="versions" in profile,
            repartition="repartition" in profile,
            late=profile in ("buckets-late", "buckets-orders"),
            orders="orders" in profile,
        )

    def play(self, case: BucketCase) -> RunOutcome:
        try:
            run = self._play(case)
        except Exception as error:  # any error is a bug, and a finding
            return RunOutcome(case.seed, [violation_of(error)])
        return RunOutcome(
            case.seed,
            run.problems,
            run.story,
            sent=len(run.asked),
            delivered=sum(not isinstance(asked.answer, BucketError) for asked in run.asked),
            faults=run.kills + run.cuts + run.moves,
            events=len(run.asked),
        )

    def _play(self, case: BucketCase) -> Run:
        if case.orders:
            return play_orders(case)
        return play_repartition(case) if case.repartition else play(case)

    def write(self, case: BucketCase) -> str:
        return written(case)

    def read(self, text: str, file: str) -> BucketCase:
        case = read_as(BucketCase, text, file, "a schedule of buckets")
        for _, fault in case.faults:
            if fault not in FAULTS:
                known = ", ".join(dict.fromkeys(FAULTS))
                raise ConfigError(f"faults: one of {known}, not {fault!r}", file=file)
        return case

    def file_name(self, seed: int, profile: str) -> str:
        return f"{profile}-{seed}.json"
