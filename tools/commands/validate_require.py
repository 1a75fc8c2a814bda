"""``--require 'detection<=10s'`` of ``jgroups-py validate``: bounds that a stack's times must keep."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import click

from jgroups_py.tools.options import TIME_FORM, Time
from jgroups_py.units import seconds_text

WHATS: Final = {"detection": "detection_s", "take-over": "takeover_s"}
CASES: Final = ("crash", "silent")
FORM: Final = (
    "WHAT<=TIME, where WHAT is detection or take-over, alone or with .crash or .silent, "
    "such as detection<=10s or take-over.crash<=2s"
)
HINTS: Final = {
    ("detection", "crash"): "lower VERIFY_SUSPECT2.gone_timeout or VERIFY_SUSPECT2.timeout",
    ("detection", "silent"): "lower FD_ALL3.timeout, FD_ALL3.interval or VERIFY_SUSPECT2.timeout",
    ("take-over", "crash"): "lower GMS.join_timeout or VERIFY_SUSPECT2.timeout of the bridge",
    ("take-over", "silent"): "lower FD_ALL3.timeout of the site and of the bridge",
}
CASE_WORDS: Final = {"crash": "crash", "silent": "silent failure (a pause, a lost host)"}
LACKING: Final = {
    "detection": "the stack has no protocol that notices it",
    "take-over": "the stack has no RELAY, so no member takes over",
}
_TEXT = re.compile(r"\s*([a-z_-]+)(?:\.([a-z]+))?\s*(<=|<)\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Requirement:
    """``text``: the option's text. ``cases``: the cases that must take at most ``limit`` seconds (less, if
    ``strict``)."""

    text: str
    what: str
    cases: tuple[str, ...]
    limit: float
    strict: bool

    def broken_by(self, item: dict[str, Any]) -> str:
        """Return a sentence that says why a stack's report ``item`` does not meet the requirement, or an empty text."""
        times = item[WHATS[self.what]]
        if times is None:
            return f"{item['stack']}: {self.text} does not hold: {LACKING[self.what]}"
        for case in self.cases:
            seconds = times[case]
            seconds = None if seconds is None else round(seconds, 6)  # 0.05 + 0.025 is above 0.075
            if seconds is None:
                found = "never"
            elif seconds > self.limit or (self.strict and seconds == self.limit):
                found = seconds_text(seconds)
            else:
                continue
            return (
                f"{item['stack']}: {self.text} does not hold: worst-case {self.what} after a "
                f"{CASE_WORDS[case]} is {found}"
                f" ({HINTS[self.what, case]})"
            )
        return ""


class Require(click.ParamType[Requirement]):
    """The text of one ``--require``."""

    name = "WHAT<=TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Requirement:
        if isinstance(value, Requirement):
            return value
        match = _TEXT.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not {FORM}", param, ctx)
        what = {"takeover": "take-over", "take_over": "take-over"}.get(match[1], match[1])
        if what not in WHATS or match[2] not in (None, *CASES):
            self.fail(f"{value!r} is not {FORM}", param, ctx)
        try:
            limit = Time().convert(match[4], param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r}: {match[4]!r} is not {TIME_FORM}", param, ctx)
        cases = CASES if match[2] is None else (match[2],)
        return Requirement(str(value).strip(), what, cases, limit, match[3] == "<")
