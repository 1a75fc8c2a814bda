"""A drill's access to stacks and to RELAY: settings, samples, the sites on the bridge.

Each member gets its own bridge stack file, with hosts, port and overrides resolved. RELAY opens it when the member
becomes relay.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jgroups_py.config.file import load_stack
from jgroups_py.config.model import StackConfig, with_attributes
from jgroups_py.config.settings import build
from jgroups_py.config.write import to_xml
from jgroups_py.drill.file.model import Override
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.file.sealing import sealed, write_sealed
from jgroups_py.errors import ConfigError
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack
from jgroups_py.values.events import GetView
from jgroups_py.values.view import View

LOOPBACK = "127.0.0.1"
RELAY = "RELAY"
COUNTERS = ("relayed", "replayed", "duplicates_dropped", "gaps")
"""RELAY's running totals that a sample holds."""
TRACED = ("relay", "replay", "trim", "overflow")
"""The traces of RELAY that go into the log."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The source of a member's stack."""

    stack: str
    attributes: dict[str, str]
    properties: dict[str, str]


def has_relay(config: StackConfig) -> bool:
    return any(protocol.name == RELAY for protocol in config.protocols)


def overridden(config: StackConfig, overrides: Sequence[Override]) -> StackConfig:
    """Apply overrides. Raises ``ConfigError`` with the place of one that does not fit."""
    for override in overrides:
        key = f"{override.protocol}.{override.attribute}"
        source = str(override.place)
        try:
            config = with_attributes(config, {key: override.value}, source=source)
        except ConfigError as error:  # the mistake is in the drill file
            raise ConfigError(error.problem, file=source, where=error.where) from None
    return config


def site_settings(
    plan: DrillPlan,
    site: str,
    *,
    stack: str | None = None,
    bind_addr: str,
    bridge_file: Path,
    properties: dict[str, str] | None = None,
) -> Settings:
    """Return a member's stack, with the drill's overrides and RELAY's site. ``stack``: another file than the plan's.
    With SEAL the stack is a file beside ``bridge_file``.

    Raises ``ConfigError`` for an override that does not fit, before any member is started.
    """
    planned = plan.site(site)
    file = stack or planned.stack
    known = {
        "jgroups.bind_addr": bind_addr,
        "relay.site": site,
        "relay.bridge": str(bridge_file),
        **(properties or {}),
    }
    beside = bridge_file.with_name(f"{bridge_file.stem}-{site}-sealed.xml")
    file = write_sealed(file, known, plan.seal, beside)
    config = load_stack(file, known)
    attributes: dict[str, str] = {}
    if has_relay(config):
        attributes = {
            "RELAY.site": site,
            "RELAY.sites": ",".join(other.name for other in plan.sites),
            "RELAY.primary": plan.primary or "all",
            "RELAY.bridge": str(bridge_file),
        }
    build(overridden(with_attributes(config, attributes), planned.overrides))
    for override in planned.overrides:
        attributes[f"{override.protocol}.{override.attribute}"] = override.value
    return Settings(file, attributes, known)


def write_bridge(
    plan: DrillPlan, file: Path, *, bind_addr: str, hosts: Iterable[str], port: int
) -> None:
    """Write the bridge's stack of one member, on exactly ``port``. ``hosts``: possible places of relays,
    ``address[port]``. Raises ``ConfigError``."""
    config = load_stack(
        plan.bridge.stack,
        {
            "jgroups.bind_addr": bind_addr,
            "relay.bridge.bind_addr": bind_addr,
            "relay.bridge.port": str(port),
            "relay.bridge.port_range": "0",
            "relay.bridge.hosts": ",".join(hosts),
        },
    )
    config = overridden(sealed(config, plan.seal), plan.bridge.overrides)
    build(config)
    file.write_text(to_xml(config))


def check(plan: DrillPlan) -> None:
    """Raise ``ConfigError`` for stack files and overrides with which no member could start."""
    with tempfile.TemporaryDirectory(prefix="jgroups-drill-") as folder:
        bridge = Path(folder, "bridge.xml")
        write_bridge(plan, bridge, bind_addr=LOOPBACK, hosts=[f"{LOOPBACK}[1]"], port=1)
        for site in plan.sites:
            site_settings(plan, site.name, bind_addr=LOOPBACK, bridge_file=bridge)


def need_relay(plan: DrillPlan, what: str) -> None:
    """Raise ``ConfigError`` for a stack without RELAY, if there are several sites. ``what``: the workload, for the
    text."""
    if len(plan.sites) == 1:
        return
    for site in plan.sites:
        known = {"relay.site": site.name, "relay.bridge": "bridge.xml"}
        if not has_relay(load_stack(site.stack, known)):
            raise ConfigError(
                f"no RELAY: {what} at several sites need it (relay-udp.xml)", file=site.stack
            )


def relay_limits(plan: DrillPlan) -> str:
    """Describe RELAY's limits and its overflow, of the first site that has it. Empty: no site has it."""
    with tempfile.TemporaryDirectory(prefix="jgroups-drill-") as folder:
        for site in plan.sites:
            settings = site_settings(
                plan, site.name, bind_addr=LOOPBACK, bridge_file=Path(folder, "bridge.xml")
            )
            if not any(key.startswith("RELAY.") for key in settings.attributes):
                continue
            config = load_stack(settings.stack, settings.properties, settings.attributes)
            relay: Any = next(c for cls, c in build(config) if cls.__name__ == RELAY)
            then = {
                "drop_oldest": "then the oldest are dropped",
                "block": "then senders wait",
                "spill": "then a file takes them",
            }[relay.overflow]
            size = relay.max_bytes / 1e6
            return f"{relay.max_messages:,} messages or {size:,.6g} MB, {then}"
    return ""


def relay_of(stack: Stack) -> Protocol | None:
    return next((p for p in stack.protocols if p.name == RELAY), None)


def sample(stack: Stack) -> dict[str, Any] | None:
    """Return RELAY's running totals and buffer fill, under the log's names."""
    relay: Any = relay_of(stack)
    if relay is None:
        return None
    statistics = relay.statistics()
    status = relay.status()
    return {
        "messages": status.buffered_messages,
        "bytes": status.buffered_bytes,
        "fill": round(status.buffer_fill, 9),
        "holders_complete": status.holders_complete if status.role == "relay" else None,
        **{name: statistics[name] for name in COUNTERS},
    }


def traced(
    protocol: str, what: str, details: Mapping[str, Any]
) -> tuple[str, str | None, int | None, dict[str, Any]] | None:
    """Return a trace as (event, origin's name, seqno, detail) of the log. None: it is not logged.

    The names of ``suspect`` are addresses still, under ``members``.
    """
    if protocol == RELAY and what in TRACED:
        detail = {k: v for k, v in details.items() if k not in ("origin", "seqno")}
        if detail.get("count") == 1:
            del detail["count"]
        return what, details.get("origin"), details.get("seqno"), detail
    if protocol == "GMS" and what == "suspect":
        return what, None, None, {"members": list(details["members"])}
    return None


def bridge_stack(main: Stack) -> Stack | None:
    """Return RELAY's child stack, while the member is relay."""
    return main.children[-1] if main.children else None


def bridge_view(child: Stack) -> View | None:
    view = child.ask(GetView())
    return view if isinstance(view, View) else None


def reconcile(stack: Stack, sites: Iterable[str]) -> None:
    """Tell RELAY, as an operator, that the states of ``sites`` were brought in line."""
    relay: Any = relay_of(stack)
    for site in sites:
        relay.reconciled(site)


def promote(stack: Stack) -> None:
    """Make this site primary. Call it on the site's relay, as a step of its machine."""
    relay: Any = relay_of(stack)
    assert relay is not None, "promote in a stack without RELAY"
    stack.machine.enter()
    relay.promote()
    stack.machine.leave()
