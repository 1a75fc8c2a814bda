"""A relay that has lost most of its site, and cannot know whether those members are dead.

NYC: R relay, S standby, M other, O origin. SFO: Y relay, Z next, T other.
"""

from __future__ import annotations

import pytest
from relay_harness import Net
from relay_harness import four_and_three as started


def got(net: Net, *names: str) -> list[list[int]]:
    return [net.members[name].got.get("O", []) for name in names]


def kept(net: Net) -> int:
    """Return the number of messages that NYC still holds for SFO."""
    return int(net.members["R"].relay.buffer.messages)


def test_the_other_site_keeps_messages_that_a_cut_off_relay_cannot_pass_on() -> None:
    """Z and T may have a view of their own or not; neither comes to the bridge."""
    net = started()
    net.partition("SFO", "Y", "ZT")
    net.hold("bview", dst="Z")
    net.settle(2)
    net.send("O", 2)
    net.settle(60)  # longer than gap_wait
    assert got(net, "Y", "Z", "T") == [[1, 2], [], []]
    assert (kept(net), net.members["Y"].relay.counters.cut_off) == (2, 1)
    net.merge("SFO")
    net.release()
    net.settle()
    assert net.members["Y"].relay.counters.cut_off == 1
    assert got(net, "Y", "Z", "T") == [[1, 2]] * 3
    assert not any(net.members[name].relay.counters.skipped for name in "YZT")
    net.at_rest()


def test_the_wait_for_missing_members_has_an_end() -> None:
    net = started(cut_off_wait=40.0)
    net.proofs = False
    net.crash("Z", "T")
    net.settle(20)
    net.send("O", 2)
    net.settle(15)
    assert (got(net, "Y"), kept(net)) == ([[1, 2]], 2)
    net.settle(10)
    assert kept(net) == 0
    net.settle()
    net.at_rest()


def test_the_dead_are_not_waited_for() -> None:
    net = started()
    net.crash("Z", "T")
    net.settle(5)
    net.send("O", 2)
    net.settle(3)
    assert (got(net, "Y"), kept(net)) == ([[1, 2]], 0)


def test_most_of_a_site_wait_for_nobody() -> None:
    net = started()
    net.proofs = False
    net.crash("T")
    net.settle(5)
    net.send("O", 2)
    net.settle(3)
    assert (got(net, "Y", "Z"), kept(net)) == ([[1, 2], [1, 2]], 0)


def test_half_of_a_site_waits_and_goes_on_when_the_others_are_back() -> None:
    net = Net(NYC="RSMO", SFO="YZ", config={})
    net.settle(3)
    net.partition("SFO", "Y", "Z")
    net.hold("bview", dst="Z")
    net.settle(2)
    net.send("O", 2)
    net.settle(5)
    assert kept(net) == 2
    net.merge("SFO")
    net.release()
    net.settle(5)
    assert (got(net, "Y", "Z"), kept(net)) == ([[1, 2], [1, 2]], 0)


def test_a_member_that_is_back_is_not_missing() -> None:
    net = started()
    net.partition("SFO", "YZ", "T")
    net.settle(5)
    net.merge("SFO")
    net.settle(5)
    net.proofs = False
    net.crash("Z")
    net.settle(5)
    net.send("O", 2)
    net.settle(5)
    assert (got(net, "Y", "T"), kept(net)) == ([[1, 2], [1, 2]], 0)


def test_notes_about_missing_members_are_forgotten_with_the_time() -> None:
    net = started(cut_off_wait=40.0)
    net.proofs = False
    net.crash("T")
    net.settle(1)
    net.advance(50)
    net.crash("Z")
    net.settle(3)
    assert list(net.members["Y"].relay.departures.lost_at) == [net.members["Z"].id]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines of relays that stop waiting for missing members."""
    return [
        record.getMessage() for record in caplog.records if "acknowledging" in record.getMessage()
    ]


def test_a_relay_says_once_that_it_gives_the_missing_up(caplog: pytest.LogCaptureFixture) -> None:
    net = started(cut_off_wait=40.0)
    net.proofs = False
    net.crash("Z", "T")
    net.settle(60)
    assert said(caplog) == ["Y/SFO: acknowledging again what 2 missing members may lack"]


def test_a_relay_does_not_say_so_of_members_that_come_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = started()
    net.partition("SFO", "Y", "ZT")
    net.settle(10)
    net.merge("SFO")
    net.settle(10)
    assert net.members["Y"].relay.counters.cut_off == 1 and said(caplog) == []
