"""KUBE_PING: discovery through the API server of Kubernetes: the pods of a namespace, by their labels.

Place: above TCP, whose bind_port all members have in common.

The pod's service account must be allowed to get and list pods. Attributes that are not set are taken
from the environment that Kubernetes gives each container (KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT, KUBERNETES_NAMESPACE, KUBERNETES_LABELS).

Source:  jgroups-kubernetes KUBE_PING.java, Client.java.
Differs: without namespace and KUBERNETES_NAMESPACE the pod's own namespace is taken, not "default".
         Attempts follow a failed one; a search does not wait for them.
Limits:  max_answer bytes of an answer; max_hosts addresses are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import msgspec

from jgroups_py.config.settings import Bytes, Seconds, Secret
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.by_host import ByHost
from jgroups_py.stack.directories import DirectoryRequest, ListPods
from jgroups_py.stack.exposure import DIRECTORY, PortUse, TransportPlace
from jgroups_py.stack.ports import Consulted, Endpoint
from jgroups_py.values.address import is_numeric_host
from jgroups_py.values.batch import Batch

_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
GROUP_LABELS: Final = ("pod-template-hash", "deployment", "controller-revision-hash")
"""Labels that distinguish revisions of an application: of Deployments, of OpenShift, of StatefulSets."""


class _Named(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Container(msgspec.Struct):
    ready: bool = False


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    podIP: str | None = None
    phase: str = ""
    message: str | None = None
    reason: str | None = None
    containerStatuses: list[_Container] | None = None
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct):
    metadata: _Named | None = None
    status: _Status | None = None


class _Pods(msgspec.Struct):
    items: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class Pod:
    """Facts about a pod that discovery needs. ``group``: its revision of the application."""

    host: str
    ready: bool
    group: str | None


class KUBE_PING(ByHost):
    """See the module's docstring."""

    protocol_id = 2017  # the id from the project jgroups-kubernetes

    @dataclass(frozen=True, kw_only=True)
    class Config(ByHost.Config):
        namespace: str = ""
        """Namespace of the pods; empty: KUBERNETES_NAMESPACE, else the pod's own."""
        labels: str = ""
        """Label selector such as app=shop; empty: KUBERNETES_LABELS, else all pods."""
        port_range: int = 1
        """The number of ports after the transport's bind_port that are asked."""
        masterProtocol: Literal["https", "http"] = "https"
        """The protocol of the API server; http is not encrypted, and meant for kubectl proxy."""
        masterHost: str = ""
        """The API server; empty: KUBERNETES_SERVICE_HOST."""
        masterPort: int = 0
        """The port of the API server; 0: KUBERNETES_SERVICE_PORT, else 443."""
        apiVersion: str = "v1"
        """Version of the API."""
        connectTimeout: Seconds = 5.0
        """Seconds in which a connection to the API server must open."""
        readTimeout: Seconds = 30.0
        """Seconds in which the API server must answer."""
        operationAttempts: int = 3
        """The most attempts at one request."""
        operationSleep: Seconds = 1.0
        """Pause between two attempts."""
        clientCertFile: str = ""
        """Certificate (PEM) that identifies this member to the API server; empty: the token identifies it."""
        clientKeyFile: str = ""
        """The key of the certificate (PEM)."""
        clientKeyPassword: Secret = field(default="", repr=False)
        """The key's password."""
        caCertFile: str = f"{_ACCOUNT}/ca.crt"
        """Certificates (PEM) of the authorities that may sign the API server's."""
        saTokenFile: str = f"{_ACCOUNT}/token"
        """The service account's token. The file is read at each request, since tokens are renewed."""
        useNotReadyAddresses: bool = True
        """Ask pods that are not ready, too: members that start together are not ready yet."""
        split_clusters_during_rolling_update: bool = False
        """Ask pods of the same revision only, so that old and new ones make two groups."""
        max_answer: Bytes = 8_000_000
        """A longer answer is dropped; a pod takes about 8 KB."""
        ignored: ClassVar[frozenset[str]] = frozenset({"dump_requests", "clientKeyAlgo"})

        def __post_init__(self) -> None:
            super().__post_init__()
            self._at_least(0, "port_range")
            self._within(0, 65535, "masterPort")
            self._above(0, "connectTimeout", "readTimeout", "operationSleep")
            self._at_least(1, "operationAttempts", "max_answer")
            if bool(self.clientCertFile) != bool(self.clientKeyFile):
                raise ConfigError(
                    "clientCertFile must be set together with clientKeyFile, "
                    f'got "{self.clientCertFile}" and "{self.clientKeyFile}"'
                )
            for name in ("namespace", "apiVersion", "masterHost"):
                text = getattr(self, name)
                if any(char in text for char in "/?#%\\ \r\n"):
                    raise ConfigError(f'{name} must be a name, got "{text}"')

    config: Config

    @classmethod
    def port_uses(cls, config: KUBE_PING.Config, place: TransportPlace) -> Sequence[PortUse]:
        host = config.masterHost or "the API server of Kubernetes"
        port = config.masterPort or 443
        sealed = "TLS" if config.masterProtocol == "https" else ""
        why = "to the API server of Kubernetes"
        return [PortUse("tcp", "out", port, port, "", host, (DIRECTORY,), why, "", sealed)]

    def start(self) -> None:
        super().start()
        self._again = self.timer(self._on_again)
        self._attempts = 0
        self._told_groups = False

    def stop(self) -> None:
        super().stop()
        self._again.cancel()

    def opening(self) -> DirectoryRequest:
        return self.asking()

    @property
    def lookup_time(self) -> float:
        return self.config.connectTimeout + self.config.readTimeout

    def ports_after(self) -> int:
        return self.config.port_range

    @property
    def directory_name(self) -> str:
        return "the API server of Kubernetes"

    def asking(self) -> DirectoryRequest:
        config = self.config
        return ListPods(
            config.masterProtocol,
            config.masterHost,
            config.masterPort,
            config.apiVersion,
            config.namespace,
            config.labels,
            config.saTokenFile,
            config.caCertFile,
            config.clientCertFile,
            config.clientKeyFile,
            config.clientKeyPassword,
            config.connectTimeout,
            config.readTimeout,
            config.max_answer,
        )

    # --- attempts

    def send_request(self, batch: Batch) -> None:
        self._attempts = self.config.operationAttempts
        super().send_request(batch)

    def not_listed(self, what: str, problem: str) -> None:
        super().not_listed(what, problem)
        self._attempts -= 1
        if self._attempts > 0:
            self._again.start(self.config.operationSleep)

    def _on_again(self) -> None:
        self.look_again()

    # --- answers

    def found_by(self, reply: Consulted) -> list[Endpoint]:
        pods, bad = parse_pods(reply.answer)
        self.dropped_entries += bad
        if self.config.split_clusters_during_rolling_update:
            pods = self._of_our_group(pods)
        ready_only = not self.config.useNotReadyAddresses
        return [(pod.host, 0) for pod in pods if pod.ready or not ready_only]

    def _of_our_group(self, pods: list[Pod]) -> list[Pod]:
        mine = self.physical.host if self.physical is not None else None
        group = next((pod.group for pod in pods if pod.host == mine), None)
        if group is None:
            if not self._told_groups:
                self._told_groups = True
                self.log.warning(
                    "split_clusters_during_rolling_update has no effect: no pod at %s has one of the labels %s",
                    mine,
                    ", ".join(GROUP_LABELS),
                )
            return pods
        return [pod for pod in pods if pod.group == group]


def parse_pods(data: bytes) -> tuple[list[Pod], int]:
    """Return the pods that have an address, and the number of unreadable parts of the answer."""
    try:
        items = msgspec.json.decode(data, type=_Pods).items
    except (msgspec.DecodeError, ValueError, RecursionError):
        return [], 1
    pods: list[Pod] = []
    bad = 0
    for item in items:
        try:
            pod = msgspec.json.decode(item, type=_Pod)
        except (msgspec.DecodeError, ValueError, RecursionError):
            bad += 1
            continue
        status = pod.status
        if status is None or not status.podIP:
            continue  # the pod has no address yet
        if not is_numeric_host(status.podIP) or "%" in status.podIP:
            bad += 1
            continue
        labels = (pod.metadata and pod.metadata.labels) or {}
        group = next((labels[name] for name in GROUP_LABELS if name in labels), None)
        pods.append(Pod(status.podIP, _is_ready(status), group))
    return pods, bad


def _is_ready(status: _Status) -> bool:
    """Return whether Kubernetes reports that the pod runs and all its containers are ready."""
    if status.phase.lower() != "running" or status.message or status.reason:
        return False
    if not all(container.ready for container in status.containerStatuses or ()):
        return False
    ready = [c.status for c in status.conditions or () if c.type.lower() == "ready"]
    return bool(ready) and ready[-1].lower() == "true"
