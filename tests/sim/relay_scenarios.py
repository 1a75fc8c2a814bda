"""Drills of RELAY that go beyond the shipped ones: each has one kind of fault, drawn from a seed.

``SCENARIOS[name]`` is a drill file. The judge reports losses; the simulator's oracle (RELAY's invariants after every
step, rest at the end) runs with each.
"""

from __future__ import annotations

from typing import Final

_HEAD: Final = """\
sites:
  NYC: {members: [E, D, C, B]}
  SFO: {members: [T, S, U]}
bridge: {latency: 10ms..60ms, jitter: 0ms..10ms, loss: 0%..1%}
network: {latency: 0.1ms..1ms, jitter: 0ms..1ms, loss: 0%..2%, duplicate: 0%..1%, reorder: 0%..2%}
"""
_EXPECT: Final = "{lost: 0, lost_inside: 0, duplicated: 0, out_of_order: 0}"


def _drill(
    timeline: str,
    *,
    head: str = _HEAD,
    sites: str = "NYC",
    stop: str = "6s",
    settle: str = "5s",
    more: str = "",
    size: str = "100B",
    expect: str = _EXPECT,
) -> str:
    traffic = "".join(
        f"  - {{site: {site}, rate: 8/s..15/s, size: {size}, start: 0s, stop: {stop}}}\n"
        for site in sites.split()
    )
    events = "".join(f"  - {{{line.strip()}}}\n" for line in timeline.strip().splitlines())
    return (
        f"name: scenario\n{head}{more}traffic:\n{traffic}timeline:\n{events}"
        f"settle: {settle}\nexpect: {expect}\n"
    )


_THREE: Final = """\
sites:
  NYC: {members: [E, D, C]}
  SFO: {members: [T, S]}
  LON: {members: [X, Y]}
bridge: {latency: 10ms..60ms, jitter: 0ms..10ms, loss: 0%..1%}
network: {latency: 0.1ms..1ms, jitter: 0ms..1ms, loss: 0%..2%, duplicate: 0%..1%, reorder: 0%..2%}
"""
_BOTH: Final = "primary: all\n"
_ORDERED: Final = "{lost_inside: 0, duplicated: 0, out_of_order: 0}"
_TIMES: Final = _EXPECT.replace("}", ", detection: <= 10s, takeover: <= 30s}")

SCENARIOS: Final[dict[str, str]] = {
    "the relay vanishes": _drill("at: 1s..3s, vanish: NYC.relay", stop="12s", expect=_TIMES),
    "the other site's relay vanishes": _drill(
        "at: 1s..3s, vanish: SFO.relay", stop="12s", expect=_TIMES
    ),
    "the WAN is cut during the take-over": _drill(
        """at: 2s, crash: NYC.relay
           at: 2s..4s, partition: [[NYC], [SFO]], for: 0.2s..3s""",
        stop="9s",
        settle="12s",
    ),
    "the WAN is cut for long": _drill(
        """at: 1s..2s, partition: [[NYC], [SFO]], for: 8s..10s
           at: 3s..9s, crash: NYC.relay""",
        stop="10s",
        settle="14s",
    ),
    "the standby falls inside COLLECT": _drill(
        """at: 1s..2s, crash: [NYC.relay, NYC.standby], gap: 600ms..680ms
           at: 6s, restart: NYC.E""",
    ),
    "both relays fall at once": _drill(
        """at: 2s, crash: NYC.relay
           at: 2s..2.3s, crash: SFO.relay""",
    ),
    "both relays fall at once, both relaying": _drill(
        """at: 2s, crash: NYC.relay
           at: 2s..2.3s, crash: SFO.relay""",
        sites="NYC SFO",
        more=_BOTH,
    ),
    "three sites, each loses its relay": _drill(
        """at: 1.5s..2.5s, crash: NYC.relay
           at: 1.5s..2.5s, crash: SFO.relay
           at: 1.5s..2.5s, crash: LON.relay""",
        head=_THREE,
    ),
    "three sites, all relaying, one cut off": _drill(
        """at: 1.5s..2.5s, crash: NYC.relay
           at: 1.5s..2.5s, partition: [[LON], [NYC, SFO]], for: 1s..7s""",
        head=_THREE,
        sites="NYC SFO LON",
        more=_BOTH,
        stop="8s",
        settle="14s",
    ),
    "home restarts member by member": _drill(
        """at: 1s, crash: NYC.E
           at: 2s..2.5s, restart: NYC.E
           at: 4s..5s, crash: NYC.D
           at: 5s..6s, restart: NYC.D
           at: 7.5s..8.5s, crash: NYC.C
           at: 9s..9.5s, restart: NYC.C
           at: 11s..12s, crash: NYC.B
           at: 12.5s..13s, restart: NYC.B""",
        stop="15s",
    ),
    "the other site restarts member by member": _drill(
        """at: 1s, leave: SFO.T
           at: 1.5s..2.5s, restart: SFO.T
           at: 4s..5s, crash: SFO.S
           at: 5s..6s, restart: SFO.S
           at: 7.5s..8.5s, leave: SFO.U
           at: 9s..9.5s, restart: SFO.U""",
        stop="12s",
    ),
    "relay after relay leaves": _drill(
        """at: 1s..1.5s, leave: NYC.relay
           at: 2s..4s, leave: NYC.relay
           at: 5s, leave: SFO.relay
           at: 5s..6s, leave: NYC.relay""",
        stop="8s",
        settle="12s",
    ),
    "one leaves while another falls": _drill(
        """at: 2s, leave: NYC.relay
           at: 2s..2.2s, crash: NYC.C
           at: 4s, crash: SFO.relay
           at: 4s..4.5s, leave: SFO.standby""",
        stop="7s",
    ),
    "promoted after the old primary is gone, which returns": _drill(
        """at: 2s, fail_site: NYC
           at: 10s, promote: SFO
           at: 11s..12s, restart: NYC.E
           at: 12s..13s, restart: NYC.D""",
        sites="NYC SFO",
        more="relay: primary only\n",
        stop="18s",
        settle="25s",
    ),
    "home is split for a while": _drill(
        "at: 2s, partition: [[NYC.E, NYC.B], [NYC.D, NYC.C]], for: 9s",
        stop="15s",
        settle="20s",
    ),
    "the other relay pauses, is not expelled": _drill(
        "at: 2s, pause: SFO.relay, for: 3s",
        stop="8s",
        settle="10s",
    ),
    "spilled to a file while the WAN is cut": _drill(
        """at: 1s, partition: [[NYC], [SFO]], for: 4s
           at: 2s..4s, crash: NYC.relay""",
        more="set: {RELAY.overflow: spill, RELAY.max_bytes: 250KB}\n",
        size="1KB",
        stop="8s",
        settle="14s",
    ),
    "senders wait while the WAN is cut": _drill(
        "at: 1s, partition: [[NYC], [SFO]], for: 5s",
        more="set: {RELAY.overflow: block, RELAY.max_bytes: 150KB,"
        " RELAY.block_credits: 10KB, MFC.max_credits: 10KB}\n",
        size="1KB",
        stop="10s",
        settle="14s",
    ),
    "senders wait, the WAN is cut, the relay falls": _drill(
        """at: 1s, partition: [[NYC], [SFO]], for: 5s
           at: 3s..5s, crash: NYC.relay""",
        more="set: {RELAY.overflow: block, RELAY.max_bytes: 150KB,"
        " RELAY.block_credits: 10KB, MFC.max_credits: 10KB}\n",
        size="1KB",
        stop="10s",
        settle="14s",
    ),
}
"""Nothing may be lost."""

LOSING: Final[dict[str, str]] = {
    "the oldest are dropped while the WAN is cut": _drill(
        "at: 1s, partition: [[NYC], [SFO]], for: 9s",
        more="set: {RELAY.overflow: drop_oldest, RELAY.max_messages: 10}\n",
        stop="11s",
        settle="25s",
        expect=_ORDERED.replace("{", "{lost: >= 10, "),
    ),
    "promoted while the old primary is cut off": _drill(
        """at: 2s, partition: [[NYC], [SFO]], for: 10s
           at: 9s..10s, promote: SFO""",
        sites="NYC SFO",
        stop="15s",
        settle="15s",
        expect=_ORDERED.replace("{", "{lost: >= 10, "),
    ),
    "the other site is split for a while": _drill(
        "at: 2s, partition: [[SFO.T], [SFO.S, SFO.U]], for: 9s",
        stop="15s",
        settle="20s",
        expect=_ORDERED,
    ),
    "the relay pauses and is expelled": _drill(
        "at: 2s, pause: NYC.relay, for: 8s..9s",
        stop="14s",
        settle="20s",
        expect="{lost: 0, duplicated: 0, out_of_order: 0}",
    ),
}
"""The scenarios with losses must announce lost messages: otherwise the oracle finds a gap."""
