"""Rules across sites; each is left out once. See buddy_rules.py."""

from typing import Any

from buddy_rules import without
from msgspec.structs import replace

from jgroups_py.buddy.arrivals import Arrivals
from jgroups_py.buddy.calls import Calls
from jgroups_py.buddy.outbox import Outboxes, SiteOutbox
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.buddy.site_messages import Hello
from jgroups_py.buddy.sites import Sites
from jgroups_py.buddy.surveyor import Surveyor
from jgroups_py.buddy.values import Stamp

_apply = Arrivals._apply
_is_newer = Arrivals._is_newer
_next = SiteOutbox.next
_written = Ownership._written


@without("what is unsent is carried by the node", Outboxes, "mine", "t22_the_owner")
def not_carried(self: Outboxes, path: Any, node: Any, seq: int) -> Any:
    return replace(node, unsent=())


@without("who takes over a node gives it a number", Outboxes, "mine", "t22_the_owner")
def old_number(self: Outboxes, path: Any, node: Any, seq: int) -> Any:
    return node


@without("a new link is sent everything again", SiteOutbox, "again", "t22_the_relay")
def sent_once(self: SiteOutbox) -> None:
    pass


@without("a loss at the other site is told", Sites, "post", "t22_the_remote_home")
def loss_not_told(self: Sites, site: str, message: Any) -> None:
    if site in self.links and not (isinstance(message, Hello) and message.lost):
        self._out.send_site(site, message)


@without("acknowledged when the holders have it", Arrivals, "_apply", "t22_the_remote_home")
def acknowledged_at_once(self: Arrivals, site: Any, event: Any, elsewhere: Any) -> None:
    log = self._log
    log.when_acked = lambda then: then()  # type: ignore[method-assign]
    try:
        _apply(self, site, event, elsewhere)
    finally:
        del log.when_acked


@without("safe at home before it is sent", SiteOutbox, "next", "t22_an_event")
def sent_before_it_is_safe(self: SiteOutbox, acked: int) -> Any:
    return _next(self, 2**62)


@without("promotion raises the epoch", Sites, "_promote", "t23_")
def not_promoted(self: Sites, epoch: int) -> None:
    pass


@without("what a dead relay was asked for the next one is asked", Sites, "_ask_again", "t25_")
def not_asked_again(self: Sites) -> None:
    pass


@without("only higher stamps are applied", Arrivals, "_is_newer", "t24_the_event")
def whatever_comes(self: Arrivals, site: str, sent: Any) -> bool:
    node = self._ownership.nodes.get(sent.path)
    if node is not None and sent.stamp != node.stamp:
        low = replace(node, stamp=Stamp(-1, (0, 0), 0, node.stamp.owner))
        self._ownership._set(sent.path, low)
    return _is_newer(self, site, sent)


@without("a removal is a value, too", Arrivals, "_is_newer", "t24_a_removal")
def removed_is_absent(self: Arrivals, site: str, sent: Any) -> bool:
    node = self._ownership.nodes.get(sent.path)
    if node is not None and node.removed:
        self._ownership._drop(sent.path)
    return _is_newer(self, site, sent)


@without("surveys are in the order of claims", Sites, "_survey", "t25_")
def surveys_overtake(self: Sites, survey: Any, then: Any) -> None:
    if survey.kind != "mark":
        self._claims.survey_all(survey, then)
        return
    own = self._claims.open(
        ((("?",), False),), "take", survey=survey
    )  # it overlaps with no other bootstrap
    own.survey, own.then = survey, then


_acknowledged = Ownership.acknowledged


@without(
    "cleared only if it is still that event", Ownership, "acknowledged", seeds=("sites", 0, 200)
)
def any_event_clears(self: Ownership, site: str, n: int, path: Any) -> bool:
    node = self.mine(path)
    if node is None:
        return False
    number = dict(node.unsent).get(site, n)
    return _acknowledged(self, site, number, path)


@without(
    "who owns it is asked before it is created", Calls, "submit_inner", seeds=("sites", 0, 200)
)
def created_blindly(self: Calls, paths: Any, inner: Any) -> None:
    inner({})


@without(
    "stamps rise above those of the other site", Ownership, "_written", seeds=("active", 0, 300)
)
def stamps_of_this_site(self: Ownership, node: Any, value: Any) -> Any:
    written = _written(self, node, value)
    if node is None or written.stamp.site != node.stamp.site:
        return written
    return replace(written, stamp=written.stamp._replace(epoch=node.epoch))


@without(
    "what is discarded between sites is listed", Arrivals, "_discard", seeds=("active", 0, 200)
)
def not_listed(self: Arrivals, *args: Any) -> None:
    pass


@without(
    "what only the other site has is removed",
    Arrivals,
    "remove_there",
    "overflow_",
)
def left_there(self: Arrivals, nodes: Any) -> None:
    pass


@without("what the other site lacks is marked", Surveyor, "_mark", "t25_")
def not_marked(self: Surveyor, site: str, paths: Any) -> None:
    pass


@without("a promotion makes sites repair each other", Sites, "_repair", seeds=("three", 38, 38))
def not_repaired(self: Sites) -> None:
    pass


@without(
    "a value over one that is unsent has a number of its own",
    Arrivals,
    "_passed_on",
    seeds=("three", 365, 365),
)
def the_old_number(self: Arrivals, site: str, sent: Any) -> list[str]:
    return []
