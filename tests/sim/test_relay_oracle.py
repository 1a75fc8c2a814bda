"""The oracle over RELAY in whole simulated clusters: it reports nothing where RELAY is right, and
each planted fault violates its invariant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.run.runner import NoProgress
from jgroups_py.drill.run.simulated import BrokenInvariant, run_simulated
from jgroups_py.protocols.relay.bridge.link import RelayBridge
from jgroups_py.protocols.relay.bridge.session import RelaySession
from jgroups_py.protocols.relay.home.buffer import RelayBuffer
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.protocols.relay.site.reports import Reports
from jgroups_py.protocols.relay.state import RelayState
from jgroups_py.protocols.relay.wire import ID, SOURCE_ID, MessageKind
from jgroups_py.testing.check.relay_tables import Track
from jgroups_py.testing.check.violation import Violated
from jgroups_py.testing.explorer.lab import Size
from jgroups_py.testing.explorer.stacks.draw import draw
from jgroups_py.testing.explorer.stacks.scene import Scene
from jgroups_py.tools.cli import run as command
from jgroups_py.values.address import SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import StateReceived, ViewChange
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import FragHeader, RelayHeader

DRILL = """\
name: hand-over
seed: 4
sites:
  NYC: {members: [E, D, C, B]}
  SFO: {members: [T, S]}
network: {latency: 0.5ms, jitter: 0.5ms, loss: 0.5%}
traffic:
  - {site: NYC, rate: 20/s, size: 100B, stop: 4s}
timeline:
  - {at: 2s, crash: NYC.relay}
settle: 3s
expect: {lost: 0, lost_inside: 0, duplicated: 0, out_of_order: 0}
"""
WAN = "  - {at: 1.5s, partition: [[NYC], [SFO]], for: 1.8s}\n"
"""A partition between the sites, during which the home site keeps messages."""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def go(text: str = DRILL, settings: Any = ()) -> Any:
        drill = loader.loads(text, str(tmp_path / "d.yaml"))
        planned = plan.build(drill, None, [plan.parse_setting(s) for s in settings])
        return judged.run(planned, run_simulated, NoProgress())

    return go


def broken(run: Any, text: str = DRILL, settings: Any = ()) -> str:
    """Return the invariant that was violated, and the whole line."""
    with pytest.raises(BrokenInvariant) as caught:
        run(text, settings)
    line = str(caught.value)
    assert re.search(r"seed 4, [0-9.]+ s: a bug", line)
    return line.partition("is broken: ")[2]


def handing_up(monkeypatch: pytest.MonkeyPatch, name: str, replacement: Any) -> None:
    """``replacement(relay, batch, pass_up)`` stands between RELAY of ``name`` and its application."""
    start = RELAY.start

    def started(self: Any) -> None:
        start(self)
        if self.machine.name == name:
            passed = self.pass_up
            self.pass_up = lambda batch: replacement(self, batch, passed)

    monkeypatch.setattr(RELAY, "start", started)


def test_a_hand_over_without_faults_breaks_nothing(run: Any) -> None:
    assert run().verdict.passed


def test_i1_an_entry_twice_is_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(relay: Any, batch: Any, pass_up: Any) -> None:
        pass_up(batch)
        if isinstance(batch.src, SiteUUID) and relay.now > 3:
            pass_up(batch)

    handing_up(monkeypatch, "S", twice)
    assert re.match(r"I1, SFO.S: delivered NYC\.[EDCB] (\d+) after \1$", broken(run))


def test_i1_an_entry_out_of_order_is_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[Any, Any] = {}

    def swapped(relay: Any, batch: Any, pass_up: Any) -> None:
        if isinstance(batch.src, SiteUUID) and relay.now > 3 and not kept:
            kept[batch.src] = batch
            return
        pass_up(batch)
        if batch.src in kept and kept[batch.src] is not None:
            pass_up(kept[batch.src])
            kept[batch.src] = None

    handing_up(monkeypatch, "S", swapped)
    # The digest is one ahead of the application before the next message shows the gap.
    assert re.match(r"I2, SFO.S: site_digest of NYC\.\w is (\d+), delivered were", broken(run))


def test_i1_a_gap_that_nobody_announced_is_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    has = RelayState.has

    def forgiving(self: Any, site: Any, origin: Any) -> Any:
        """The faulty member takes any message for the next one."""
        return max(has(self, site, origin), tried.get(origin, 0))

    tried: dict[bytes, int] = {}
    up = RELAY.up

    def skips(self: Any, batch: Any) -> None:
        header = batch.headers.get(ID)
        source = batch.header(SOURCE_ID, RelayHeader)
        if self.machine.name == "S" and self.now > 3 and source is not None and not tried:
            origin = bytes(source.original_sender)
            if header.id == self.state.has("NYC", origin) + 1:
                tried[origin] = header.id
                self.consume(batch)
                return
        up(self, batch)

    monkeypatch.setattr(RELAY, "up", skips)
    monkeypatch.setattr(RelayState, "has", forgiving)
    assert re.match(r"I1, SFO.\w: delivered NYC\.\w \d+ right after \d+", broken(run))


def test_i2_trimmed_before_all_have_it(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reports, "digests", lambda self, view, members: [])
    paused = "  - {at: 1.5s, pause: SFO.S, for: 1s}\n  - {at: 2s, crash"
    line = broken(run, DRILL.replace("  - {at: 2s, crash", paused))
    assert re.match(r"I2, NYC\.\w: trimmed of NYC\.\w is \d+, SFO.S has \d+", line)


def test_i2_a_cursor_beyond_the_end_is_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = RelaySession.answered

    def ahead(self: Any, numbers: Any, replay_to: Any) -> None:
        answered(self, {o: n + 1000 for o, n in numbers.items()}, replay_to)

    monkeypatch.setattr(RelaySession, "answered", ahead)
    assert re.match(r"I2, NYC.\w: cursor of NYC\.\w is \d+, sent were", broken(run))


def test_i3_a_trim_that_goes_too_far_is_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trim = RelayBuffer.trim
    monkeypatch.setattr(
        RelayBuffer, "trim", lambda self, origin, upto: trim(self, origin, upto + 1)
    )
    assert re.match(r"I3, NYC\.\w: NYC\.\w \d+\.\.\d+ is in no buffer that counts", broken(run))


def test_i3_a_holder_throws_its_buffer_away(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    event_up = RELAY.event_up

    def thrown(self: Any, event: Any) -> None:
        event_up(self, event)
        if isinstance(event, ViewChange) and self.config.site == "NYC" and self.now > 2:
            for origin in self.buffer.origins():
                if origin != bytes(self.local_address):
                    self.buffer.cut(origin, 0)

    monkeypatch.setattr(RELAY, "event_up", thrown)
    text = DRILL.replace("  - {at: 2s, crash: NYC.relay}\n", WAN + "  - {at: 2s, crash: NYC.B}\n")
    assert re.match(r"I3, NYC\.\w: NYC.B \d+\.\.\d+ is in no buffer", broken(run, text))


def test_i4_survivors_that_do_not_agree_are_found(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deaf(relay: Any, batch: Any, pass_up: Any) -> None:
        if batch.src != relay.roles.view.members[0] or isinstance(batch.src, SiteUUID):
            pass_up(batch)

    def deaf_from_now(relay: Any, batch: Any, pass_up: Any) -> None:
        (deaf if relay.now > 3 and len(relay.roles.view) == 4 else _hand)(relay, batch, pass_up)

    handing_up(monkeypatch, "C", deaf_from_now)
    assert re.match(r"I4, NYC\.\w: installs \d+ with \d+ of NYC.E, NYC\.\w had \d+", broken(run))


def _hand(relay: Any, batch: Any, pass_up: Any) -> None:
    pass_up(batch)


def test_i5_an_entry_kept_although_trimmed_is_found(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RELAY, "check", lambda self: None)
    monkeypatch.setattr(RelayBuffer, "trim", lambda self, origin, upto: 0)
    assert re.match(r"I5, \w+\.\w: NYC\.\w \d+ is kept, trimmed are \d+", broken(run))


def test_i5_a_log_beyond_its_limit_is_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RELAY, "check", lambda self: None)
    monkeypatch.setattr(RelayBuffer, "overflow", lambda self, now: (None, []))
    text = DRILL.replace("  - {at: 2s, crash: NYC.relay}\n", WAN)
    assert re.match(r"I5, NYC\.\w: 11 messages", broken(run, text, ["RELAY.max_messages=10"]))


def test_a_site_that_never_acknowledges_does_not_come_to_rest(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RelayBridge, "acknowledge", lambda self, lowest, tell: None)
    assert re.match(r"at rest, RELAY: NYC\.\w still buffers \d+ messages", broken(run))


def test_a_broken_invariant_is_exit_2_and_names_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trim = RelayBuffer.trim
    monkeypatch.setattr(
        RelayBuffer, "trim", lambda self, origin, upto: trim(self, origin, upto + 1)
    )
    file = tmp_path / "d.yaml"
    file.write_text(DRILL)
    assert command(["drill", str(file)]) == 2
    errors = capsys.readouterr().err
    assert "an invariant is broken: I3" in errors
    assert "--seed 4" in errors


def test_a_message_that_is_given_up_needlessly_breaks_the_guarantee() -> None:
    oracle, home, away = given_up("90s")
    receiver = away.members[0]
    assert list(oracle.given_up()) == []
    receiver.skipped[home.members[1].raw] = [(3, 4)]
    found = [("SFO.C", "NYC.B", 3, 4)]
    assert list(oracle.given_up()) == found
    away.disturbed = True
    assert list(oracle.given_up()) == found, "the larger side of a partition loses nothing"
    home.disturbed = True
    assert list(oracle.given_up()) == found, "a split of the origin's site is healed by COLLECT"
    for table, name in ((receiver, "outvoted"), (away, "emptied")):
        setattr(table, name, True)
        assert list(oracle.given_up()) == [], name
        setattr(table, name, False)
    home.members[0].relay.counters.overflowed = 1
    assert list(oracle.given_up()) == []
    home.members[0].relay.counters.overflowed = 0
    home.members[0].member.crash()
    assert list(oracle.given_up()) == [], "a partition and a crash count as two"


def test_a_relay_that_acknowledges_sooner_may_lose_messages_beyond_a_partition() -> None:
    oracle, home, away = given_up("20s")
    away.members[0].skipped[home.members[1].raw] = [(3, 4)]
    away.disturbed = True
    assert list(oracle.given_up()) == []
    away.disturbed = False
    assert list(oracle.given_up()) == [("SFO.C", "NYC.B", 3, 4)]


def test_a_member_that_is_cut_off_for_good_counts_as_gone() -> None:
    """The site of the origin was split, and the members with its messages do not come back (all 3349)."""
    oracle, home, away = given_up("90s")
    away.members[0].skipped[home.members[1].raw] = [(3, 4)]
    home.disturbed = True
    assert list(oracle.given_up()) == [("SFO.C", "NYC.B", 3, 4)]
    oracle.give_up([home.members[0].member])
    assert list(oracle.given_up()) == []


@pytest.mark.parametrize("founds", [True, False])
def test_a_member_beside_a_group_that_began_anew_may_lack_its_acknowledged_messages(
    founds: bool,
) -> None:
    """The member was paused, and the restarted members did not find it (all 3256)."""
    oracle, home, away = given_up("90s")
    paused, fresh = away.members
    paused.skipped[home.members[1].raw] = [(3, 4)]
    assert fresh.view is not None
    fresh.view = None
    number = ViewId(fresh.member.address if founds else home.members[0].member.address, 7)
    members = (fresh.member.address,) if founds else (number.creator, fresh.member.address)
    oracle._take_view(fresh, View(number, members))
    assert bool(list(oracle.given_up())) != founds


def test_a_joiner_of_a_member_that_was_left_behind_lacks_the_same() -> None:
    """The other members of its site have ended since (all 849)."""
    oracle, home, away = given_up("90s")
    first, second = away.members
    origin = home.members[1].raw
    first.outvoted = True
    second.skipped[origin] = [(3, 4)]
    assert list(oracle.given_up()) == [("SFO.D", "NYC.B", 3, 4)]
    view, second.view = second.view, None
    assert view is not None and first.member.address == view.members[0]
    oracle._take_view(second, view)
    assert list(oracle.given_up()) == []
    first.outvoted, second.view = False, None
    oracle._take_view(second, view)
    assert list(oracle.given_up()) == [("SFO.D", "NYC.B", 3, 4)]


def given_up(cut_off_wait: str) -> tuple[Any, Any, Any]:
    """Return an oracle and its two sites."""
    drawn = draw(1, "relay", Size(2, (2, 2)))
    attributes = {**drawn.attributes, "RELAY.cut_off_wait": cut_off_wait}
    scene = Scene(msgspec.structs.replace(drawn, attributes=attributes))
    for name in scene.site_of:
        scene.start(name)
    scene.world.run_for(5)
    oracle = scene.world.oracle
    assert oracle is not None
    return oracle, *oracle.sites.values()  # type: ignore[return-value]


def test_a_member_that_begins_a_site_anew_lacks_its_predecessors_messages() -> None:
    """The predecessor was leaving then, so it does not count as a member of the site (all 5482)."""
    oracle, home, away = given_up("90s")
    last, fresh = away.members
    fresh.skipped[home.members[1].raw] = [(3, 4)]
    last.member.leaving = True
    fresh.view = None
    oracle._take_view(fresh, View(ViewId(fresh.member.address, 7), (fresh.member.address,)))
    assert list(oracle.given_up()) == []


@pytest.mark.parametrize("split", [True, False])
def test_a_partition_and_a_holder_that_goes_count_as_two(split: bool) -> None:
    """The holder had sent messages that only its side had, and left with them (all 6669)."""
    oracle, home, _ = given_up("90s")
    stays, origin = home.members
    origin.member.crash()
    oracle._origins[origin.raw].sums.extend([0] * 5)
    stays.tracks[origin.raw] = Track(5)
    stays.view = View(ViewId(stays.member.address, 7), (stays.member.address,))
    assert (home.fallen, home.spare, home.split) == (1, 1, False)
    home.split = split
    if split:
        oracle._check_site(home)
        assert home.excused[origin.raw] == 5
    else:
        with pytest.raises(Violated, match=r"I3 .* NYC\.\w 1\.\.5 is in no buffer"):
            oracle._check_site(home)


@pytest.mark.parametrize("fallen", [1, 2])
def test_losses_that_all_holders_took_along_are_excused_where_the_survivors_never_had_them(
    fallen: int,
) -> None:
    """The survivor had joined after the origin's end, and was no holder yet (all 10187)."""
    oracle, home, away = given_up("90s")
    stays, origin = home.members
    origin.member.crash()
    stays.view = View(ViewId(stays.member.address, 7), (stays.member.address,))
    oracle._origins[origin.raw].sums.extend([0] * 4)
    away.members[0].skipped[origin.raw] = [(3, 4)]
    home.fallen = fallen
    oracle._check_site(home)
    assert bool(list(oracle.given_up())) == (fallen <= 1)


def test_a_member_that_begins_blindly_begins_behind_the_trim() -> None:
    """All members that knew where it begins had ended (all 8534)."""
    oracle, home, away = given_up("90s")
    joiner, origin = away.members[1], oracle._origins[home.members[0].raw]
    home.trimmed[origin.watched.raw] = 51
    assert not oracle._may_skip(joiner, origin, 1, 51)
    joiner.blind = True
    assert oracle._may_skip(joiner, origin, 1, 51)
    assert not oracle._may_skip(joiner, origin, 1, 52)


def test_messages_before_two_promotions_at_once_are_excused() -> None:
    """The site relays before and after the step; in between it dropped its copies (all 9542)."""
    oracle, home, _ = given_up("90s")
    watched = home.members[0]
    oracle._origins[watched.raw].sums.extend([0] * 7)
    oracle._after_step(watched.member.host)
    assert home.excused[watched.raw] == 0
    number, primary = watched.relay.state.epoch
    watched.relay.state.epoch = (number + 2, primary)
    oracle._after_step(watched.member.host)
    assert home.excused[watched.raw] == 7


def test_messages_that_a_state_lacks_come_again_in_order_and_once() -> None:
    """B's state lacks the messages of C that B did not get; A had them, is set back, and gets them again."""
    scene = Scene(draw(1, "relay", Size(1, (3, 3))))
    a, b, c = (scene.start(name) for name in scene.site_of)
    world, oracle = scene.world, scene.world.oracle
    world.run_for(8)
    world.partition([b], [c])
    sent = [scene.checker.payload(c) for _ in range(3)]
    c.send(*sent)
    world.run_for(0.1)
    assert [scene.checker.messages.last(member, c) for member in (a, b)] == [3, 0]
    a.fetch_state(b)
    world.run_for(4)
    assert [type(event) for event in a.events] == [StateReceived]
    assert scene.checker.messages.last(a, c) == 3
    assert oracle is not None
    header: dict[int, Any] = {ID: FragHeader(3, MessageKind.DATA, 0)}
    oracle.offered(a, Batch(None, sent[2:], header, c.address))
    with pytest.raises(Violated, match=r"I1 .* delivered NYC\.\w 3 after 3"):
        oracle._after_step(a.host)


@pytest.mark.parametrize(("behind", "apart"), [(1, False), (0, True)])
def test_a_member_that_joined_with_a_view_that_is_passed_over_is_apart(
    behind: int, apart: bool
) -> None:
    """C's view with all members did not reach B, whose next view without C is no older (all 3309)."""
    scene = Scene(draw(1, "relay", Size(1, (3, 3))))
    members = [scene.start(name) for name in scene.site_of]
    scene.world.run_for(5)
    assert scene.world.oracle is not None
    (site,) = scene.world.oracle.sites.values()
    site.disturbed = False
    a, b, c = site.members
    for watched in site.members:
        watched.apart = False
    everybody = tuple(m.address for m in members)
    b.view = View(ViewId(everybody[0], 10), everybody[:2])
    a.view = c.view = View(ViewId(everybody[0], 12), everybody)
    scene.world.oracle._take_view(b, View(ViewId(everybody[0], 12 - behind), everybody[:2]))
    assert [site.disturbed, a.apart, c.apart] == [apart] * 3
