"""Line charts: scale, colours, and the text that appears on hover."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from jgroups_py.drill.report.charts import Chart, standalone


def texts(chart: Chart) -> list[str]:
    return [element.text or "" for element in ET.fromstring(standalone([chart])).iter()]


def test_a_spike_makes_the_axis_logarithmic_and_the_title_says_so() -> None:
    flat = Chart("ms", "second", {"a": [(n, 40.0 + n) for n in range(20)]})
    assert "ms" in texts(flat)
    spiky = Chart("ms", "second", {"a": [(n, 3000.0 if n == 7 else 40.0) for n in range(20)]})
    assert "ms (log scale)" in texts(spiky)


def test_values_show_on_hover() -> None:
    assert "a: 5 at 1 s" in texts(Chart("calls", "s", {"a": [(0, 1.0), (1, 5.0)]}))
