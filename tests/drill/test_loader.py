"""Drill files are read word by word; errors give the place of a mistake."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan, values
from jgroups_py.drill.file.model import FAULTS, Selector
from jgroups_py.drill.file.values import DrawnValue
from jgroups_py.errors import ConfigError

CONTRACT = """\
name: NYC loses its relay, its next relay and standby, then itself
seed: 7                          # --seed overrides
primary: NYC                     # default: the first site; `all` = every site relays
sites:
  NYC: {members: [E, D, C, B, A], stack: relay-udp.xml}     # join order
  SFO: {members: [T, S, U, V, W], stack: relay-udp.xml}
bridge: {stack: relay-bridge-tcp.xml, latency: 40ms, jitter: 5ms, loss: 0%}
network: {latency: 0.2ms, jitter: 0.1ms, loss: 0.1%, duplicate: 0%, reorder: 0%}   # inside a site
set: {RELAY.buffering_members: 3}           # attributes overridden
traffic:
  - {site: NYC, members: all, rate: 200/s, size: 1KB, start: 0s, stop: 30s}   # rate per member
timeline:
  - {at: 8s..10s, crash: NYC.relay}         # a range is drawn from the seed
  - {at: 14s, crash: [NYC.relay, NYC.standby], gap: 0.3s}
  - {at: 16s, pause: NYC.newest, for: 3s}   # SIGSTOP / SIGCONT
  - {at: 20s, leave: SFO.relay}             # graceful
  - {at: 21s, restart: NYC.E}
  - {at: 22s, partition: [[NYC], [SFO]], for: 4s}                            # sites
  - {at: 27s, partition: [[SFO.S, SFO.U], [SFO.V, SFO.W]], for: 2s}          # members
  - {at: 29s, fail_site: NYC}               # every member at once, silently
  - {at: 29.5s, promote: SFO}
settle: 10s
grace: 1s
expect:
  lost: 0
  lost_inside: 0
  duplicated: 0
  out_of_order: 0
  detection: <= 10s
  takeover: <= 30s
  unrelayed_at_site_failure: <= 200ms
"""
SMALL = """\
sites:
  NYC: {members: [E, D, C]}
  SFO: {members: [T, S]}
"""


def small(*lines: str) -> str:
    return SMALL + "\n".join(lines) + "\n"


def test_the_example_of_the_contract_is_read() -> None:
    drill = loader.loads(CONTRACT)
    assert drill.name.startswith("NYC loses its relay")
    assert drill.seed == 7
    assert drill.primary == "NYC"
    assert drill.site("NYC").members == ("E", "D", "C", "B", "A")
    assert drill.bridge.network.latency == DrawnValue(0.04, 0.04)
    assert drill.bridge.network.reorder is None
    assert drill.network.loss == DrawnValue(0.001, 0.001)
    assert [(o.protocol, o.attribute, o.value) for o in drill.overrides] == [
        ("RELAY", "buffering_members", "3")
    ]
    (traffic,) = drill.traffic
    assert (traffic.rate, traffic.size) == (DrawnValue(200, 200), 1000)
    assert traffic.members == ("E", "D", "C", "B", "A")
    first, second, pause, leave, restart, sites, members, fail, promote = drill.timeline
    assert first.at == DrawnValue(8, 10)
    assert [str(t) for t in second.targets] == ["NYC.relay", "NYC.standby"]
    assert second.gap == DrawnValue(0.3, 0.3)
    assert (pause.fault, pause.duration) == ("pause", DrawnValue(3, 3))
    assert (leave.fault, restart.fault) == ("leave", "restart")
    assert [[str(t) for t in g] for g in sites.groups] == [["NYC"], ["SFO"]]
    assert [[str(t) for t in g] for g in members.groups] == [["SFO.S", "SFO.U"], ["SFO.V", "SFO.W"]]
    assert (fail.fault, fail.how) == ("fail_site", "vanish")
    assert promote.targets[0].site == "SFO"
    assert (promote.place.line, promote.place.column) == (21, 5)
    assert [(e.name, e.compare, e.limit) for e in drill.expect] == [
        ("lost", "=", 0),
        ("lost_inside", "=", 0),
        ("duplicated", "=", 0),
        ("out_of_order", "=", 0),
        ("detection", "<=", 10),
        ("takeover", "<=", 30),
        ("unrelayed_at_site_failure", "<=", 0.2),
    ]


def test_defaults_hold_for_missing_keys() -> None:
    drill = loader.loads(SMALL, "folder/some.yaml")
    assert drill.name == "some"
    assert drill.primary == "NYC"
    assert drill.settle == DrawnValue(10, 10)
    assert drill.grace == DrawnValue(1, 1)
    assert drill.expect == ()
    assert drill.bridge.stack == "relay-bridge-tcp.xml"
    assert loader.loads(small("primary: all")).primary is None


@pytest.mark.parametrize("name", ["nyc-sfo.yaml", "nyc-sfo-vary.yaml", "short.yaml"])
def test_shipped_drills_are_read_and_planned(name: Any) -> None:
    path = resources.files("jgroups_py.stacks").joinpath("drills", name)
    planned = plan.build(loader.load(Path(str(path))))
    assert [e.name for e in planned.expect][:4] == [
        "lost",
        "lost_inside",
        "duplicated",
        "out_of_order",
    ]
    assert Path(planned.site("NYC").stack).name == "relay-udp.xml"


def test_the_drill_of_a_split_site_is_read_and_planned() -> None:
    path = resources.files("jgroups_py.stacks").joinpath("drills", "site-split.yaml")
    planned = plan.build(loader.load(Path(str(path))))
    assert [site.name for site in planned.sites] == ["AAA", "BBB"]


@pytest.mark.parametrize(
    "name", ["cache.yaml", "cache-sites.yaml", "cache-sites-vary.yaml", "cache-sites-both.yaml"]
)
def test_shipped_drills_of_caches_are_read_and_could_be_run(name: str) -> None:
    path = resources.files("jgroups_py.stacks").joinpath("drills", name)
    planned = plan.build(loader.load(Path(str(path))))
    judged.check(planned)
    assert [e.name for e in planned.expect][:3] == ["lost", "stale", "doubly_owned"]
    stack = "udp.xml" if len(planned.sites) == 1 else "relay-udp.xml"
    assert {Path(site.stack).name for site in planned.sites} == {stack}


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        ("expct: {lost: 0}", "4:1", ['expct: no such key (did you mean "expect"?)']),
        (
            "timeline:\n- {at: 1s, crsh: NYC.E}",
            "5:12",
            ['timeline[0].crsh: no such key (did you mean "crash"?)'],
        ),
        ("network: {latncy: 1ms}", "4:11", ["network.latncy:", '"latency"']),
        ("expect: {lots: 0}", "4:10", ["expect.lots:", '"lost"']),
        ("timeline:\n- {at: 1s, crash: NYC.X}", "5:19", ["'X' is no member or role of NYC"]),
        ("timeline:\n- {at: 1s, crash: NYC.relai}", "5:19", ['"relay"']),
        ("timeline:\n- {at: 1s, crash: NYX.E}", "5:19", ["'NYX' is no site", '"NYC"']),
        ("timeline:\n- {at: 1s, restart: NYC.relay}", "5:21", ["'relay' is no member of NYC"]),
        ("timeline:\n- {at: 1s, crash: NYC}", "5:19", ["is a site"]),
        ("timeline:\n- {at: 1s, crash: [NYC.E, NYC.E]}", "5:19", ["stands twice"]),
        ("timeline:\n- {at: 1s, crash: NYC.E, for: 1s}", "5:26", ["'for'", "pause"]),
        ("timeline:\n- {at: 1s}", "5:3", ["exactly one of"]),
        ("timeline:\n- {crash: NYC.E}", "5:3", ["timeline[0].at: the key is missing"]),
        ("timeline:\n- {at: 1s, partition: [[NYC]]}", "5:23", ["two groups"]),
        ("timeline:\n- {at: 1s, partition: [[NYC], [NYC.E]]}", "5:23", ["both named"]),
        ("timeline:\n- {at: 1, crash: NYC.E}", "5:8", ["no unit"]),
        ("timeline:\n- {at: 3s..1s, crash: NYC.E}", "5:8", ["ends before"]),
        ("settle: 5 parsecs", "4:9", ["'parsecs'"]),
        ("network: {loss: 101%}", "4:17", ["more than 100%"]),
        ("traffic:\n- {site: NYC, rate: 5/h}", "5:21", ["'/h'"]),
        ("traffic:\n- {site: NYC, rate: 5/s, size: 3B}", "5:32", ["from 24 B"]),
        ("traffic:\n- {site: NYC, members: [Q], rate: 5/s}", "5:25", ["'Q' is no member of NYC"]),
        ("set: {buffering_members: 3}", "4:7", ["PROTOCOL.attribute"]),
        ("seed: -1", "4:7", ["seed"]),
        ("primary: LON", "4:10", ["'LON'"]),
        ("settle: 1s\nsettle: 2s", "5:1", ["stands twice", "line 4"]),
        ("expect: {detection: <= 5}", "4:21", ["no unit"]),
        ("expect: {detection: '> 5s'}", "4:21", ["after <=, <, >= or ="]),
        ('expect: {lost: "0\\n1"}', "4:16", ["not a number of messages"]),
        ("bridge: [1]", "4:9", ["keys and values are wanted, not a list"]),
        ("name: [", "5:1", []),
        ("network: &n {loss: 1%}\nset: *n", "5:6", ["anchors and aliases are not accepted"]),
    ],
)
def test_mistakes_name_file_line_and_the_nearest_key(line: Any, place: Any, words: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        loader.loads(small(line), "d.yaml")
    text = str(caught.value)
    assert text.startswith(f"d.yaml:{place}"), text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    "text",
    ["", "x", "- 1", "sites: {}", "sites: {NYC: {members: []}}", "sites: {NYC: {members: [any]}}"],
)
def test_a_file_that_is_no_drill_is_refused(text: Any) -> None:
    with pytest.raises(ConfigError):
        loader.loads(text, "d.yaml")


@given(st.text(alphabet="[]{}:,-&*!|>%@`'\"# \nabc.=", max_size=60))
def test_no_text_raises_anything_but_a_config_error(text: Any) -> None:
    with pytest.raises(ConfigError):
        loader.loads(text)
    for beginning in (SMALL, CONTRACT[:-40]):
        with suppress(ConfigError):
            drill = loader.loads(beginning + text)
            assert drill.site("NYC").members[:3] == ("E", "D", "C")


@given(st.integers(0, len(CONTRACT) - 1), st.characters(max_codepoint=126))
def test_one_changed_character_never_raises_anything_else(index: Any, character: Any) -> None:
    with suppress(ConfigError):
        drill = loader.loads(CONTRACT[:index] + character + CONTRACT[index + 1 :])
        assert len(plan.build(drill).events) == len(drill.timeline)


def test_expectations_may_begin_with_a_greater_sign() -> None:
    drill = loader.loads(small("expect:", "  takeover: >= 1s", "  lost: >=3", "  detection: = 0s"))
    assert [(e.compare, e.limit) for e in drill.expect] == [(">=", 1), (">=", 3), ("=", 0)]
    assert loader.loads(small("expect: {lost: >= 2}")).expect[0].compare == ">="


@pytest.mark.parametrize(
    ("compare", "below", "equal", "above"),
    [("<=", True, True, False), ("<", True, False, False), (">=", False, True, True)],
)
def test_comparisons_are_exact(compare: Any, below: Any, equal: Any, above: Any) -> None:
    (expected,) = loader.loads(small(f"expect: {{takeover: {compare} 2s}}")).expect
    assert [expected.holds(value) for value in (1.9, 2.0, 2.1)] == [below, equal, above]
    assert not expected.holds(None)


@pytest.mark.parametrize(
    ("text", "read", "value"),
    [
        ("300ms", values.duration, 0.3),
        ("7ms", values.duration, 0.007),
        ("2m", values.duration, 120),
        ("1.5h", values.duration, 5400),
        ("0", values.duration, 0),
        ("1KB", values.size, 1000),
        ("2MB", values.size, 2_000_000),
        ("100B", values.size, 100),
        ("30/min", values.rate, 0.5),
        ("200/s", values.rate, 200),
        ("0.1%", values.percentage, 0.001),
        ("7%", values.percentage, 0.07),
    ],
)
def test_units(text: Any, read: Any, value: Any) -> None:
    assert read(text) == value


def test_ranges_take_the_unit_from_either_side() -> None:
    assert values.span("8s..10s", values.duration) == DrawnValue(8, 10)
    assert values.span("8..10s", values.duration) == DrawnValue(8, 10)
    assert values.span("200ms..1s", values.duration) == DrawnValue(0.2, 1)
    with pytest.raises(ValueError):
        values.span("..1s", values.duration)


def test_a_seed_draws_inside_the_range_and_always_the_same() -> None:
    drill = loader.loads(CONTRACT)
    times = [plan.build(drill, seed).events[0].at for seed in range(50)]
    assert all(8 <= t <= 10 for t in times)
    assert len(set(times)) == 50
    assert times == [plan.build(drill, seed).events[0].at for seed in range(50)]


def test_one_more_range_does_not_change_the_draws_of_others() -> None:
    drill = loader.loads(CONTRACT)
    more = dataclasses.replace(drill, settle=DrawnValue(1, 9))
    assert plan.build(drill).events == plan.build(more).events


def test_the_end_is_settle_after_the_last_event_or_traffic() -> None:
    drill = loader.loads(CONTRACT)
    assert plan.build(drill).end == 40
    late = loader.loads(CONTRACT.replace("at: 27s", "at: 33s"))
    assert plan.build(late).end == 45
    assert plan.build(loader.loads(small("settle: 3s"))).end == 3


def test_settings_reach_the_stacks_they_name() -> None:
    drill = loader.loads(CONTRACT)
    texts = ["RELAY.buffering_members=1", "SFO:FD_ALL3.timeout=3s", "bridge:TCP.x=1"]
    planned = plan.build(drill, settings=[plan.parse_setting(text) for text in texts])

    def shown(overrides: Any) -> Any:
        return [f"{o.protocol}.{o.attribute}={o.value}" for o in overrides]

    assert shown(planned.site("NYC").overrides) == ["RELAY.buffering_members=3", texts[0]]
    assert shown(planned.site("SFO").overrides)[-1] == "FD_ALL3.timeout=3s"
    assert shown(planned.bridge.overrides) == ["TCP.x=1"]
    with pytest.raises(ConfigError, match="LON"):
        plan.build(drill, settings=[plan.parse_setting("LON:A.b=1")])
    for wrong in ("A.b", "Ab=1", "A.b=", ":A.b=1"):
        with pytest.raises(ConfigError, match="--set"):
            plan.parse_setting(wrong)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["{at: 1s, crash: NYC.E}", "{at: 2s, crash: NYC.E}"], "NYC.E is not there"),
        (["{at: 1s, fail_site: NYC}", "{at: 2s, crash: NYC.any}"], "too few"),
        (["{at: 1s, fail_site: NYC}", "{at: 2s, fail_site: NYC}"], "nobody is left"),
        (["{at: 1s, restart: NYC.E}"], "is there"),
        (["{at: 1s, crash: SFO.T}", "{at: 2s, pause: SFO.standby, for: 1s}"], "too few"),
        (["{at: 2s, leave: [SFO.any, SFO.any, SFO.any]}"], "too few"),
        (["{at: 7s, crash: SFO.T}", "{at: 5s, restart: SFO.T}"], "is there"),
    ],
)
def test_an_event_on_a_member_that_cannot_exist_is_an_error_before_the_start(
    lines: Any, words: Any
) -> None:
    drill = loader.loads(small("timeline:", *(f"- {line}" for line in lines)), "d.yaml")
    with pytest.raises(ConfigError, match=words) as caught:
        plan.build(drill)
    assert str(caught.value).startswith(f"d.yaml:{4 + len(lines)}:")


@pytest.mark.parametrize(
    "lines",
    [
        ["{at: 1s, crash: NYC.E}", "{at: 2s, restart: NYC.E}", "{at: 3s, crash: NYC.E}"],
        ["{at: 1s, crash: NYC.relay}", "{at: 2s, restart: NYC.D}"],  # perhaps it was D
        ["{at: 1s, crash: NYC.relay}", "{at: 2s, crash: NYC.E}"],  # perhaps it was not E
        ["{at: 9s, crash: NYC.E}", "{at: 2s, crash: NYC.any}"],
        ["{at: 1s, fail_site: NYC}", "{at: 2s, restart: [NYC.E, NYC.D]}", "{at: 3s, crash: NYC.E}"],
    ],
)
def test_possible_steps_are_planned(lines: Any) -> None:
    planned = plan.build(loader.loads(small("timeline:", *(f"- {line}" for line in lines))))
    assert sorted(event.at for event in planned.events) == [event.at for event in planned.events]
    assert len(planned.events) == len(lines)


def sending(site: str, start: int = 0, stop: int = 2, rate: str = "9/s") -> str:
    return f"traffic:\n- {{site: {site}, rate: {rate}, size: 100B, start: {start}s, stop: {stop}s}}"


PROMOTED = "timeline:\n- {at: 4s, promote: SFO}"
FAILED = "timeline:\n- {at: 3s, fail_site: NYC}\n- {at: 4s, promote: SFO}"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([sending("NYC")], []),
        ([sending("SFO")], ["SFO"]),
        (["primary: SFO", sending("SFO")], []),
        (["primary: all", sending("SFO")], []),
        ([sending("SFO", rate="0/s")], []),
        ([sending("SFO", 4, 9), PROMOTED], []),
        ([sending("SFO", 3, 9), PROMOTED], ["SFO"]),
        ([sending("NYC", 0, 5), PROMOTED], []),  # the news takes a moment to arrive
        ([sending("NYC", 0, 6), PROMOTED], ["NYC"]),
        ([sending("NYC", 5, 6), PROMOTED.replace("SFO", "NYC")], []),
        ([sending("NYC", 0, 9), FAILED], []),
        ([sending("NYC", 0, 9), FAILED.replace("NYC", "SFO")], ["NYC"]),
        ([sending("NYC", 0, 9), FAILED.replace("fail_site: NYC", "crash: NYC.E")], ["NYC"]),
        ([sending("SFO", 3, 9), "timeline:\n- {at: 3s, fail_site: SFO}"], []),
        ([sending("SFO", 2, 3), "timeline:\n- {at: 1s, crash: SFO.T}"], ["SFO"]),
    ],
)
def test_a_member_that_sends_while_its_site_does_not_relay_is_known_before_the_start(
    lines: list[str], told: list[str]
) -> None:
    assert plan.unrelayed_senders(plan.build(loader.loads(small(*lines)))) == told


def test_the_only_site_of_a_drill_relays_to_nobody_and_is_not_blamed() -> None:
    text = f"sites:\n  NYC: {{members: [E, D]}}\n{sending('NYC')}\n"
    assert plan.unrelayed_senders(plan.build(loader.loads(text))) == []


def test_in_a_drill_of_messages_the_only_site_may_be_promoted() -> None:
    text = "sites:\n  NYC: {members: [E, D]}\ntimeline:\n- {at: 1s, promote: NYC}\n"
    (event,) = loader.loads(text).timeline
    assert (event.fault, [target.site for target in event.targets]) == ("promote", ["NYC"])
    with pytest.raises(ConfigError, match="there is no other site than NYC"):
        loader.loads(text + "workload: cache\n")


def test_a_missing_stack_file_is_named(tmp_path: Path) -> None:
    text = SMALL.replace("[E, D, C]", "[E, D, C], stack: nowhere.xml")
    with pytest.raises(ConfigError, match=r"d\.yaml:2:36.*nowhere\.xml"):
        plan.build(loader.loads(text, str(tmp_path / "d.yaml")))
    (tmp_path / "nowhere.xml").write_text("<config/>")
    planned = plan.build(loader.loads(text, str(tmp_path / "d.yaml")))
    assert planned.site("NYC").stack == str(tmp_path / "nowhere.xml")


def test_every_fault_has_a_place_in_the_format() -> None:
    assert set(FAULTS) == {
        *("crash", "vanish", "pause", "leave", "restart"),
        *("partition", "fail_site", "promote"),
    }
    assert str(Selector("NYC", "relay", loader.loads(CONTRACT).timeline[0].place)) == "NYC.relay"
