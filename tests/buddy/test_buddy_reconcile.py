"""Two sites compare their nodes and request missing ones from their members."""

from buddy_script import address
from site_script import TwoScript

from jgroups_py.buddy.messages import Claim
from jgroups_py.buddy.site_messages import Listing, Sums
from jgroups_py.buddy.surveyor import BUCKETS


def surveys_for(sums: list[int]) -> tuple[list[str], list[Listing]]:
    """Return the kinds of surveys that the relay S sends to T when site N names these sums, and the answers for N."""
    two = TwoScript(there=2)
    two.hold_wire(1)
    two.s.hold("S", "T", Claim)
    relay, pair = two.s.machine("S"), (address("S"), address("T"))
    relay.receive_site("N", Sums(1, tuple(sums)), two.s.world.now)
    two.sites._after(1, relay)
    two.run()
    kinds: list[str] = []
    while pair in two.s.world.channels:
        message = two.s.world.channels[pair][0][1]
        if isinstance(message, Claim) and message.survey is not None:
            kinds.append(message.survey.kind)
        two.s.deliver("S", "T")
        two.run()
    return kinds, [m for m in two.sites.wires[1, 0] if isinstance(m, Listing)]


def test_sites_with_equal_sums_ask_no_member_to_list_its_nodes() -> None:
    kinds, answers = surveys_for([0] * BUCKETS)
    assert kinds == ["sums"]
    assert answers == [Listing(1, (), ())]


def test_members_list_the_nodes_of_the_buckets_that_differ() -> None:
    kinds, answers = surveys_for([5, *[0] * (BUCKETS - 2), 5])
    assert kinds == ["sums", "list"]
    assert answers == [Listing(1, (0, BUCKETS - 1), ())]
