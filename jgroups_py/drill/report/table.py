"""The table and the verdict on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TextIO

from rich.console import Console
from rich.table import Table

from jgroups_py.drill.file import workloads
from jgroups_py.drill.file.plan import DrillPlan, unrelayed_senders
from jgroups_py.drill.judge.bucket_judge import BucketVerdict
from jgroups_py.drill.judge.cache_judge import CacheVerdict
from jgroups_py.drill.judge.cache_sites import Unrelayed
from jgroups_py.drill.judge.live_judge import LiveVerdict
from jgroups_py.drill.judge.map_judge import MapVerdict
from jgroups_py.drill.judge.results import Verdicts
from jgroups_py.drill.judge.rules import Judged
from jgroups_py.drill.judge.verdict import Verdict
from jgroups_py.drill.report import bucket_report, live_report, map_report
from jgroups_py.drill.report.tables import KEYS_SHOWN_MAX, event_text, seconds, show_sites

WIDTH_OFF_TERMINAL = 100


def console(stream: TextIO) -> Console:
    """Return a console with the terminal's colours and width, or without a terminal a plain one."""
    if stream.isatty():
        return Console(file=stream, highlight=False)
    return Console(
        file=stream, width=WIDTH_OFF_TERMINAL, no_color=True, highlight=False, color_system=None
    )


def judged_text(judged: Judged) -> tuple[str, str, str]:
    """Return name, limit and measured value as texts."""
    expectation = judged.expectation
    if judged.measured is None:
        measured = "not measured"
    elif expectation.name in workloads.times():
        measured = seconds(judged.measured)
    else:
        measured = str(int(judged.measured))
    return expectation.name, expectation.text, measured


def show(out: Console, title: str, verdict: Verdicts, notes: Sequence[str] = ()) -> None:
    """Print the measured values, and the verdict last."""
    if isinstance(verdict, CacheVerdict):
        _show_caches(out, title, verdict)
    elif isinstance(verdict, MapVerdict):
        map_report.show(out, title, verdict)
    elif isinstance(verdict, LiveVerdict):
        live_report.show(out, title, verdict)
    elif isinstance(verdict, BucketVerdict):
        bucket_report.show(out, title, verdict)
    else:
        assert isinstance(verdict, Verdict)
        _show_messages(out, title, verdict)
    _show_verdict(out, verdict, notes)


def _show_caches(out: Console, title: str, verdict: CacheVerdict) -> None:
    columns = [column for column in cache_columns(verdict) if column != "discarded"]  # too wide
    show_sites(out, title, verdict.sites, columns, collapse=True)
    bad = [key for key in verdict.keys if key.bad]
    if bad:
        keys = Table(title=f"keys with something wrong ({len(bad)} of {len(verdict.keys)})")
        names = ["key", "acknowledged", "present", "lost", "stale", "owners"]
        if len(verdict.sites) > 1:
            names.append("differs from")
        for column in names:
            keys.add_column(column, justify="right")
        for key in bad[:KEYS_SHOWN_MAX]:
            keys.add_row(
                f"{key.site} {key.key}",
                str(key.acknowledged),
                "yes" if key.present else "no",
                f"{key.lost} writes: {key.missing}, found {key.found}" if key.lost else "",
                f"{key.stale} reads" if key.stale else "",
                ", ".join(key.owners),
                *([", ".join(key.diverged)] if len(verdict.sites) > 1 else []),
            )
        out.print(keys)
    discarded = [key for key in verdict.keys if key.discarded]
    if discarded:
        shown = ", ".join(f"{key.site} {key.key}" for key in discarded[:KEYS_SHOWN_MAX])
        out.print(f"writes that merges dropped, and listed, of {len(discarded)} keys: {shown}")
    _show_unrelayed(out, verdict)
    if verdict.detections or verdict.unprotected:
        safe = {(m.t, m.who): m.seconds for m in verdict.unprotected}
        events = Table()
        events.add_column("event")
        events.add_column("detected after", justify="right")
        events.add_column("unprotected for", justify="right")
        for measured in verdict.detections:
            at = (measured.t, measured.who)
            events.add_row(
                event_text(measured),
                seconds(measured.seconds),
                seconds(safe[at]) if at in safe else "",
            )
        out.print(events)
    for measured in verdict.bootstraps:
        out.print(f"{event_text(measured)}: complete after {seconds(measured.seconds)}")


def cache_columns(verdict: CacheVerdict) -> list[str]:
    """Return the columns of the table of sites; some exist only for several sites."""
    columns = list(vars(next(iter(verdict.sites.values()))))
    if len(verdict.sites) == 1:
        columns = [column for column in columns if column not in ("diverged", "unrelayed")]
    return columns


def _show_unrelayed(out: Console, verdict: CacheVerdict) -> None:
    if verdict.rpo is None:
        return
    out.print(
        f"values that other sites lacked when a site failed: {len(verdict.unrelayed)} keys,"
        f" the oldest write {seconds(verdict.rpo)} old"
    )
    if verdict.unrelayed:
        table = Table()
        for column in ("key", "not at", "writes", "the last one", "oldest"):
            table.add_column(column, justify="right")
        for entry in verdict.unrelayed[:KEYS_SHOWN_MAX]:
            table.add_row(*unrelayed_text(entry))
        out.print(table)


def unrelayed_text(entry: Unrelayed) -> tuple[str, str, str, str, str]:
    """Return key, site without it, number of writes, the last one and the age of the oldest."""
    last = f"{entry.last[1]}/{entry.last[2]}"
    return f"{entry.site} {entry.key}", entry.at, str(entry.writes), last, seconds(entry.age)


def direction_notes(plan: DrillPlan) -> list[str]:
    """Return a note on sites that, by the plan, send although they do not relay."""
    meant = "the drill file says so: relay: primary only"
    mend = "primary: all lets every site relay, relay: primary only says that this is meant"
    verb = "writes" if plan.workload == "cache" else "sends"
    return [
        f"{site} {verb}, but only {plan.primary} relays at the start: other sites do not get what"
        f" {site} {verb} then ({meant if plan.primary_only else mend})"
        for site in unrelayed_senders(plan)
    ]


def primary_text(verdict: Verdict) -> str:
    """Return ``primary: NYC, from 14.000 s SFO``; nothing where there is one site."""
    sites = list(verdict.sites)
    if len(sites) < 2:
        return ""
    if verdict.primary is None:
        return "primary: all; every site relays to the others"
    others = ", ".join(site for site in sites if site != verdict.primary)
    text = f"primary: {verdict.primary}; it relays to {others}"
    for (_, _, promoted), (site, start, _) in pairwise(verdict.reigns):
        text += f"; promoted: {site} at {promoted:.3f} s"
        if start > promoted:
            grace = f"grace: {start - promoted:g} s"
            text += f", its messages count from {start:.3f} s ({grace})"
    return text


def not_relayed_text(verdict: Verdict) -> str:
    """Return a sentence about messages of sites that did not relay. Empty: there were none."""
    sent = ", ".join(
        f"{numbers.not_relayed} messages of {site}"
        for site, numbers in verdict.sites.items()
        if numbers.not_relayed
    )
    if not sent:
        return ""
    counted = "not counted, as the drill says" if verdict.primary_only else "counted as lost"
    return f"sent where nothing is relayed: {sent} ({counted})"


def _show_messages(out: Console, title: str, verdict: Verdict) -> None:
    columns = [
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
    show_sites(out, title, verdict.sites, columns)
    for text in (primary_text(verdict), not_relayed_text(verdict)):
        if text:
            out.print(text, markup=False)
    if verdict.detections or verdict.takeovers:
        taken = {(m.t, m.who): m.seconds for m in verdict.takeovers}
        events = Table()
        events.add_column("event")
        events.add_column("detected after", justify="right")
        events.add_column("take-over", justify="right")
        for measured in verdict.detections:
            key = (measured.t, measured.who)
            takeover = seconds(taken[key]) if key in taken and measured.who else ""
            events.add_row(event_text(measured), seconds(measured.seconds), takeover)
        out.print(events)
    if verdict.rpo is not None:
        out.print(
            f"unrelayed when a site failed: {len(verdict.unrelayed)} messages, "
            f"the oldest {seconds(verdict.rpo)} old"
        )


def _show_verdict(out: Console, verdict: Verdicts, notes: Sequence[str]) -> None:
    for note in notes:
        out.print(f"note: {note}", markup=False)
    if verdict.expectations:
        expected = Table()
        for column in ("expected", "limit", "measured", ""):
            expected.add_column(column)
        for judged in verdict.expectations:
            style = None if judged.holds else "bold red"
            expected.add_row(
                *judged_text(judged), "holds" if judged.holds else "FAILS", style=style
            )
        out.print(expected)
    word, style = ("PASS", "bold green") if verdict.passed else ("FAIL", "bold red")
    out.print(f"verdict: {word}", style=style)
