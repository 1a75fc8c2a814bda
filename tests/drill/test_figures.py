"""RTO, latency, lag and buffers, calculated from made-up logs."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.drill.judge import cache_figures
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures, figures, growth
from jgroups_py.drill.judge.flows import SiteFlow, flow, lags, latencies, percentile
from jgroups_py.drill.log import DrillRecord


def of(story: Any, primary: str | None = "NYC") -> Figures:
    return figures(story.evidence(), story.judge(primary=primary))


def recovered(story: Any, primary: str | None = "NYC") -> Any:
    """Event and seconds of each recovery; Any, because it is compared with ``approx``."""
    return [(r.event, r.seconds) for r in of(story, primary).recoveries]


def test_rto_is_the_time_in_which_something_waited_after_the_fault(story: Any) -> None:
    story.send(0.5, "NYC.E")
    story.send(0.9, "NYC.E", skip=["SFO.T", "SFO.S"])
    story.fault(1.0, "crash", "NYC.D")
    story.deliver(1.1, "SFO.T", "NYC.E", 2)  # sent before the crash: its arrival ends no recovery
    story.send(1.05, "NYC.C", skip=["SFO.T", "SFO.S"])
    story.deliver(1.85, "SFO.T", "NYC.C", 1)
    found = of(story)
    assert found.rto == pytest.approx(0.85)
    assert [(str(r.who), r.why) for r in found.recoveries] == [("NYC.D#1", "")]


def test_rto_leaves_out_the_time_in_which_nothing_was_sent(story: Any) -> None:
    for at in (0.0, 5.0, 10.0):
        story.send(at, "NYC.E")
    story.fault(6.0, "crash", "NYC.C")
    (recovery,) = of(story).recoveries
    assert recovery.seconds == pytest.approx(0.05)  # as long as any message takes
    assert recovery.start == pytest.approx(10.0)


def test_rto_has_the_wait_of_messages_under_way_at_the_fault(story: Any) -> None:
    """Messages are rare: one was relayed again only after the take-over, and the next one was sent after that."""
    story.send(0.99, "NYC.E", skip=["SFO.T", "SFO.S"])
    story.fault(1.0, "crash", "NYC.C")
    story.deliver(4.0, "SFO.T", "NYC.E", 1)
    story.send(5.0, "NYC.E")
    (recovery,) = of(story).recoveries
    assert recovery.start == 1.0
    assert recovery.seconds == pytest.approx(3.0)


def test_rto_has_the_wait_of_lost_messages(story: Any) -> None:
    story.send(0.5, "NYC.E")
    story.fault(1.0, "crash", "NYC.C")
    story.send(2.0, "NYC.E", skip=["SFO.T", "SFO.S"])
    story.send(4.0, "NYC.E")
    assert recovered(story) == [("crash", pytest.approx(2.05))]


def test_rto_is_not_there_without_a_fault_or_without_traffic_after_it(story: Any) -> None:
    story.send(0.5, "NYC.E")
    assert of(story).rto is None
    story.fault(1.0, "crash", "NYC.D")
    found = of(story)
    assert found.rto is None
    assert found.recoveries[0].why == "nothing was sent after it by which to measure"


def test_traffic_of_a_site_that_does_not_relay_is_not_called_silence(new_story: Any) -> None:
    story = new_story({"NYC": ["E"], "LON": ["L", "X"]})
    story.send(0.5, "LON.L", skip=["NYC.E"])
    story.fault(1.0, "crash", "LON.X")
    story.send(1.5, "LON.L", skip=["NYC.E"])
    (recovery,) = of(story).recoveries
    assert recovery.why == "LON does not relay, so its traffic says nothing"


def test_a_service_that_never_goes_on_is_named(story: Any) -> None:
    story.send(0.5, "NYC.E")
    story.fault(0.6, "crash", "NYC.C")
    story.send(0.7, "NYC.E")
    story.fault(1.0, "crash", "NYC.D")
    story.send(2.0, "NYC.E", skip=["SFO.T", "SFO.S"])
    found = of(story)
    assert [r.missing for r in found.recoveries] == [False, True]
    assert "SFO got nothing of NYC" in found.recoveries[1].why
    assert found.printed()["not_recovered"] == ["crash NYC.D"]
    assert found.rto == found.recoveries[0].seconds  # of the fault from which the sites recovered


def test_messages_under_way_to_a_site_that_fails_then_are_not_missing(story: Any) -> None:
    story.send(0.5, "NYC.E")
    story.fault(1.0, "crash", "NYC.D")
    story.send(2.0, "NYC.E", skip=["SFO.T", "SFO.S"])
    story.fail(3.0, "SFO")
    assert [r.missing for r in of(story).recoveries if r.event == "crash"] == [False]


def test_a_primary_that_fails_for_good_is_not_recovered(story: Any) -> None:
    story.send(0.5, "NYC.E")
    story.fail(1.0, "NYC")
    found = of(story)
    assert found.printed()["not_recovered"] == ["fail_site NYC"]
    assert found.printed()["rto_s"] is None
    story.fault(3.0, "promote", "SFO")
    assert of(story).printed()["not_recovered"] == []


def test_a_failed_site_is_recovered_by_messages_of_the_promoted_one(story: Any) -> None:
    story.send(0.5, "NYC.E")
    story.fail(1.0, "NYC")
    assert recovered(story) == [("fail_site", None)]
    assert of(story).recoveries[0].why == "no other site was promoted"
    story.fault(3.0, "promote", "SFO")
    assert "nothing was sent at SFO" in of(story).recoveries[0].why
    story.send(3.5, "SFO.T")
    assert recovered(story) == [("fail_site", pytest.approx(2.001))]


def test_a_backup_that_fails_is_recovered_between_the_sites_that_are_left(new_story: Any) -> None:
    story = new_story({"NYC": ["E", "D"], "LON": ["L"], "SFO": ["T"]})
    story.send(0.5, "NYC.E")
    story.fail(1.0, "SFO")
    story.send(1.2, "NYC.E")
    assert recovered(story) == [("fail_site", pytest.approx(0.05))]


def test_a_partition_lasts_until_something_sent_after_it_arrives(story: Any) -> None:
    story.send(0.5, "NYC.E")
    sides = [["NYC.E", "NYC.D", "NYC.C"], ["SFO.T", "SFO.S"]]
    story.fault(1.0, "partition", groups=sides)
    story.send(1.5, "NYC.E", skip=["SFO.T", "SFO.S"])
    story.fault(2.0, "heal", groups=sides)
    story.deliver(2.3, "SFO.T", "NYC.E", 2)
    assert recovered(story) == [("partition", pytest.approx(0.8))]


def test_a_backup_site_does_not_count_as_a_way(story: Any) -> None:
    """Messages of a site that does not relay say nothing about the service."""
    story.send(0.5, "NYC.E")
    story.send(0.5, "SFO.T")
    story.fault(1.0, "crash", "SFO.S")
    story.send(1.5, "NYC.E")
    story.send(3.0, "SFO.T", skip=["NYC.E", "NYC.D", "NYC.C"])
    story.deliver(5.0, "NYC.E", "SFO.T", 2)
    assert recovered(story) == [("crash", pytest.approx(0.05))]
    assert recovered(story, None) == [("crash", pytest.approx(2.0))]


def test_latency_is_of_every_delivery_and_lag_of_first_ones(story: Any) -> None:
    for number in range(98):
        story.send(number * 0.01, "NYC.E")
    story.send(1.0, "NYC.E", skip=["SFO.T", "SFO.S"])
    story.deliver(1.5, "SFO.T", "NYC.E", 99)
    story.deliver(4.0, "SFO.S", "NYC.E", 99)
    found = of(story)
    assert found.latency_p50 == pytest.approx(0.05)
    assert found.latency_p99 == pytest.approx(0.5)  # rank 197 of 198
    assert found.lag == pytest.approx(0.5)
    story.send(2.0, "NYC.E", skip=["SFO.T", "SFO.S"])
    story.deliver(4.0, "SFO.T", "NYC.E", 100)
    found = of(story)
    assert found.latency_p99 == pytest.approx(2.0)  # rank 198 of 199
    assert found.lag == pytest.approx(2.0)


def test_in_a_drill_of_one_site_latency_is_that_of_the_others(new_story: Any) -> None:
    story = new_story({"NYC": ["E", "D", "C"]})
    story.send(1.0, "NYC.E")
    assert of(story).latency_p50 == pytest.approx(0.001)


def test_percentiles_are_nearest_ranks() -> None:
    numbers = [float(n) for n in range(1, 101)]
    assert [percentile(numbers, part) for part in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert percentile([7.0], 0.99) == 7
    assert percentile([], 0.5) is None


def test_lag_grows_while_the_oldest_message_is_under_way() -> None:
    flow = SiteFlow("NYC", "SFO", [], [], [(0.5, 0.6), (1.0, 3.5), (2.0, 3.6), (3.9, 4.0)])
    assert lags(flow, [0, 1, 2, 3, 4, 5]) == pytest.approx([0.1, 1.0, 2.0, 2.5, 0.1])


def test_latency_over_time_goes_by_the_time_of_sending() -> None:
    flow = SiteFlow("NYC", "SFO", [], [], [(0.5, 0.6), (0.6, 0.9), (1.5, 3.5)])
    assert latencies(flow, [0, 1, 2, 3], 0.99) == [pytest.approx(0.3), 2.0, None]
    assert latencies(flow, [0, 1, 2, 3], 0.5)[0] == pytest.approx(0.1)


def test_the_time_until_full_is_taken_from_a_steady_growth() -> None:
    steady = [(n / 10, n / 1000) for n in range(31)]
    found = growth(steady)
    assert found is not None
    assert found.t == 3.0
    assert found.rate == pytest.approx(0.01)
    assert found.until_full == pytest.approx(97)
    saw = [(n / 10, n % 5 / 1000) for n in range(40)]
    assert growth(saw) is None
    assert growth([(n / 10, 0.5) for n in range(40)]) is None
    assert growth(steady[:10]) is None  # less than a second
    assert growth([]) is None


def test_the_fullest_buffer_counts_in_parts_of_its_limit(story: Any) -> None:
    story.fault(-0.5, "buffer", "NYC.E", fill=0.9)  # before the drill
    story.fault(1.0, "buffer", "NYC.E", fill=0.2)
    story.fault(1.0, "buffer", "NYC.D", fill=0.25)
    found = of(story)
    assert found.buffer == 0.25
    assert found.printed()["buffer_percent"] == 25.0
    assert found.until_full is None


def cache_evidence(*more: DrillRecord) -> Evidence:
    records = [DrillRecord(-1.0, "NYC", name, "join") for name in "ABC"]
    for number, (name, t, took) in enumerate(
        [("A", 0.5, 0.01), ("B", 1.2, 0.1), ("C", 1.1, 2.0), ("B", 2.0, 0.01)], 1
    ):
        records.append(DrillRecord(t, "NYC", name, "put", f"{name}#1", number, {"key": 1}))
        records.append(DrillRecord(t + took, "NYC", name, "acked", f"{name}#1", number, {"key": 1}))
    records += [
        DrillRecord(1.0, "NYC", "A", "crash"),
        DrillRecord(2.5, "NYC", "B", "got", None, None, {"key": 1, "took": 0.3}),
        DrillRecord(9.0, "NYC", "B", "got", None, None, {"key": 1, "took": 5.0, "last": True}),
        *more,
    ]
    return Evidence.of(sorted(records, key=lambda record: record.t), ["NYC"])


def test_rto_of_caches_is_until_every_application_could_write_again() -> None:
    evidence = cache_evidence()
    asked = cache_figures.requests(evidence)
    assert sorted(round(r.ended - r.began, 6) for r in asked) == [0.01, 0.01, 0.1, 0.3, 2.0]
    found = cache_figures.figures(evidence, asked, [])
    assert found.rto == pytest.approx(2.0)
    assert found.latency_p50 == pytest.approx(0.1)
    assert found.latency_p99 == pytest.approx(2.0)


def test_rto_of_caches_leaves_out_members_that_fell_before_they_could_write() -> None:
    evidence = cache_evidence(DrillRecord(1.95, "NYC", "C", "crash"))
    found = cache_figures.figures(evidence, cache_figures.requests(evidence), [])
    assert [r.seconds for r in found.recoveries] == [pytest.approx(2.0), pytest.approx(0.01)]


def test_a_message_whose_sending_is_in_no_log_was_sent_at_no_time(story: Any) -> None:
    story.send(1.0, "NYC.E")
    story._add(2.0, "NYC.E", "send", "E#1", 3)  # and no message of 2
    assert flow(story.evidence(), "NYC", "SFO").sent == [1.0, 2.0]
