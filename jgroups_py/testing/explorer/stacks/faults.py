"""The faults: the effect of each kind of step on a scene.

    crash, vanish, leave   ``who``, ``gap`` apart; somebody stays in each site
    fail_site              everybody of the sites of ``who``, ``gap`` apart; ``how``: crash or vanish
    restart                ``who`` (roles of the dead) under the same name
    pause                  ``who`` for ``seconds``
    cut                    ``who`` from ``other`` (nobody named: from all others), for ``seconds``;
                           ``one_way``: only what ``who`` sends
    link                   ``link`` between ``who`` and ``other`` for ``seconds``
    clog                   links from ``who`` to ``other`` for ``seconds``, one by one ``gap`` apart;
                           ``how``: opened in the ``same`` order, or ``reverse``
    reset                  connections between ``who`` and ``other`` break; ``one_way``: only ``who`` are
                           told; for ``seconds`` nothing gets through after that
    drift                  clocks of ``who`` run at the rate ``amount`` for ``seconds``
    slow                   ``who`` read ``amount`` items a second for ``seconds``; 0: none
    burst                  ``who`` send ``amount`` messages
    state                  ``who`` fetch the state from ``other`` (nobody: whom the protocol picks)
    promote                the relay of ``who``'s site makes it primary

Each returns whether it had an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.testing.explorer.stacks.scene import Scene, link_settings
from jgroups_py.testing.explorer.stacks.schedule import Link, Step
from jgroups_py.testing.sim import Member

READ_SECONDS: Final = 0.1
"""Seconds between two reads of a slow reader."""

_MOMENT: Final = Step(at=0, do="pause", who=("*.any",), seconds=1.0)


def apply(scene: Scene, step: Step, trigger: Member | None = None) -> bool:
    """Carry out ``step`` now. False: the step found no member. A step with a time of its own that finds too few members
    stops one for a moment instead."""
    if _DO[step.do](scene, step, trigger):
        return True
    return step.after is None and _pause(scene, _MOMENT, trigger)


def one_more(scene: Scene) -> bool:
    """Do a fault that finds a member if there is any: stop one for a moment, or start a departed one."""
    if _pause(scene, _MOMENT, None):
        return True
    return any(scene.restart(name) is not None for name in scene.site_of)


def _end(scene: Scene, step: Step, trigger: Member | None) -> bool:
    hit = False
    for index, member in enumerate(scene.cast.find(step.who, trigger)):
        if index == 0 or step.gap == 0:
            hit = _end_one(scene, member, step.do) or hit
        else:
            when = scene.world.now + index * step.gap
            scene.world.at(when, _end_later, scene, member, step.do)
    return hit


def _end_one(scene: Scene, member: Member, how: str) -> bool:
    if scene.ended or not member.alive or member.leaving or len(_others(scene, member)) < 1:
        return False
    if how == "leave" and not scene.can_act(member):
        return False
    scene.note(how, member)
    getattr(member, how)()
    return True


def _end_later(scene: Scene, member: Member, how: str) -> None:
    _end_one(scene, member, how)


def _others(scene: Scene, member: Member) -> list[Member]:
    return [m for m in scene.cast.living(member.site) if m is not member]


def _fail_site(scene: Scene, step: Step, trigger: Member | None) -> bool:
    places = {m.site: None for m in scene.cast.find(step.who, trigger)}
    hit = False
    for place in places:
        for index, member in enumerate(scene.cast.living(place)):
            how = "vanish" if step.how == "vanish" else "crash"
            scene.world.at(scene.world.now + index * step.gap, _fall, scene, member, how)
            hit = True
    return hit


def _fall(scene: Scene, member: Member, how: str) -> None:
    if member.alive and not scene.ended:
        scene.note(f"{how} with its site", member)
        getattr(member, how)()


def _restart(scene: Scene, step: Step, trigger: Member | None) -> bool:
    hit = False
    for member in scene.cast.find(step.who, trigger):
        hit = scene.restart(member.name) is not None or hit
    return hit


def _pause(scene: Scene, step: Step, trigger: Member | None) -> bool:
    found = [m for m in scene.cast.find(step.who, trigger) if not m.host.paused]
    for member in found:
        scene.note(f"pause {step.seconds:g} s", member)
        member.pause()
        scene.world.at(scene.world.now + step.seconds, _resume, scene, member)
    return bool(found)


def _resume(scene: Scene, member: Member) -> None:
    if member.host.paused and not scene.ended:
        scene.note("resume", member)
        member.resume()


def _sides(scene: Scene, step: Step, trigger: Member | None) -> tuple[list[Member], list[Member]]:
    here = scene.cast.find(step.who, trigger)
    there = scene.cast.find(step.other, trigger) if step.other else scene.cast.living()
    return here, [m for m in there if m not in here]


def _cut(scene: Scene, step: Step, trigger: Member | None) -> bool:
    here, there = _sides(scene, step, trigger)
    if not here or not there:
        return False
    way = "mute " if step.one_way else ""
    scene.note(f"cut {way}{step.seconds:g} s", *here)
    token = scene.world.partition(here, there, one_way=step.one_way)
    scene.world.at(scene.world.now + step.seconds, _heal, scene, token)
    return True


def _heal(scene: Scene, token: int) -> None:
    if not scene.ended:
        scene.note(f"heal {token}")
        scene.world.heal(token)


def _link(scene: Scene, step: Step, trigger: Member | None) -> bool:
    here, there = _sides(scene, step, trigger)
    if not here or not there:
        return False
    scene.note(f"link {step.seconds:g} s", *here)
    network = scene.world.network
    a, b = ([m.host.address for m in side] for side in (here, there))
    tokens = [network.change(link_settings(step.link or Link()), x, y) for x, y in ((a, b), (b, a))]
    for token in tokens:
        scene.world.at(scene.world.now + step.seconds, network.restore, token)
    return True


def _clog(scene: Scene, step: Step, trigger: Member | None) -> bool:
    here, there = _sides(scene, step, trigger)
    pairs = [(a, b) for a in here for b in there]
    if not pairs:
        return False
    scene.note(f"clog {step.seconds:g} s {len(pairs)} links from", *here)
    now = scene.world.now
    for index, (a, b) in enumerate(pairs):
        opened = len(pairs) - 1 - index if step.how == "reverse" else index
        scene.world.at(now + index * step.gap, _close_link, scene, a, b)
        end = now + step.seconds + (len(pairs) + opened) * step.gap
        scene.world.at(end, scene.world.unclog, a.host, b.host)
    return True


def _close_link(scene: Scene, a: Member, b: Member) -> None:
    if not scene.ended:
        scene.world.clog(a.host, b.host)


def _reset(scene: Scene, step: Step, trigger: Member | None) -> bool:
    here, there = _sides(scene, step, trigger)
    if not here or not there:
        return False
    scene.note(f"connections reset, then {step.seconds:g} s of silence", *here)
    for a in here:
        for b in there:
            scene.world.reset(a.host, b.host, one_way=step.one_way)
    if step.seconds:
        token = scene.world.partition(here, there)
        scene.world.at(scene.world.now + step.seconds, _heal, scene, token)
    return True


def _drift(scene: Scene, step: Step, trigger: Member | None) -> bool:
    found = scene.cast.find(step.who, trigger)
    for member in found:
        scene.note(f"clock at {step.amount:g}", member)
        member.host.drift(step.amount)
        scene.world.at(scene.world.now + step.seconds, member.host.drift, 1.0)
    return bool(found)


def _slow(scene: Scene, step: Step, trigger: Member | None) -> bool:
    found = [m for m in scene.cast.find(step.who, trigger) if m.reading]
    for member in found:
        scene.note(f"reads {step.amount:g}/s for {step.seconds:g} s", member)
        member.reading = False
        scene.world.at(
            scene.world.now + READ_SECONDS, _read, scene, member, step, step.seconds, 0.0
        )
    return bool(found)


def _read(scene: Scene, member: Member, step: Step, left: float, due: float) -> None:
    if not member.alive or member.reading:
        return
    left -= READ_SECONDS
    due += step.amount * READ_SECONDS
    if not member.host.paused:
        if left <= 0:
            member.read_again()
            return
        if due >= 1:
            member.read(int(due))
            due -= int(due)
    scene.world.at(scene.world.now + READ_SECONDS, _read, scene, member, step, left, due)


def _burst(scene: Scene, step: Step, trigger: Member | None) -> bool:
    found = [m for m in scene.cast.find(step.who, trigger) if scene.can_act(m)]
    return any([scene.send(member, int(step.amount), 10) for member in found])


def _state(scene: Scene, step: Step, trigger: Member | None) -> bool:
    there = scene.cast.find(step.other, trigger)
    hit = False
    for member in scene.cast.find(step.who, trigger):
        provider = next((m for m in there if m is not member and m.site == member.site), None)
        if scene.fetch_state(member, provider):
            scene.note("fetches the state", member)
            hit = True
    return hit


def _promote(scene: Scene, step: Step, trigger: Member | None) -> bool:
    for member in scene.cast.find(step.who, trigger):
        relay = member.stack.find(RELAY)
        if relay is None or not scene.can_act(member) or not relay.is_relay:
            continue
        if relay.config.first_primary == "all":
            continue
        scene.note("promote", member)
        member.act(relay.promote)
        return True
    return False


_DO: Final[dict[str, Callable[[Scene, Step, Member | None], bool]]] = {
    "crash": _end,
    "vanish": _end,
    "leave": _end,
    "fail_site": _fail_site,
    "restart": _restart,
    "pause": _pause,
    "cut": _cut,
    "link": _link,
    "clog": _clog,
    "reset": _reset,
    "drift": _drift,
    "slow": _slow,
    "burst": _burst,
    "state": _state,
    "promote": _promote,
}
