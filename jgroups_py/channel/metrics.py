"""Metrics: a member's counters in the text format of Prometheus.

    jgroups_nakack2_xmit_requests{cluster="demo",member="A"} 3

A metric is named after its protocol and attribute. Its type is untyped, because attributes do not say whether they are
counters or sizes; ``rate()`` accepts it all the same. Child stacks, such as RELAY's bridge, are other clusters of the
member.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import trio

from jgroups_py.driver.http_port import HTTP_CAUSES, HttpPort, is_local, open_port, place_of
from jgroups_py.errors import ConfigError
from jgroups_py.stack.inspection import counters_of
from jgroups_py.values.shown import shown

if TYPE_CHECKING:
    from jgroups_py.channel.channel import Channel

_log = logging.getLogger("jgroups_py.channel.metrics")

PATH: Final = "/metrics"
VARIABLE: Final = "JGROUPS_METRICS"
"""Environment variable: the port of each channel that was not given one, in the form of ``metrics`` of
``open_channel``."""
BY: Final = "METRICS"
"""The name under which refused requests are counted and logged."""
FRESH: Final = 1.0
"""Seconds for which the same page answers further requests."""
SAMPLES_MAX: Final = 50_000
"""The most samples of a page. Further ones are left out."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of one member. ``labels`` are more labels, beside cluster and member."""

    cluster: str
    member: str
    name: str
    value: float
    about: str = ""
    labels: tuple[tuple[str, str], ...] = ()


def protocol_sample(
    cluster: str, member: str, protocol: str, attribute: str, value: float
) -> Sample:
    """Return the sample of a protocol's attribute."""
    short = protocol.rpartition(".")[2]
    about = f"{attribute} of {short}"
    return Sample(cluster, member, metric_name(short, attribute), value, about)


def metric_name(*parts: str) -> str:
    """``jgroups_nakack2_xmit_requests``."""
    return "jgroups_" + re.sub(r"[^a-z0-9]+", "_", "_".join(parts).lower()).strip("_")


def samples_of(channel: Channel) -> Iterator[Sample]:
    """Yield all numbers of a member as they are now."""
    cluster, member = channel.cluster, channel.name
    stack, view = channel.stack, channel.view
    lateness = stack.machine.lateness
    told = channel.statistics()
    own = {
        "view_members": (len(view), "members of the view"),
        "view_id": (view.id, "number of the view"),
        "coordinator": (int(view.coordinator == channel.address), "1 at the coordinator, else 0"),
        "lags_total": (lateness.lags, "how often this process was stopped, or its loop blocked"),
        "lag_longest_seconds": (lateness.longest, "how late this process was at most"),
    }
    for name, (value, about) in own.items():
        yield Sample(cluster, member, metric_name(name), value, about)
    for field in dataclasses.fields(told):
        value = getattr(told, field.name)
        if type(value) in (int, float):
            yield protocol_sample(cluster, member, "channel", field.name, value)
    for name, value in told.driver.items():
        yield protocol_sample(cluster, member, "driver", name, value)
    for cause, value in told.turned_away.items():
        about = "what was refused from the network, by cause"
        label = (("cause", cause),)
        yield Sample(cluster, member, metric_name("turned_away"), value, about, label)
    for each in (stack, *_below(stack)):
        for protocol in each.protocols:
            for name, value in counters_of(protocol).items():
                yield protocol_sample(each.cluster, member, protocol.name, name, value)
    for more in channel.more_metrics:
        yield from more()


def _below(stack: Any) -> Iterator[Any]:
    for child in stack.children:
        yield child
        yield from _below(child)


def page_of(samples: Iterable[Sample]) -> bytes:
    """Return the page for Prometheus.

    Raises:
        ConfigError: prometheus-client is not installed.
    """
    client = _client()
    families: dict[str, Any] = {}
    for position, sample in enumerate(samples):
        if position >= SAMPLES_MAX:
            break
        labels = {"cluster": sample.cluster, "member": sample.member, **dict(sample.labels)}
        family = families.get(sample.name)
        if family is None:
            family = families[sample.name] = client.core.UnknownMetricFamily(
                sample.name, sample.about or sample.name, labels=list(labels)
            )
        family.add_metric([shown(text) for text in labels.values()], sample.value)

    class Collected(client.registry.Collector):  # type: ignore[misc, name-defined]
        def collect(self) -> Iterable[Any]:
            return families.values()

    registry = client.CollectorRegistry()
    registry.register(Collected())
    page: bytes = client.generate_latest(registry)
    return page


def kind_of_page() -> str:
    """Return the content type of a page."""
    return str(_client().CONTENT_TYPE_LATEST)


def _client() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError:
        raise ConfigError(
            "metrics need prometheus-client: pip install 'jgroups_py[metrics]'"
        ) from None
    return prometheus_client


def metrics_of(given: int | str | None) -> int | str | None:
    """Return the port for a channel. None: the channel has no port.

    Raises:
        TypeError: ``given`` is neither a number nor a text.
    """
    if given is None:
        return os.environ.get(VARIABLE) or None
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise TypeError(f"metrics is a port or HOST:PORT, got {type(given).__name__}")
    return given


class MetricsPort:
    """The port of one channel. Without ``where`` it does nothing."""

    def __init__(self, channel: Channel, where: int | str | None) -> None:
        self._channel = channel
        self._where = where
        self._page = b""
        self._made = -FRESH
        self.place: tuple[str, int] | None = None
        """Host and port, once the port is open."""

    def begin(self, nursery: trio.Nursery) -> None:
        """Open the port, and answer from now on.

        Raises:
            ConfigError: the port cannot be opened.
        """
        if self._where is None:
            return
        kind = kind_of_page()
        listener = open_port("metrics", self._where)
        self.place = place_of(listener)
        if not is_local(listener):
            self._channel.warn("metrics are open to other machines at %s:%d", *self.place)
        _log.info("%s: metrics are at %s:%d%s", self._channel.name, *self.place, PATH)
        nursery.start_soon(HttpPort(PATH, kind, self._fresh, self._refuse).serve, listener)

    async def _fresh(self) -> bytes:
        now = trio.current_time()
        if now >= self._made + FRESH:
            self._page, self._made = page_of(samples_of(self._channel)), now
        return self._page

    def _refuse(self, cause: str, source: tuple[str, int]) -> None:
        self._channel.turn_away(BY, cause, source, causes=HTTP_CAUSES)
