"""Every kind of fault that is planted in an invented log is found, and no other fault is reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jgroups_py.drill.judge.verdict import Verdict, result


def named(findings: list[Any]) -> list[tuple[str, int, list[str]]]:
    return [(str(f.origin), f.seqno, [str(who) for who in f.at]) for f in findings]


def clean(verdict: Verdict) -> bool:
    return not (verdict.lost or verdict.lost_inside or verdict.duplicated or verdict.out_of_order)


def test_a_drill_in_which_all_arrives_has_no_findings(story: Any) -> None:
    for i in range(10):
        story.send(i * 0.1, "NYC.E")
        story.send(i * 0.1, "NYC.C")
    verdict = story.judge(lost="0", lost_inside="0", duplicated="0", out_of_order="0")
    assert clean(verdict)
    assert verdict.passed
    assert verdict.sites["NYC"].sent == 20
    assert verdict.sites["NYC"].delivered == 60
    assert verdict.sites["SFO"].delivered == 40
    assert verdict.rpo is None


def test_a_message_missing_at_every_member_of_the_other_site_is_lost(story: Any) -> None:
    story.send(0.1, "NYC.E")
    story.send(0.2, "NYC.E", skip=["SFO.T", "SFO.S"])
    story.send(0.3, "NYC.E")
    verdict = story.judge(lost="0")
    assert named(verdict.lost) == [("NYC.E#1", 2, ["SFO.T#1", "SFO.S#1"])]
    assert verdict.sites["NYC"].lost == 1
    assert verdict.lost_inside == []
    assert not verdict.passed


def test_a_last_message_that_is_missing_is_found_too(story: Any) -> None:
    story.send(0.1, "NYC.E")
    story.send(0.2, "NYC.E", skip=["SFO.T", "SFO.S"])
    assert named(story.judge().lost) == [("NYC.E#1", 2, ["SFO.T#1", "SFO.S#1"])]


def test_missing_at_one_member_of_the_other_site_is_lost_and_lost_inside(story: Any) -> None:
    story.send(0.1, "NYC.E", skip=["SFO.S"])
    story.send(0.2, "NYC.E")
    verdict = story.judge()
    assert named(verdict.lost) == [("NYC.E#1", 1, ["SFO.S#1"])]
    assert named(verdict.lost_inside) == [("NYC.E#1", 1, ["SFO.S#1"])]
    assert verdict.sites["SFO"].lost_inside == 1
    assert verdict.sites["NYC"].lost_inside == 0


def test_missing_at_one_member_of_home_is_lost_inside_only(story: Any) -> None:
    story.send(0.1, "NYC.E", skip=["NYC.C"])
    verdict = story.judge()
    assert verdict.lost == []
    assert named(verdict.lost_inside) == [("NYC.E#1", 1, ["NYC.C#1"])]


def test_a_message_that_only_a_crashed_member_delivered_is_lost_but_not_inside(story: Any) -> None:
    story.send(0.5, "NYC.E", skip=["NYC.D", "NYC.C", "SFO.T", "SFO.S"])
    story.fault(0.6, "crash", "NYC.E")
    story.view(0.8, "NYC", ["D", "C"])
    verdict = story.judge()
    assert named(verdict.lost) == [("NYC.E#1", 1, ["SFO.T#1", "SFO.S#1"])]
    assert verdict.lost_inside == []


def test_survivors_that_disagree_on_a_crashed_members_message_are_found(story: Any) -> None:
    story.send(0.5, "NYC.E", skip=["NYC.C"])
    story.fault(0.6, "crash", "NYC.E")
    story.view(0.8, "NYC", ["D", "C"])
    assert named(story.judge().lost_inside) == [("NYC.E#1", 1, ["NYC.C#1"])]


@pytest.mark.parametrize("origin_too", [False, True])
def test_a_member_with_the_next_view_owed_the_earlier_message_of_any_sender(
    story: Any, origin_too: bool
) -> None:
    """D failed; C lacks a message of E, shares the next view with D, and fails, too."""
    story.send(0.5, "NYC.E", skip=["NYC.C"])
    story.fault(0.5, "crash", "NYC.D")
    story.view(0.7, "NYC", ["E", "C"])
    if origin_too:
        story.fault(0.75, "crash", "NYC.E")
        story.view(0.8, "NYC", ["C"], to=["C#1"])
    story.fault(0.9, "crash", "NYC.C")
    assert named(story.judge().lost_inside) == [("NYC.E#1", 1, ["NYC.C#1"])]


@pytest.mark.parametrize("noticed", [True, False])
def test_a_member_that_had_a_view_without_the_other_in_between_owed_nothing(
    story: Any, noticed: bool
) -> None:
    """C is cut off from E. E does not notice, and merges from its old view; C may have noticed."""
    story.send(0.5, "NYC.E", skip=["NYC.D", "NYC.C"])
    if noticed:
        story.view(0.7, "NYC", ["D", "C"], to=["D#1", "C#1"])
    story.view(0.9, "NYC", ["E", "D", "C"])
    story.send(1.0, "NYC.E", skip=[])
    found = [] if noticed else [("NYC.E#1", 1, ["NYC.D#1", "NYC.C#1"])]
    assert named(story.judge().lost_inside) == found


def test_a_member_that_falls_before_the_next_view_owed_nothing(story: Any) -> None:
    story.send(0.5, "NYC.E", skip=["NYC.C"])
    story.fault(0.5, "crash", "NYC.D")
    story.fault(0.6, "crash", "NYC.C")
    story.view(0.7, "NYC", ["E"])
    assert story.judge().lost_inside == []


def test_a_message_nobody_delivered_is_unsent_not_lost(story: Any) -> None:
    story.send(0.1, "NYC.E")
    story.send(0.5, "NYC.E", skip=["NYC.E", "NYC.D", "NYC.C", "SFO.T", "SFO.S"])
    verdict = story.judge()
    assert clean(verdict)
    assert verdict.sites["NYC"].unsent == 1


def test_a_message_delivered_abroad_only_is_not_counted(story: Any) -> None:
    story.send(0.5, "NYC.E", skip=["NYC.E", "NYC.D", "NYC.C", "SFO.S"])
    verdict = story.judge()
    assert verdict.lost == []
    assert verdict.sites["NYC"].unsent == 0
    assert named(verdict.lost_inside) == [("NYC.E#1", 1, ["SFO.S#1"])]


def test_a_duplicate_is_found(story: Any) -> None:
    story.send(0.1, "NYC.E")
    story.deliver(0.4, "SFO.T", "NYC.E", 1)
    story.deliver(0.5, "SFO.T", "NYC.E", 1)
    verdict = story.judge(duplicated="0")
    assert named(verdict.duplicated) == [("NYC.E#1", 1, ["SFO.T#1"])] * 2
    assert verdict.out_of_order == []
    assert verdict.sites["SFO"].delivered == 4


def test_a_message_after_a_higher_one_is_out_of_order_and_not_lost(story: Any) -> None:
    story.send(0.1, "NYC.E", skip=["SFO.T"])
    story.send(0.2, "NYC.E")
    story.deliver(0.4, "SFO.T", "NYC.E", 1)
    verdict = story.judge()
    assert named(verdict.out_of_order) == [("NYC.E#1", 1, ["SFO.T#1"])]
    assert verdict.lost == []
    assert verdict.duplicated == []


def test_messages_of_a_backup_site_are_lost_unless_the_drill_says_primary_only(story: Any) -> None:
    story.send(0.1, "SFO.T", skip=["NYC.E", "NYC.D", "NYC.C"])
    verdict = story.judge(lost="0")
    assert named(verdict.lost) == [("SFO.T#1", 1, ["NYC.E#1", "NYC.D#1", "NYC.C#1"])]
    assert verdict.sites["SFO"].not_relayed == verdict.not_relayed == 1
    assert not verdict.passed
    verdict = story.judge(lost="0", primary_only=True)
    assert clean(verdict)
    assert verdict.passed
    assert verdict.sites["SFO"].not_relayed == 1
    verdict = story.judge(primary=None)
    assert len(verdict.lost) == 1
    assert verdict.not_relayed == 0


def test_messages_that_a_backup_sent_just_before_it_failed_are_unrelayed(story: Any) -> None:
    nyc = ["NYC.E", "NYC.D", "NYC.C"]
    story.send(0.1, "SFO.T", skip=nyc)
    story.send(4.5, "SFO.T", skip=nyc)
    story.fail(5.0, "SFO")
    verdict = story.judge()
    assert [f.seqno for f in verdict.lost] == [1]
    assert [f.seqno for f in verdict.unrelayed] == [2]
    assert verdict.rpo == pytest.approx(0.5)
    assert verdict.not_relayed == 2


def test_a_late_joiner_is_obliged_from_its_first_view_on(story: Any) -> None:
    story.send(0.1, "NYC.E")
    story.fault(1.0, "join", "SFO.U")
    story.view(1.0, "SFO", ["T", "S", "U"])
    story.send(1.5, "NYC.E", skip=["SFO.U"])
    verdict = story.judge()
    assert named(verdict.lost) == [("NYC.E#1", 2, ["SFO.U#1"])]
    assert named(verdict.lost_inside) == [("NYC.E#1", 2, ["SFO.U#1"])]


def test_a_restarted_member_is_a_new_receiver_and_a_new_origin(story: Any) -> None:
    story.send(0.1, "NYC.E")
    story.fault(0.5, "crash", "NYC.E")
    story.view(0.8, "NYC", ["D", "C"])
    story.fault(1.0, "restart", "NYC.E#2")
    story.view(1.5, "NYC", ["D", "C", "E#2"])
    story.send(2.0, "NYC.E#2")  # seqno 1 again: no duplicate
    story.send(2.1, "NYC.E#2", skip=["SFO.T", "SFO.S"])
    verdict = story.judge()
    assert named(verdict.lost) == [("NYC.E#2", 2, ["SFO.T#1", "SFO.S#1"])]
    assert verdict.duplicated == []
    assert verdict.lost_inside == []


def test_dead_and_departed_members_are_not_obliged(story: Any) -> None:
    story.fault(0.5, "leave", "SFO.T")
    story.view(0.6, "SFO", ["S"])
    story.send(1.0, "NYC.E")
    assert clean(story.judge())


def test_a_site_failure_counts_messages_delivered_a_grace_before(story: Any) -> None:
    away = ["SFO.T", "SFO.S"]
    story.send(3.5, "NYC.E", skip=away)  # 1.5 s before: counted
    story.send(4.8, "NYC.E", skip=away)  # 0.2 s before: unrelayed
    story.send(4.9, "NYC.E", skip=away)
    story.fail(5.0, "NYC")
    story.bridge(7.0, "SFO", ["SFO"])
    verdict = story.judge(unrelayed_at_site_failure="<= 0.3", detection="<= 2.5")
    assert named(verdict.lost) == [("NYC.E#1", 1, ["SFO.T#1", "SFO.S#1"])]
    assert [f.seqno for f in verdict.unrelayed] == [2, 3]
    assert verdict.rpo == pytest.approx(0.2)
    assert verdict.passed
    assert [m.seconds for m in verdict.detections] == [pytest.approx(2.0)]
    assert verdict.takeovers == []


def test_actions_of_a_vanished_member_are_no_evidence(story: Any) -> None:
    story.fault(1.0, "vanish", "NYC.E")
    story.view(1.5, "NYC", ["D", "C"])
    story.fault(2.0, "send", "NYC.E", origin="E#1", seqno=1)
    story.deliver(2.0, "NYC.E", "NYC.E", 1)
    story.view(3.0, "NYC", ["E"], to=["E"])
    verdict = story.judge()
    assert clean(verdict)
    assert verdict.sites["NYC"].sent == 0


def test_a_site_whose_last_member_crashes_has_failed(story: Any) -> None:
    for i, name in enumerate(["E", "D", "C"]):
        story.fault(1.0 + i, "crash", f"NYC.{name}")
    story.send(2.9, "NYC.C", skip=["NYC.E", "NYC.D", "SFO.T", "SFO.S"])
    verdict = story.judge()
    assert verdict.lost == []
    assert len(verdict.unrelayed) == 1
    assert verdict.rpo == pytest.approx(0.1)


def test_a_failed_site_with_nothing_unrelayed_has_a_recovery_point_of_zero(story: Any) -> None:
    story.send(1.0, "NYC.E")
    story.fail(5.0, "NYC")
    assert story.judge().rpo == 0


def test_a_failed_site_may_come_back(story: Any) -> None:
    story.send(0.5, "NYC.E")
    story.fail(2.0, "NYC")
    story.fault(4.0, "restart", "NYC.E#2")
    story.view(5.0, "NYC", ["E#2"])
    story.send(5.5, "NYC.E#2", skip=["SFO.T", "SFO.S"])
    assert named(story.judge().lost) == [("NYC.E#2", 1, ["SFO.T#1", "SFO.S#1"])]


def test_detection_lasts_until_the_last_survivor_has_its_view(story: Any) -> None:
    story.fault(1.0, "crash", "NYC.C")
    story.view(1.4, "NYC", ["E", "D"], to=["E"])
    story.view(1.9, "NYC", ["E", "D"], to=["D"])
    verdict = story.judge(detection="<= 0.8")
    assert [m.seconds for m in verdict.detections] == [pytest.approx(0.9)]
    assert not verdict.passed


def test_a_survivor_who_never_learns_of_it_makes_detection_unmeasured(story: Any) -> None:
    story.fault(1.0, "crash", "NYC.C")
    story.view(1.4, "NYC", ["E", "D"], to=["E"])
    verdict = story.judge(detection="<= 10")
    assert [m.seconds for m in verdict.detections] == [None]
    assert verdict.expectations[0].measured is None
    assert not verdict.passed


def test_each_victim_of_a_double_crash_is_measured_for_itself(story: Any) -> None:
    story.fault(1.0, "crash", "NYC.E")
    story.fault(1.3, "crash", "NYC.D")
    story.view(2.0, "NYC", ["C"])
    story.send(2.5, "NYC.C")
    verdict = story.judge()
    assert [m.seconds for m in verdict.detections] == pytest.approx([1.0, 0.7])
    # D was not the relay yet: its view still began with E.
    assert [(str(m.who), m.seconds) for m in verdict.takeovers] == [
        ("NYC.E#1", pytest.approx(1.5 + 0.05))
    ]


def test_replayed_messages_do_not_end_a_takeover(story: Any) -> None:
    story.send(0.9, "NYC.C", skip=["SFO.T", "SFO.S"])
    story.fault(1.0, "crash", "NYC.E")
    story.view(1.5, "NYC", ["D", "C"])
    story.deliver(2.0, "SFO.T", "NYC.C", 1)  # sent before: replayed
    story.deliver(2.0, "SFO.S", "NYC.C", 1)
    story.send(3.0, "NYC.C")
    verdict = story.judge(takeover="<= 30")
    assert [m.seconds for m in verdict.takeovers] == [pytest.approx(2.05)]
    assert clean(verdict)
    assert verdict.passed


def test_a_missing_takeover_is_null_and_fails_the_expectation(story: Any) -> None:
    story.send(0.5, "NYC.E")
    story.fault(1.0, "crash", "NYC.E")
    story.view(1.5, "NYC", ["D", "C"])
    verdict = story.judge(takeover="<= 30")
    assert [m.seconds for m in verdict.takeovers] == [None]
    assert not verdict.passed


def test_a_crash_of_another_member_is_no_takeover(story: Any) -> None:
    story.fault(1.0, "crash", "NYC.C")
    story.view(1.5, "NYC", ["E", "D"])
    assert story.judge().takeovers == []


def test_the_takeover_of_a_backup_relay_ends_with_a_delivery_at_its_site(story: Any) -> None:
    story.fault(1.0, "crash", "SFO.T")
    story.view(1.5, "SFO", ["S"])
    story.send(2.0, "NYC.E")
    assert [m.seconds for m in story.judge().takeovers] == [pytest.approx(1.05)]


def test_the_smaller_side_of_a_split_is_not_obliged_until_it_is_back(story: Any) -> None:
    story.view(1.0, "NYC", ["E", "D"], to=["E", "D"])
    story.view(1.0, "NYC", ["C"], to=["C"])
    story.send(2.0, "NYC.E", skip=["NYC.C"])
    assert clean(story.judge())
    story.view(3.0, "SFO", ["T"], to=["T"])
    story.view(3.0, "SFO", ["S"], to=["S"])
    story.send(3.5, "NYC.E", skip=["NYC.C", "SFO.S"])
    assert clean(story.judge())  # of the two halves, that with the coordinator
    story.view(4.0, "SFO", ["T", "S"])
    story.send(5.0, "NYC.E", skip=["NYC.C", "SFO.S"])
    assert named(story.judge().lost) == [("NYC.E#1", 3, ["SFO.S#1"])]


def test_a_member_that_is_cut_off_or_paused_when_judged_is_not_obliged(story: Any) -> None:
    groups = [["NYC.E", "NYC.D", "NYC.C"], ["SFO.T", "SFO.S"]]
    story.fault(1.0, "partition", groups=groups)
    story.send(2.0, "NYC.E", skip=["SFO.T", "SFO.S"])
    assert clean(story.judge())
    story.fault(3.0, "heal", groups=groups)
    assert len(story.judge().lost) == 1
    story.fault(4.0, "pause", "SFO.S")
    assert named(story.judge().lost) == [("NYC.E#1", 1, ["SFO.T#1"])]
    story.fault(5.0, "resume", "SFO.S")
    assert named(story.judge().lost) == [("NYC.E#1", 1, ["SFO.T#1", "SFO.S#1"])]


def test_after_promotion_the_other_site_is_directed_to_relay(story: Any) -> None:
    story.fault(5.0, "promote", "SFO")
    nyc, sfo = ["NYC.E", "NYC.D", "NYC.C"], ["SFO.T", "SFO.S"]
    story.send(1.0, "NYC.E", skip=sfo)  # lost
    story.send(4.5, "NYC.E", skip=sfo)  # within grace of the promotion
    story.send(5.5, "NYC.E", skip=sfo)  # within grace: C may not know yet
    story.send(6.5, "NYC.E", skip=sfo)  # not directed any longer
    story.send(4.0, "SFO.T", skip=nyc)  # not yet
    story.send(5.5, "SFO.T", skip=nyc)  # within grace
    story.send(6.5, "SFO.T", skip=nyc)  # lost
    verdict = story.judge(primary_only=True)
    assert [(str(f.origin), f.seqno) for f in verdict.lost] == [("NYC.E#1", 1), ("SFO.T#1", 3)]
    assert len(verdict.unrelayed) == 1
    assert verdict.rpo is None
    assert [numbers.not_relayed for numbers in verdict.sites.values()] == [1, 1]
    every = [("NYC.E#1", 1), ("NYC.E#1", 4), ("SFO.T#1", 1), ("SFO.T#1", 3)]
    assert [(str(f.origin), f.seqno) for f in story.judge().lost] == every


def test_a_view_the_channel_left_out_does_not_hide_a_loss(story: Any) -> None:
    story.view(1.0, "NYC", ["E", "D", "C", "B"], to=["E", "D", "B"])
    story.send(1.5, "NYC.E", skip=["NYC.C"])
    story.view(2.0, "NYC", ["E", "D", "C"])
    assert named(story.judge().lost_inside) == [("NYC.E#1", 1, ["NYC.C#1"])]


def test_relaying_and_samples_are_information(story: Any) -> None:
    story.send(0.1, "NYC.E")
    story.fault(0.2, "relay", "NYC.E", origin="E#1", to="SFO", count=5)
    story.fault(0.2, "replay", "NYC.D", to="SFO", count=2)
    story.fault(0.3, "buffer", "SFO.T", messages=3, duplicates_dropped=1)
    story.fault(0.4, "buffer", "SFO.T", messages=0, duplicates_dropped=4)
    verdict = story.judge()
    assert verdict.sites["NYC"].relayed == 5
    assert verdict.sites["NYC"].replayed == 2
    assert verdict.sites["SFO"].duplicates_dropped == 4


def test_the_result_has_the_keys_of_the_contract(story: Any) -> None:
    story.send(0.1, "NYC.E", skip=["SFO.S"])
    printed = result(
        story.judge(lost="<= 3"), name="x", mode="simulated", seed=7, virtual_s=3.0, wall_s=0.1
    )
    assert list(printed)[:16] == [
        "name",
        "mode",
        "seed",
        "verdict",
        "expectations",
        "sites",
        "lost",
        "lost_inside",
        "duplicated",
        "out_of_order",
        "unrelayed",
        "detection_s",
        "takeover_s",
        "rpo_s",
        "virtual_s",
        "wall_s",
    ]
    assert list(printed["sites"]["NYC"])[:9] == [
        "sent",
        "delivered",
        "relayed",
        "replayed",
        "duplicates_dropped",
        "lost",
        "lost_inside",
        "unsent",
        "views",
    ]
    assert printed["expectations"] == [
        {"name": "lost", "limit": "<= 3", "measured": 1, "holds": True}
    ]
    assert printed["verdict"] == "pass"
    assert printed["lost"] == [
        {"site": "NYC", "origin": "E#1", "seqno": 1, "missing_at": ["SFO.S#1"]}
    ]


@given(
    holes=st.dictionaries(
        st.integers(1, 30), st.lists(st.sampled_from(["SFO.T", "SFO.S"]), min_size=1, unique=True)
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_exactly_the_planted_losses_are_found(new_story: Any, holes: Any) -> None:
    story = new_story({"NYC": ["E", "D", "C"], "SFO": ["T", "S"]})
    for seqno in range(1, 31):
        story.send(seqno * 0.1, "NYC.D", skip=holes.get(seqno, ()))
    found = {f.seqno: sorted(str(who)[:-2] for who in f.at) for f in story.judge().lost}
    assert found == {seqno: sorted(skip) for seqno, skip in holes.items()}


def test_a_partition_between_others_excuses_nobody_else(story: Any) -> None:
    story.fault(1.0, "partition", groups=[["NYC.D"], ["NYC.C"]])
    story.send(2.0, "NYC.E", skip=["SFO.T", "NYC.D", "NYC.C"])
    assert named(story.judge().lost) == [("NYC.E#1", 1, ["SFO.T#1"])]
