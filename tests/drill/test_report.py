"""The report page and the table show what was judged."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from jgroups_py.drill import judge, loader, picture, plan, report, table
from jgroups_py.drill.evidence import Who

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
        story.fault(i * 0.1, "buffer", "NYC.D", messages=i, duplicates_dropped=1)
    planned = plan.build(loader.loads(TEXT, "d.yaml"))
    evidence = story.evidence()
    verdict = judge.judge(evidence, primary="NYC", grace=1.0, expect=planned.expect)
    printed = judge.result(
        verdict, name=planned.name, mode="simulated", seed=1, virtual_s=14.0, wall_s=0.5
    )
    return planned, evidence, verdict, printed


def test_the_page_is_whole_and_needs_nothing_else(told: Any) -> None:
    planned, evidence, verdict, printed = told
    html = report.page(planned, evidence, verdict, printed, command="jgroups-py drill d.yaml")
    assert "A &lt;drill&gt; &amp; more" in html
    assert not re.search(r"(?:src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|@import|url\(", html)
    raw = re.search(r'<script type="application/json" id="result">(.*?)</script>', html, re.DOTALL)
    assert raw is not None
    assert json.loads(raw[1]) == printed
    for words in ("Verdict: fail", "crash NYC.E", "NYC.C#1", "jgroups-py drill d.yaml"):
        assert words in html


def test_the_picture_shows_relays_faults_gaps_and_takeovers(told: Any) -> None:
    planned, evidence, verdict, _ = told
    svg = ET.fromstring(picture.draw(evidence, verdict, planned.end))
    tips = [element.attrib["data-tip"] for element in svg.iter() if "data-tip" in element.attrib]
    for words in (
        "NYC.E#1 was relay",
        "NYC.D#1 was relay 1.500 s to 4.000 s",
        "SFO.S#1 paused 2.500 s to 2.800 s",
        "take-over after crash of NYC.E#1: 1.250 s",
        "lost: NYC.C#1 51",
        "partition NYC.D, NYC.C | SFO.T, SFO.S, 3.000 to 3.500 s",
        "4.000 s: fail site NYC",
        "NYC.D#1: at most 39",
    ):
        assert any(words in tip for tip in tips), words
    classes = [element.attrib.get("class") for element in svg.iter()]
    assert classes.count("curve") == 4


def test_an_empty_drill_has_a_picture(new_story: Any) -> None:
    story = new_story({"NYC": ["E"]})
    ET.fromstring(picture.draw(story.evidence(), story.judge(), 10.0))


def test_relay_times_end_with_the_member(told: Any) -> None:
    _, evidence, _, _ = told
    assert picture.relay_times(evidence, Who("NYC", "E", 1), 9.0) == [(-1.0, 1.0)]
    assert picture.relay_times(evidence, Who("NYC", "D", 1), 9.0) == [(1.5, 4.0)]
    assert picture.relay_times(evidence, Who("NYC", "C", 1), 9.0) == []


def test_gaps_are_times_in_which_something_was_under_way() -> None:
    flow = picture.Flow("NYC", "SFO", [0.0, 1.0, 2.0, 10.0], [0.1, 1.1, 5.0, 10.1])
    assert picture.gaps(flow) == [(2.0, 5.0)]


def test_the_table_has_no_colour_off_a_terminal(told: Any) -> None:
    planned, _, verdict, _ = told
    out = io.StringIO()
    table.show(table.console(out), planned.name, verdict, ["a [note]"])
    text = out.getvalue()
    assert "\x1b" not in text
    assert "1.000 s crash NYC.E" in text
    assert "1.250 s" in text
    assert "a [note]" in text
    assert text.rstrip().endswith("verdict: FAIL")
