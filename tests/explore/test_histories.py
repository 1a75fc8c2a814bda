"""Histories of concurrent callers: drawn, played, judged, made smaller; and the faults that they found."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.back_ends import load
from jgroups_py.testing.explorer.caches import stage
from jgroups_py.testing.explorer.caches.back_end import Caches
from jgroups_py.testing.explorer.caches.callers import RecordedCall
from jgroups_py.testing.explorer.caches.draw import CACHE_PROFILES, draw_caches
from jgroups_py.testing.explorer.caches.places import MemberPlace, Places, Went
from jgroups_py.testing.explorer.caches.play import play_caches, play_history
from jgroups_py.testing.explorer.caches.promises import operations
from jgroups_py.testing.explorer.caches.schedule import (
    CacheFault,
    CacheSchedule,
    Caller,
    Do,
    from_json,
)
from jgroups_py.testing.explorer.lab import RunOutcome, Size, shrunk
from jgroups_py.testing.explorer.stacks.draw import PROFILES, draw
from jgroups_py.testing.explorer.stacks.play import play
from jgroups_py.testing.explorer.stacks.schedule import Link
from jgroups_py.testing.histories.nodes import Call
from jgroups_py.testing.histories.operation import UNKNOWN

FOUND = Path(__file__).parent / "found"


@pytest.mark.parametrize("profile", CACHE_PROFILES)
def test_the_same_seed_is_the_same_schedule_and_goes_through_a_file(profile: str) -> None:
    schedule = draw_caches(3, profile)
    assert schedule == draw_caches(3, profile) == from_json(schedule.to_json(), "3.json")
    assert schedule != draw_caches(4, profile)


@pytest.mark.parametrize(
    ("profile", "seeds"),
    [
        ("cache-local", range(1, 21)),
        ("cache-replicated", (1, 2, 3, 24, 31, 47)),
        ("cache-buddy", range(1, 4)),
        ("cache-sessions", range(1, 4)),
    ],
)
def test_histories_are_linearizable(profile: str, seeds: Iterable[int]) -> None:
    for seed in seeds:
        outcome = play_caches(draw_caches(seed, profile))
        assert outcome.problems == [], outcome.problems[0]
        assert outcome.sent > 20


@pytest.mark.parametrize(
    "name", ["shared-493", "sealed-271", "shared-579", "named-929", "shared-480"]
)
def test_schedules_of_shared_registers_that_were_found_hold(name: str) -> None:
    """design/simulate.md describes the fault that each of them found."""
    back_end, schedule = load(FOUND / f"{name}.json")
    assert back_end.play(schedule).problems == []


def test_every_back_end_is_drawn_with_and_without_faults() -> None:
    drawn = [draw_caches(seed, "cache") for seed in range(200)]
    kinds = {(s.back_end, s.sessions, bool(s.faults)) for s in drawn}
    assert len(kinds) == 12
    assert {s.store for s in drawn if s.back_end == "local"} == {"none", "through", "passivation"}
    assert {f.do for s in drawn for f in s.faults} == {"crash", "leave", "start", "pause", "cut"}


@pytest.mark.parametrize("profile", ["cache-replicated", "cache-buddy", "cache-local"])
def test_the_same_schedule_is_the_same_history(profile: str) -> None:
    schedule = draw_caches(5, profile)
    _, first = play_history(schedule)
    _, second = play_history(schedule)
    assert first == second
    assert len(first) > 20


def test_seed_107_a_member_that_gets_no_state_is_told_so_without_a_group_around_it() -> None:
    """``open_tree_cache`` raised an ExceptionGroup where it promises a StateTransferError."""
    assert play_caches(draw_caches(107, "cache-replicated")).problems == []


def test_merge_10_orders_of_an_ended_side_are_void() -> None:
    """Members applied batches that their coordinator had multicast before the merge, although it had taken another
    tree."""
    schedule = msgspec.structs.replace(draw(10, "merge"), shared=2)
    assert play(schedule).problems == []


@pytest.mark.parametrize("seed", [2125, 2755])
def test_a_merge_is_heard_of_though_somebody_joins_at_once(seed: int) -> None:
    """The view with the joiner took the place of the unread merge view: a member of the losing side kept its tree, and
    in 2755 gave it to the joiner."""
    assert play_caches(draw_caches(seed, "cache-replicated")).problems == []


PATHS = {"a": "/a", "x": "/a/x", "b": "/b", "y": "/b/y"}


def steps(*words: str) -> tuple[Do, ...]:
    """``do path+other wait``."""
    made = []
    for word in words:
        do, where, wait = word.split()
        path, _, other = where.partition("+")
        other = PATHS[other] if other else ""
        made.append(Do(do=do, path=PATHS[path], other=other, key="v", wait=float(wait)))  # type: ignore[arg-type]
    return tuple(made)


def test_seed_2755_shrunk_the_coordinator_of_the_losing_side_lets_somebody_in_as_it_merges() -> (
    None
):
    """The schedule of a seed changes when drawing changes, so this file has the small schedule that was found."""
    schedule = CacheSchedule(
        seed=2755,
        profile="cache-replicated",
        back_end="replicated",
        members=("A", "B", "C", "D"),
        late=("D",),
        link=Link(
            latency=0.003,
            jitter=0.0005,
            loss=0.02,
            duplicate=0.02,
            reorder=0.05,
            reorder_delay=0.005,
        ),
        callers=(
            Caller(
                member="C",
                steps=steps(
                    "rmw a .5",
                    "rmw x .1",
                    "rmw b .1",
                    "remove x .5",
                    "rmw a .1",
                    "rmw b .1",
                    "rmw y .5",
                    "put x .1",
                ),
            ),
            Caller(
                member="D",
                steps=steps(
                    "rmw a .5",
                    "rmw a .1",
                    "rmw y .1",
                    "pair b+x .1",
                    "change b .1",
                    "change y .1",
                    "rmw b .5",
                    "rmw x .5",
                ),
            ),
        ),
        faults=(
            CacheFault(at=1.05, do="start", who=("D",)),
            CacheFault(at=1.733, do="crash", who=("B",)),
            CacheFault(at=1.932, do="cut", who=("A", "B", "C"), seconds=6),
            CacheFault(at=3.408, do="start", who=("B",)),
            CacheFault(at=7.879, do="crash", who=("C",)),
            CacheFault(at=9.879, do="start", who=("C",)),
        ),
    )
    assert play_caches(schedule).problems == []


def cut(*who: str, majority: bool) -> CacheSchedule:
    """``who`` is cut off from the others for 6 s; A writes /b/y, after B has written /b, and A reads /b meanwhile."""
    return CacheSchedule(
        seed=580,
        profile="cache-buddy",
        back_end="buddy",
        members=("A", "B", "C", "D", "E"),
        buddies=1,
        majority=majority,
        link=Link(latency=0.003, jitter=0.0, loss=0.0, duplicate=0.0, reorder=0.0),
        callers=(
            Caller(
                member="A",
                steps=steps(
                    "change y .5",
                    "add b .5",
                    "cas y .5",
                    "add y .5",
                    "node y .5",
                    "node b .5",
                    "put y .1",
                    "cas y .5",
                    "node b .5",
                ),
            ),
            Caller(
                member="B",
                steps=steps(
                    "pair b+y .5",
                    "cas b .5",
                    "remove_tree b .5",
                    "rmw b .5",
                    "add b .5",
                    "add b .5",
                ),
            ),
        ),
        faults=(CacheFault(at=4.161, do="cut", who=who, seconds=6),),
    )


def kept(name: str) -> CacheSchedule:
    """Return the schedule that remained of a seed after shrinking."""
    file = FOUND / f"{name}.json"
    return from_json(file.read_text(), str(file))


def test_seed_546_a_merge_does_not_acknowledge_dropped_writes() -> None:
    """C was stopped while it wrote /b/y, and the others went on. The merge was the first news that C got: it dropped
    its holders, took their silence for consent, and returned True; the merge kept the others' value."""
    schedule = kept("cache-buddy-546")
    assert play_caches(schedule).problems == []
    assert play_caches(draw_caches(546, "cache-buddy")).problems == []


def test_seed_464_with_majority_nobody_is_killed_of_two() -> None:
    """The other call waits for ever, as documented: the schedule is at fault, not the cache."""
    outcome = play_caches(kept("cache-buddy-464"))
    assert outcome.problems == []
    assert outcome.faults == 0


def test_seed_464_a_member_started_while_it_leaves_starts_when_it_has_left() -> None:
    """B was still handing over when its start was due. The start was skipped, and the group had two members from then
    on."""
    outcome = play_caches(kept("cache-buddy-464-leave"))
    assert outcome.problems == []
    [started] = [line.split()[0] for line in outcome.story if "B#2 is started" in line]
    assert float(started) < 10


def test_seed_1250_of_sessions_a_joiner_whose_answers_were_lost_breaks_no_history() -> None:
    """A admitted B. The answers were lost, and so were those of discovery: B began a group of its own, while A's
    view had B. Since calls of joiners wait for the view, this schedule no longer splits a group."""
    outcome, _ = play_history(kept("cache-sessions-1250"))
    assert outcome.problems == []


def test_seed_1683_of_sessions_a_history_is_judged_until_a_member_that_found_nobody_goes_on_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B was killed and started again. Discovery's answers were lost, so B founded a group of its own, beside the
    group of A, which had admitted B without checking its presence."""
    trusting = stage.STACK.replace("<pbcast.GMS ", '<pbcast.GMS prove_joiners="false" ')
    assert trusting != stage.STACK
    monkeypatch.setattr(stage, "STACK", trusting)
    lost_otherwise = msgspec.structs.replace(
        kept("cache-sessions-1683"), seed=207
    )  # the losses of this seed
    outcome, history = play_history(lost_otherwise)
    assert outcome.problems == []
    [split] = [line for line in outcome.story if "each by itself" in line]
    assert float(split.split()[0]) > 2
    assert 1 < max(op.call for op in history) < 3


BEYOND = "one group goes on without more members than there are buddies"


@pytest.mark.parametrize("majority", [False, True])
def test_seed_580_shrunk_a_history_is_judged_until_one_group_goes_on_without_an_owner_and_its_buddies(
    majority: bool,
) -> None:
    """B owned /b, and C had its backup. A found neither the node nor a backup, 0.45 s before B and C
    had a view of their own."""
    outcome = play_caches(cut("B", "C", majority=majority))
    assert outcome.problems == []
    assert any(BEYOND in line for line in outcome.story)


def test_seed_580_the_larger_side_goes_on_without_an_owner_and_its_buddies() -> None:
    assert play_caches(draw_caches(580, "cache-buddy")).problems == []


@pytest.mark.parametrize("who", ["B", "C"])
def test_a_history_is_judged_to_its_end_if_no_more_members_than_buddies_are_cut_off(
    who: str,
) -> None:
    outcome, history = play_history(cut(who, majority=True))
    assert outcome.problems == []
    assert not any("go on" in line or "goes on" in line for line in outcome.story)
    assert max(op.call for op in history) > 10


@pytest.mark.parametrize("profile", PROFILES)
def test_registers_are_shared_in_some_seeds_of_each_profile(profile: str) -> None:
    shared = [seed for seed in range(40) if draw(seed, profile).shared]
    assert 3 < len(shared) < 20
    assert play(draw(shared[0], profile)).problems == []


# --- files


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"back_end": "local"', '"back_end": "remote"', "remote"),
        (
            '"member": "A"',
            '"member": "Z"',
            r"callers\[0\].member: nobody is called 'Z'; there are A",
        ),
        ('"do": "crash"', '"do": "explode"', "explode"),
    ],
)
def test_a_file_that_is_no_schedule_is_refused(old: str, new: str, problem: str) -> None:
    schedule = CacheSchedule(
        seed=1,
        profile="cache-local",
        back_end="local",
        members=("A",),
        callers=(Caller(member="A", steps=(Do(do="put", path="/a"),)),),
        faults=(CacheFault(at=1, do="crash", who=("A",)),),
    )
    text = schedule.to_json()
    assert old in text
    with pytest.raises(ConfigError, match=problem):
        from_json(text.replace(old, new), "1.json")


def test_caches_are_on_one_site() -> None:
    with pytest.raises(ConfigError, match="one site"):
        draw_caches(1, "cache", Size(sites=2))
    with pytest.raises(ConfigError, match="at most 8"):
        draw_caches(1, "cache", Size(members=(3, 9)))


# --- shrinking


def test_shrinking_leaves_the_needed_steps() -> None:
    """The schedule fails as long as a caller at B puts something while A is killed."""

    def player(schedule: CacheSchedule) -> RunOutcome:
        puts = any(c.member == "B" and s.do == "put" for c in schedule.callers for s in c.steps)
        killed = any(f.do == "crash" and "A" in f.who for f in schedule.faults)
        problems = [Violation("linearizable", "")] if puts and killed else []
        return RunOutcome(schedule.seed, problems)

    steps = tuple(Do(do=do, path="/a") for do in ("node", "put", "rmw", "exists"))
    schedule = CacheSchedule(
        seed=1,
        profile="cache-replicated",
        back_end="replicated",
        members=("A", "B", "C"),
        callers=tuple(Caller(member=m, steps=steps) for m in "ABCABC"),
        faults=tuple(CacheFault(at=at, do="crash", who=(who,)) for at, who in enumerate("CBAC")),
    )
    back_end = Caches()
    back_end.play = player  # type: ignore[method-assign, assignment]
    smaller = shrunk(back_end, schedule, player(schedule))
    assert smaller.callers == (Caller(member="B", steps=(Do(do="put", path="/a"),)),)
    assert [f.who for f in smaller.faults] == [("A",)]


# --- exactly the documented exceptions are excused

OLD, MAIN, SIDE, MERGED = [
    (n, m)
    for n, m in ((1, (b"a", b"b", b"c")), (2, (b"a", b"b")), (2, (b"c",)), (3, (b"a", b"b", b"c")))
]
WENT = Went(dict.fromkeys((OLD, MAIN, MERGED)), {(b"c", OLD): 5.0})
ADDRESSES = {"A": b"a", "C": b"c"}


def entry(member: str, do: Any, call: float, returned: float, begin: Any, end: Any) -> RecordedCall:
    what = Call(do, ("x",), (("v", f"{member}{call}"),) if do == "put" else ())
    made = RecordedCall(
        member, member, what, call, MemberPlace(begin), returned, MemberPlace(end), None
    )
    made.reads_only = do == "node"
    if returned == math.inf:
        made.result = UNKNOWN
    return made


def checked(*entries: RecordedCall) -> list[tuple[str, bool]]:
    """Return the judged operations, and whether each is known to have happened."""
    found = operations(entries, "replicated", {}, WENT, ADDRESSES, None)
    return [(op.caller, op.known) for op in found]


def test_a_change_on_the_line_that_went_on_is_exact() -> None:
    assert checked(entry("A", "put", 1, 2, OLD, OLD)) == [("A", True)]
    assert checked(entry("C", "put", 1, 2, OLD, OLD)) == [("C", True)]
    assert checked(entry("A", "put", 6, 7, MAIN, MAIN)) == [("A", True)]


def test_a_change_that_began_before_a_split_may_have_happened() -> None:
    assert checked(entry("C", "put", 4, 7, OLD, SIDE)) == [("C", False)]


def test_a_change_of_a_side_that_ended_is_gone() -> None:
    assert checked(entry("C", "put", 6, 7, SIDE, SIDE)) == []


def test_a_change_of_that_side_that_nobody_acknowledged_may_come_after_the_merge() -> None:
    assert checked(entry("C", "put", 6, math.inf, SIDE, None)) == [("C", False)]
    assert checked(entry("C", "put", 6, 9, SIDE, MERGED)) == [("C", True)]


def test_reads_where_others_had_gone_on_are_not_judged() -> None:
    assert checked(entry("C", "node", 4, 4.5, OLD, OLD)) == [("C", True)]
    assert checked(entry("C", "node", 5, 5.5, OLD, OLD)) == []
    assert checked(entry("C", "node", 6, 7, SIDE, SIDE)) == []
    assert checked(entry("A", "node", 5, 5.5, OLD, OLD)) == [("A", True)]


def test_a_read_there_of_an_unacknowledged_write_is_not_judged() -> None:
    unsure = entry("C", "put", 4, math.inf, OLD, None)
    assert checked(unsure, entry("C", "node", 4.2, 4.3, OLD, OLD)) == [("C", False)]
    assert checked(unsure, entry("A", "node", 4.2, 4.3, OLD, OLD)) == [("C", False), ("A", True)]


FIRST, BOTH, LAST = (1, (b"a", b"b", b"c")), (2, (b"a", b"b")), (3, (b"a",))


def line_of_a(*, b_has_both_at: float) -> Went:
    """A goes on at 1.0 without C, and at 2.0 without B; the view of 1.0 comes late to B or never."""
    clock = [0.0]
    places = Places(lambda: clock[0])
    a, b, _ = (places.join(n, n.lower().encode(), *FIRST) for n in "ABC")
    for at, journey, view in sorted(
        [(1.0, a, BOTH), (2.0, a, LAST), (b_has_both_at, b, BOTH)], key=lambda one: one[0]
    ):
        if at < math.inf:
            clock[0] = at
            places.install(journey, *view, ready=True)
    went = places.went_on(["A"])
    assert list(went.line) == [FIRST, BOTH, LAST]
    return went


def test_a_member_that_missed_the_last_common_view_was_left_out_of_its_own() -> None:
    left = {(b"c", FIRST): 1.0, (b"b", FIRST): 2.0, (b"b", BOTH): 2.0}
    assert line_of_a(b_has_both_at=math.inf).left == left


def test_a_member_with_a_timely_last_view_was_left_out_of_that_view() -> None:
    assert line_of_a(b_has_both_at=1.5).left == {(b"c", FIRST): 1.0, (b"b", BOTH): 2.0}


def test_seed_480_a_member_with_a_late_last_view_was_left_out_of_the_previous_one() -> None:
    """D was cut off from its coordinator, which installed two views meanwhile: the first with D, the second without D.
    The view with D reached it when the cut healed. D's reads from its old copy meanwhile were judged."""
    left = {(b"c", FIRST): 1.0, (b"b", FIRST): 2.0, (b"b", BOTH): 2.0}
    assert line_of_a(b_has_both_at=40.0).left == left


def test_lines_of_views() -> None:
    places = Places(lambda: 0.0)
    a = places.join("A", b"a", 0, [b"a"])
    places.install(a, 1, [b"a", b"b"], ready=True)
    b = places.join("B", b"b", 1, [b"a", b"b"])
    assert a.line == b.line
    places.install(a, 2, [b"a"], ready=True)
    places.install(b, 2, [b"b"], ready=True)
    places.install(b, 3, [b"a", b"b"], ready=False)
    assert b.place.waiting
    places.install(a, 3, [b"a", b"b"], ready=True)
    places.begin(b)
    assert b.line == a.line
    went = places.went_on(["A", "B"])
    assert went.left == {(b"b", (1, (b"a", b"b"))): 0.0}
    assert not went.has(MemberPlace((2, (b"b",)))) and went.has(MemberPlace((2, (b"a",))))
