"""The report page and the table show the verdict."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.judge import figures, flows
from jgroups_py.drill.judge import verdict as judge
from jgroups_py.drill.judge.cache_judge import CacheSiteNumbers, CacheVerdict
from jgroups_py.drill.judge.rules import Who
from jgroups_py.drill.report import curves, happenings, picture, table, tables
from jgroups_py.drill.report import page as report
from jgroups_py.drill.report import seeds as seeds_report
from jgroups_py.drill.report.charts import scale
from jgroups_py.drill.report.panels import as_duration, as_seconds

TEXT = """\
name: A <drill> & more
sites:
  NYC: {members: [E, D, C]}
  SFO: {members: [T, S]}
timeline:
- {at: 1s, crash: NYC.relay}
- {at: 4s, fail_site: NYC}
expect: {lost: 0, takeover: <= 3s}
"""


@pytest.fixture
def told(story: Any) -> Any:
    for i in range(50):
        story.send(i * 0.02, "NYC.C")
    story.fault(1.0, "crash", "NYC.E")
    story.view(1.5, "NYC", ["D", "C"])
    story.send(2.0, "NYC.C", skip=["SFO.T", "SFO.S"])
    story.send(2.2, "NYC.C")
    story.fault(2.5, "pause", "SFO.S")
    story.fault(2.8, "resume", "SFO.S")
    sides = [["NYC.D", "NYC.C"], ["SFO.T", "SFO.S"]]
    story.fault(3.0, "partition", groups=sides)
    story.fault(3.5, "heal", groups=sides)
    story.fail(4.0, "NYC")
    story.bridge(5.0, "SFO", ["SFO"])
    for i in range(40):
        story.fault(i * 0.1, "buffer", "NYC.D", messages=i, fill=i / 1000, duplicates_dropped=1)
    planned = plan.build(loader.loads(TEXT, "d.yaml"))
    evidence = story.evidence()
    verdict = judge.judge(evidence, primary="NYC", grace=1.0, expect=planned.expect)
    printed = judge.result(
        verdict, name=planned.name, mode="simulated", seed=1, virtual_s=14.0, wall_s=0.5
    )
    found = figures.figures(evidence, verdict)
    return planned, evidence, verdict, found, {**printed, **found.printed()}


def drawn(evidence: Any, verdict: Any, found: Any, end: float) -> picture.Picture:
    edges = picture.bins(picture.span(evidence, end), 10_000)
    return picture.draw(
        evidence, verdict, found, curves.of_messages(evidence, found, edges, "1 MB"), edges
    )


def test_the_page_is_whole_and_needs_nothing_else(told: Any) -> None:
    planned, evidence, verdict, found, printed = told
    html = report.page(
        planned, evidence, verdict, found, printed, command="jgroups-py drill d.yaml", limit="1 MB"
    )
    assert "A &lt;drill&gt; &amp; more" in html
    assert not re.search(r"(?:src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|@import|url\(", html)
    raw = re.search(r'<script type="application/json" id="result">(.*?)</script>', html, re.DOTALL)
    assert raw is not None
    assert json.loads(raw[1]) == printed
    for words in ("Verdict: fail", "crash NYC.E", "NYC.C#1", "jgroups-py drill d.yaml"):
        assert words in html


def test_the_picture_shows_relays_faults_gaps_and_takeovers(told: Any) -> None:
    planned, evidence, verdict, found, _ = told
    shown = drawn(evidence, verdict, found, planned.end)
    svg = ET.fromstring(shown.svg)
    tips = [element.attrib["data-tip"] for element in svg.iter() if "data-tip" in element.attrib]
    for words in (
        "NYC.E was relay",
        "NYC.D was relay 1.500 s to 4.000 s",
        "SFO.T was first and relayed nothing",
        "SFO.S paused 2.500 s to 2.800 s",
        "crash NYC.E at 1.000 s: 0.25 s",
        "lost: NYC.C#1 51",
        "partition NYC.D, NYC.C | SFO, 3.000 to 3.500 s",
        "4.000 s: NYC fails",
        "limit: 1 MB",
    ):
        assert any(words in tip for tip in tips), words
    assert not any("SFO.T was relay" in tip for tip in tips)
    titles = [e.text or "" for e in svg.iter() if e.attrib.get("class") == "title"]
    assert [title.split(" ")[0] for title in titles] == ["Messages", "Latency", "Lag:", "Relay"]
    assert "log scale" in titles[3]
    assert [len(panel["series"]) for panel in shown.curves["panels"]] == [2, 2, 1, 1]


def test_the_legend_has_only_marks_of_the_picture(told: Any, new_story: Any) -> None:
    planned, evidence, verdict, found, _ = told
    keys = [key for key, _ in drawn(evidence, verdict, found, planned.end).legend]
    assert keys == [
        *("relay", "receiver", "member", "paused", "crash", "pause", "resume", "fail_site"),
        *("interruption", "gap", "partition", "lost"),
    ]
    quiet = new_story({"NYC": ["E", "D"], "SFO": ["T"]})
    quiet.send(0.1, "NYC.E")
    verdict = quiet.judge()
    shown = drawn(quiet.evidence(), verdict, figures.figures(quiet.evidence(), verdict), 10.0)
    assert [key for key, _ in shown.legend] == ["relay", "receiver", "member"]


def test_a_promoted_site_has_a_relay_from_then_on(story: Any) -> None:
    story.fault(5.0, "promote", "SFO")
    verdict = story.judge()
    evidence = story.evidence()
    assert picture.roles(evidence, verdict, Who("NYC", "E", 1), 9.0) == [
        ("relay", -1.0, 5.0),
        ("receiver", 5.0, 9.0),
    ]
    assert picture.roles(evidence, verdict, Who("SFO", "T", 1), 9.0) == [
        ("receiver", -1.0, 5.0),
        ("relay", 5.0, 9.0),
    ]
    everybody = story.judge(primary=None)
    assert picture.roles(evidence, everybody, Who("SFO", "T", 1), 9.0) == [("relay", -1.0, 9.0)]


def test_the_headlines_have_the_measured_figures(told: Any, new_story: Any) -> None:
    planned, _, verdict, found, printed = told
    headlines = {one.name: one for one in report.headlines(planned, verdict, found, "1 MB")}
    assert headlines["RTO"].value == "not recovered: fail_site NYC (no other site was promoted)"
    assert headlines["RTO"].bad
    assert headlines["RTO"].more.startswith(
        "the others: at most 250 ms, after crash NYC.E at 1.0 s"
    )
    assert headlines["RPO"].value == "0 s"
    assert headlines["Latency p50 / p99"].value == "50 ms / 50 ms"
    assert headlines["Relay buffer"].value == "3.9 %"
    assert "full after 96.1 s" in headlines["Relay buffer"].more
    assert printed["rto_s"] == 0.25
    assert printed["not_recovered"] == ["fail_site NYC"]
    assert printed["buffer_percent"] == 3.9
    assert printed["time_until_full_s"] == pytest.approx(96.1)
    quiet = new_story({"NYC": ["E", "D"], "SFO": ["T"]})
    quiet.send(0.1, "NYC.E")
    verdict = quiet.judge()
    found = figures.figures(quiet.evidence(), verdict)
    headlines = {one.name: one for one in report.headlines(planned, verdict, found, "")}
    assert (headlines["RTO"].value, headlines["RPO"].value) == ("n/a", "n/a")
    assert found.printed()["rto_s"] is None


def test_events_are_listed_by_time(told: Any) -> None:
    _, evidence, _, found, _ = told
    told_lines = [(one.kind, one.text) for one in happenings.happenings(evidence, found)]
    assert told_lines[0] == ("view", "NYC has view [v1] (3) [E, D, C]")
    for line in (
        ("fault", "crash NYC.E"),
        ("recovered", "goes on 1.250 s after crash NYC.E; stood still for 0.250 s"),
        ("view", "NYC has view [v3] (2) [D, C]"),
        ("fault", "partition NYC.D, NYC.C | SFO"),
        ("fault", "fail site NYC"),
    ):
        assert line in told_lines
    assert not any("vanish" in text for _, text in told_lines)


def test_a_scale_is_logarithmic_where_one_spike_would_flatten_the_rest() -> None:
    assert scale([1.0, 2.0, 3.0, 18.0]).low == 0
    spiky = scale([0.04] * 50 + [3.0])
    assert (spiky.low, spiky.high) == pytest.approx((0.01, 10.0))
    assert [round(spiky.part(v), 3) for v in (0.01, 0.1, 1.0, 10.0)] == [0.0, 0.333, 0.667, 1.0]
    assert scale([0.5], limit=100.0).high == pytest.approx(100.0)
    assert scale([]).ticks == [0.0, 1.0]


def test_values_are_written_with_their_units() -> None:
    assert [as_seconds(v) for v in (0, 0.0005, 0.25, 3.25, 300)] == [
        *("0 s", "500 µs", "250 ms", "3.25 s", "5 min"),
    ]
    assert [as_duration(v) for v in (30, 7200, 864000, 1e9)] == [
        *("30 s", "2 h", "10 days", "more than a year"),
    ]


def test_the_page_of_seeds_has_histograms_counts_and_the_worst(told: Any) -> None:
    printed = told[4]
    runs = [
        {**printed, "seed": seed, "verdict": "pass", "rto_s": seed / 10, "takeover_s": [0.1, 0.2]}
        for seed in range(1, 41)
    ]
    runs[7]["verdict"] = "fail"
    runs[30]["takeover_s"] = [None]
    html = seeds_report.page(
        loader.loads(TEXT, "d.yaml"),
        runs,
        {41: "no <relay> there"},
        mode="simulated",
        notes=[],
        replay=lambda seed: f"play {seed}",
    )
    assert not re.search(r"(?:src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|@import|url\(", html)
    for words in (
        "not recovered in 40 of 41 seeds: fail_site NYC (40)",
        "41 seeds, simulated: 39 passed, 1 failed, 1 could not be run",
        "lost failed 1 times",
        "lost 1 (expected = 0)",
        "no &lt;relay&gt; there",
        "median 2.1 s · p99 4 s · worst 4 s",
        "limit &lt;= 3s is beyond this axis",
    ):
        assert words in html, words
    assert re.search(r"<td>RTO</td><td>4 s</td><td>40</td><td><code>play 40</code>", html)
    assert "<code>play 8</code>" in html


def test_bars_are_of_round_size_and_logarithmic_where_the_values_are_far_apart() -> None:
    assert seeds_report.bars([1.0, 1.5, 2.0])[1] is False
    edges, log = seeds_report.bars([1.03, 1.5, 2.2])
    assert not log
    assert edges[0] == pytest.approx(1.0)
    assert edges[1] - edges[0] == pytest.approx(0.05)
    assert edges[-1] > 2.2
    assert seeds_report.bars([1.0] * 9 + [30.0])[1] is True
    assert len(seeds_report.bars([0.0, 0.0])[0]) == 2


def test_an_empty_drill_has_a_picture(new_story: Any) -> None:
    story = new_story({"NYC": ["E"]})
    verdict = story.judge()
    shown = drawn(story.evidence(), verdict, figures.figures(story.evidence(), verdict), 10.0)
    ET.fromstring(shown.svg)
    assert [key for key, _ in shown.legend] == ["coordinator", "member"]


def test_leading_ends_with_the_member(told: Any) -> None:
    evidence = told[1]
    assert picture.leads(evidence, Who("NYC", "E", 1), 9.0) == [(-1.0, 1.0)]
    assert picture.leads(evidence, Who("NYC", "D", 1), 9.0) == [(1.5, 4.0)]
    assert picture.leads(evidence, Who("NYC", "C", 1), 9.0) == []


def test_gaps_are_times_in_which_something_was_under_way() -> None:
    flow = flows.SiteFlow("NYC", "SFO", [0.0, 1.0, 2.0, 10.0], [0.1, 1.1, 5.0, 10.1])
    assert flows.gaps(flow) == [(2.0, 5.0)]


def test_the_page_folds_long_tables_and_prints_whole_lists(told: Any) -> None:
    planned, evidence, verdict, found, printed = told
    (lost,) = verdict.lost
    verdict.lost = [lost] * 220
    html = report.page(planned, evidence, verdict, found, printed, command="", limit="1 MB")
    assert html.startswith("<!doctype html>")
    table_text = html.partition("<h2>Findings</h2>")[2].partition("<h2>Planned</h2>")[0]
    seen, _, folded = table_text.partition("<details>")
    assert (seen.count('<td class="fail">lost'), folded.count('<td class="fail">lost')) == (20, 180)
    assert "180 more rows" in folded
    assert "and 20 more" in folded
    in_print = html.partition("@media print {")[2].partition("}\n")[0]
    assert ".list" in in_print and "max-height: none" in in_print
    assert re.search(r"svg \.limit-text[^{]*{[^}]*paint-order: stroke", html)


def test_a_table_of_faults_has_no_empty_column_and_the_plan_names_its_file(told: Any) -> None:
    planned, evidence, verdict, found, printed = told
    html = report.page(planned, evidence, verdict, found, printed, command="", limit="1 MB")
    headings = html.partition("<h2>Faults</h2>")[2].partition("</tr>")[0]
    assert re.findall("<th>(.*?)</th>", headings) == [
        *("fault", "detected after", "take-over", "service goes on after"),
    ]
    verdict.detections, verdict.takeovers = [], []
    html = report.page(
        replace(planned, file="/a/folder/d.yaml"),
        *(evidence, verdict, found, printed),
        command="",
        limit="1 MB",
    )
    headings = html.partition("<h2>Faults</h2>")[2].partition("</tr>")[0]
    assert re.findall("<th>(.*?)</th>", headings) == ["fault", "service goes on after"]
    assert "<th>line of d.yaml</th>" in html


def test_only_the_first_column_of_a_table_may_be_empty() -> None:
    columns, rows = tables.filled(("a", "b", "c"), [("", "", "x"), ("", "", "")])
    assert (columns, rows) == (["a", "c"], [["", "x"], ["", ""]])


def test_a_promotion_says_since_when_messages_count_and_why(story: Any) -> None:
    story.fault(1.0, "promote", "SFO")
    assert table.primary_text(story.judge(grace=1.0)).endswith(
        "; promoted: SFO at 1.000 s, its messages count from 2.000 s (grace: 1 s)"
    )
    assert table.primary_text(story.judge(grace=0.0)).endswith("; promoted: SFO at 1.000 s")


def test_no_heading_is_cut_on_a_narrow_terminal(told: Any) -> None:
    planned, _, verdict, _, _ = told
    for numbers in verdict.sites.values():
        numbers.delivered = 1_234_567
    many = CacheVerdict(sites={name: CacheSiteNumbers() for name in ("NYC", "SFO", "LON")})
    for width in (80, 200):
        for judged in (verdict, many):
            out = io.StringIO()
            table.show(Console(file=out, width=width), planned.name, judged)
            assert "…" not in out.getvalue()
    out = io.StringIO()
    table.show(Console(file=out, width=80), planned.name, many)
    for name in ("acknowledged", "doubly owned", "gravitations"):
        assert name in out.getvalue()


def test_the_table_has_no_colour_off_a_terminal(told: Any) -> None:
    planned, _, verdict, _, _ = told
    out = io.StringIO()
    table.show(table.console(out), planned.name, verdict, ["a [note]"])
    text = out.getvalue()
    assert "\x1b" not in text
    assert "1.000 s crash NYC.E" in text
    assert "1.250 s" in text
    assert "a [note]" in text
    assert text.rstrip().endswith("verdict: FAIL")
