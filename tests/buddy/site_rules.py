"""Rules across sites left out, one at a time. See buddy_rules.py."""

from typing import Any

from buddy_rules import without
from msgspec.structs import replace

from jgroups_py.buddy import walks
from jgroups_py.buddy.arrivals import Arrivals
from jgroups_py.buddy.calls import Calls
from jgroups_py.buddy.outbox import Outbox
from jgroups_py.buddy.outputs import SendSite
from jgroups_py.buddy.site_messages import Hello
from jgroups_py.buddy.sites import Sites
from jgroups_py.buddy.values import Stamp

_apply = Arrivals._apply
_newer = Arrivals._newer
_next = Outbox.next
_written = Calls.written
_set_unsent = walks.Walks._set_unsent


@without("what is unsent is carried by the node", Sites, "mine", "t22_the_owner")
def not_carried(self: Sites, path: Any, node: Any) -> Any:
    return replace(node, unsent=())


@without("who takes over a node gives it a number", Sites, "mine", "t22_the_owner")
def old_number(self: Sites, path: Any, node: Any) -> Any:
    return node


@without("a new link is sent everything again", Outbox, "again", "t22_the_relay")
def sent_once(self: Outbox) -> None:
    pass


@without("a loss at the other site is told", Sites, "_post", "t22_the_remote_home")
def loss_not_told(self: Sites, site: str, message: Any) -> None:
    if site in self.links and not (isinstance(message, Hello) and message.lost):
        self.machine.output(SendSite(site, message))


@without("acknowledged when the holders have it", Arrivals, "_apply", "t22_the_remote_home")
def acknowledged_at_once(self: Arrivals, site: Any, event: Any, elsewhere: Any) -> None:
    log = self.machine.log
    log.when_acked = lambda then: then()  # type: ignore[method-assign]
    try:
        _apply(self, site, event, elsewhere)
    finally:
        del log.when_acked


@without("safe at home before it is sent", Outbox, "next", "t22_an_event")
def sent_before_it_is_safe(self: Outbox, acked: int) -> Any:
    return _next(self, 2**62)


@without("promotion raises the epoch", Sites, "_promote", "t23_")
def not_promoted(self: Sites, epoch: int) -> None:
    pass


@without("what a dead relay was asked for the next one is asked", Sites, "_ask_again", "t25_")
def not_asked_again(self: Sites) -> None:
    pass


@without("only higher stamps are applied", Arrivals, "_newer", "t24_the_event")
def whatever_comes(self: Arrivals, site: str, sent: Any) -> Any:
    node = self.machine.own.get(sent.path)
    low = replace(node, stamp=Stamp(-1, (0, 0), 0, node.stamp.owner)) if node else None
    if node is None or low is None or sent.stamp == node.stamp:
        return _newer(self, site, sent)
    self.machine.own[sent.path] = low
    return _newer(self, site, sent)


@without("a removal is a value, too", Arrivals, "_newer", "t24_a_removal")
def removed_is_absent(self: Arrivals, site: str, sent: Any) -> Any:
    node = self.machine.own.get(sent.path)
    if node is not None and node.removed:
        del self.machine.own[sent.path]
    return _newer(self, site, sent)


@without("surveys are in the order of claims", walks.Walks, "_survey", "t25_")
def surveys_overtake(self: walks.Walks, survey: Any, then: Any) -> None:
    if survey.kind != "mark":
        self.machine.claims.survey_all(survey, then)
        return
    own = self.machine.claims.open(
        ((("?",), False),), "take", survey=survey
    )  # overlaps with nothing
    own.survey, own.then = survey, then


@without("cleared only if it is still that event", Sites, "_still", seeds=("sites", 0, 200))
def any_event_clears(self: Sites, path: Any, site: str, n: int) -> Any:
    node = self.machine.own.get(path)
    if node is None or node.to is not None or not any(s == site for s, _ in node.unsent):
        return None
    return replace(node, unsent=tuple((s, n) for s, _ in node.unsent))


@without("who owns it is asked before it is created", Arrivals, "_begin", seeds=("sites", 0, 200))
def created_blindly(self: Arrivals, paths: Any, inner: Any) -> None:
    inner({})


@without("stamps rise above those of the other site", Calls, "written", seeds=("active", 0, 300))
def stamps_of_this_site(self: Calls, node: Any, value: Any) -> Any:
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


@without("what the other site lacks is marked", walks.Walks, "_set_unsent", "t25_")
def not_marked(self: walks.Walks, site: str, paths: Any) -> None:
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
def the_old_number(self: Arrivals, site: str, path: Any, node: Any) -> Any:
    return node
