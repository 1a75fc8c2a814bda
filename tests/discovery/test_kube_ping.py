"""KUBE_PING: the pods that it asks, the answers that it reads, and an API server with recorded answers about
pods (pods.json)."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from listing import FIND, Listing, at

from jgroups_py.driver.directories import DirectoryProblem
from jgroups_py.driver.directories import kubernetes as adapter
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.kube_ping import KUBE_PING, parse_pods
from jgroups_py.stack.directories import ListPods
from jgroups_py.testing import SimCluster
from jgroups_py.values.events import Failed, TransportPorts, TransportReady

RECORDED = (Path(__file__).parent / "pods.json").read_bytes()
pytestmark = pytest.mark.sockets
TOKEN = "a-token-that-nobody-must-see"


def ping(host: str = "10.244.0.11", **attributes: Any) -> Listing:
    listing = Listing(KUBE_PING(**attributes), answers={TransportPorts: (7800, 10)})
    listing.stack.event_up(TransportReady(at(7800, host)))
    listing.answer(RECORDED)
    return listing


def asked(listing: Listing, answer: bytes = RECORDED) -> list[str]:
    listing.stack.event_down(FIND)
    listing.answer(answer)
    return listing.asked()


def test_pods_with_an_address_are_asked_on_a_few_ports() -> None:
    assert asked(ping()) == [
        "10.244.0.11:7801",
        "10.244.0.12:7800",
        "10.244.0.12:7801",
        "10.244.0.13:7800",
        "10.244.0.13:7801",
        "10.244.0.14:7800",
        "10.244.0.14:7801",
    ]


def test_only_ready_pods_of_our_revision_count_where_that_is_wanted() -> None:
    assert asked(ping(port_range=0, useNotReadyAddresses=False)) == ["10.244.0.12:7800"]
    split: dict[str, Any] = {"port_range": 0, "split_clusters_during_rolling_update": True}
    assert asked(ping(**split)) == ["10.244.0.12:7800", "10.244.0.14:7800"]
    assert asked(ping("10.244.0.13", **split)) == []
    assert len(asked(ping("10.9.9.9", **split))) == 4  # not on the list, so no member is left out


def test_a_missing_setting_of_a_pod_is_read_from_the_environment() -> None:
    request = ping().stack.protocol.asking()  # type: ignore[attr-defined]
    assert isinstance(request, ListPods)
    assert (request.host, request.port, request.namespace, request.labels) == ("", 0, "", "")
    assert request.ca_file == "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"


def test_a_problem_that_the_operator_must_mend_ends_the_stack() -> None:
    listing = Listing(KUBE_PING(), answers={TransportPorts: (7800, 10)})
    listing.stack.event_up(TransportReady(at(7800)))
    listing.answer(problem="masterHost must name the API server", final=True)
    (failed,) = listing.stack.take_up_events()
    assert failed == Failed("KUBE_PING: masterHost must name the API server")


def test_a_request_that_failed_is_made_again_a_few_times() -> None:
    listing = ping(operationAttempts=3, operationSleep=1.0)
    listing.stack.event_down(FIND)
    listing.answer(problem="answers 500")
    for _ in range(2):
        listing.stack.advance(1.01)
        listing.answer(problem="answers 500")
    # The search repeats its question at half its time-out, and that begins three attempts anew.
    assert listing.statistics()["lookups_failed"] == 3
    listing.stack.advance(60)
    while listing.requests():
        listing.answer(problem="answers 500")
        listing.stack.advance(60)
    assert listing.statistics()["lookups_failed"] < 10


def test_a_failed_request_is_not_repeated_if_one_attempt_is_allowed() -> None:
    listing = ping(operationAttempts=1, operationSleep=0.1)
    listing.stack.event_down(FIND)
    listing.answer(problem="answers 500")
    listing.stack.advance(0.2)
    assert listing.requests() == []


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>hello</html>",
        b"[]",
        b'{"items": 7}',
        b'{"kind": "Status"}',
        b"[" * 100_000,
        b'{"items": [' + b"[" * 50_000,
        b"\xff\xfe",
        b'{"items": [{"status": {"podIP": "224.0.0.1"}}, {"status": {"podIP": "../../etc"}}, 7]}',
        b'{"items": [{"status": {"podIP": ["10.0.0.1"]}}, {"status": null}, {"status": {"podIP": "0.0.0.0"}}]}',
    ],
)
def test_nonsense_is_counted_and_nobody_is_asked(answer: bytes) -> None:
    listing = ping(port_range=0)
    assert asked(listing, answer) == []
    assert listing.statistics()["dropped_entries"] >= 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["items", "status", "podIP", "metadata", "labels", "conditions", "x"]
                ),
                inner,
            )
        ),
    )
)
def test_any_json_is_pods_or_counted(value: Any) -> None:
    pods, bad = parse_pods(json.dumps({"items": [value]}).encode())
    assert len(pods) + bad <= 1


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"clientCertFile": "a"}, "clientCertFile must be set together with clientKeyFile"),
        ({"namespace": "a/b"}, 'namespace must be a name, got "a/b"'),
        ({"masterHost": "http://a"}, "masterHost must be a name"),
        ({"masterPort": 70000}, "masterPort"),
        ({"operationAttempts": 0}, "operationAttempts"),
        ({"readTimeout": 0}, "readTimeout"),
    ],
)
def test_settings_of_kube_ping_that_cannot_be_are_refused(
    attributes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        KUBE_PING(**attributes)


def test_a_password_is_in_no_text() -> None:
    protocol = KUBE_PING(clientCertFile="a", clientKeyFile="b", clientKeyPassword="s3cret")
    listing = Listing(protocol, answers={TransportPorts: (7800, 1)})
    listing.stack.event_up(TransportReady(at(7800)))
    texts = [repr(protocol), repr(protocol.config), repr(listing.waiting), repr(listing.requests())]
    assert all("s3cret" not in text for text in texts)


def test_members_find_each_other_through_pods_in_virtual_time() -> None:
    cluster = SimCluster("ABC", "tcp-kube.xml", seed=4)
    cluster.open()
    pods = [{"status": {"podIP": f"10.0.0.{n}"}} for n in (1, 2, 3)]
    cluster.world.directory.pods = json.dumps({"items": pods}).encode()
    cluster.start()
    assert len(cluster["C"].view_names) == 3
    cluster.close()


# --- an API server


class Api:
    """The server of Kubernetes: its answers, and the requests that it got."""

    def __init__(self) -> None:
        self.status = 200
        self.body = RECORDED
        self.paths: list[str] = []
        self.tokens: list[str | None] = []


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key of a server at 127.0.0.1; the certificate is self-signed."""
    folder = tmp_path_factory.mktemp("authority")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "ca.crt", folder / "key.pem"


@pytest.fixture
def server(authority: tuple[Path, Path]) -> Iterator[tuple[Api, int]]:
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            api.paths.append(self.path)
            api.tokens.append(self.headers["Authorization"])
            self.send_response(api.status)
            self.send_header("Content-Length", str(len(api.body)))
            self.end_headers()
            try:
                self.wfile.write(api.body)
            except OSError:
                pass  # the member has read enough

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    http.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=http.serve_forever, args=(0.05,))
    thread.start()
    yield api, http.server_address[1]
    http.shutdown()
    http.server_close()
    thread.join()


Ask = Callable[..., bytes]


@pytest.fixture
def ask(server: tuple[Api, int], authority: tuple[Path, Path], tmp_path: Path) -> Ask:
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")

    def ask(**changes: Any) -> bytes:
        values: dict[str, Any] = {
            "protocol": "https",
            "host": "127.0.0.1",
            "port": server[1],
            "api_version": "v1",
            "namespace": "shop",
            "labels": "",
            "token_file": str(token),
            "ca_file": str(authority[0]),
            "certificate_file": "",
            "key_file": "",
            "key_password": "",
            "connect_timeout": 60.0,
            "read_timeout": 60.0,
            "max_answer": 1_000_000,
        }
        return adapter.answer(ListPods(**{**values, **changes}))

    return ask


def test_the_api_server_is_asked_with_the_token(server: tuple[Api, int], ask: Ask) -> None:
    assert ask(labels="app=shop,tier!=web") == RECORDED
    api = server[0]
    assert api.paths == ["/api/v1/namespaces/shop/pods?labelSelector=app%3Dshop%2Ctier%21%3Dweb"]
    assert api.tokens == [f"Bearer {TOKEN}"]


def test_the_environment_fills_missing_settings(
    server: tuple[Api, int], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server[1]))
    monkeypatch.setenv("KUBERNETES_NAMESPACE", "other")
    monkeypatch.setenv("KUBERNETES_LABELS", "app=x")
    assert ask(host="", port=0, namespace="") == RECORDED
    assert server[0].paths == ["/api/v1/namespaces/other/pods?labelSelector=app%3Dx"]


@pytest.mark.parametrize(
    ("written", "asked"), [(" shop-7\n", "shop-7"), ("", "default"), (None, "default")]
)
def test_a_pod_knows_its_own_namespace_from_a_file(
    server: tuple[Api, int],
    ask: Ask,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: str | None,
    asked: str,
) -> None:
    monkeypatch.delenv("KUBERNETES_NAMESPACE", raising=False)
    monkeypatch.setattr(adapter, "NAMESPACE_FILE", str(tmp_path / "namespace"))
    if written is not None:
        (tmp_path / "namespace").write_text(written)
    assert ask(namespace="") == RECORDED
    assert server[0].paths == [f"/api/v1/namespaces/{asked}/pods"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "answers 401: the token or certificate is not accepted"),
        (
            403,
            "answers 403: the service account must be allowed to get and list pods in namespace shop",
        ),
        (404, "there is no namespace shop"),
        (500, "answers 500"),
        (302, "answers 302"),
    ],
)
def test_refusals_are_told_in_words(
    server: tuple[Api, int], ask: Ask, status: int, told: str
) -> None:
    server[0].status = status
    with pytest.raises(DirectoryProblem, match=told) as caught:
        ask()
    assert not caught.value.final and TOKEN not in str(caught.value)


def test_an_answer_of_ten_megabytes_is_not_read(server: tuple[Api, int], ask: Ask) -> None:
    server[0].body = b" " * 10_000_000
    with pytest.raises(DirectoryProblem, match=r"longer than max_answer \(1000000\)"):
        ask()


def test_a_server_that_nobody_vouches_for_gets_no_token(
    server: tuple[Api, int], ask: Ask, tmp_path: Path
) -> None:
    other = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not other:
        pytest.skip("no certificates on this machine")
    file = tmp_path / "other.crt"
    file.write_text(ssl.DER_cert_to_PEM_cert(other[0]))
    with pytest.raises(DirectoryProblem, match="TLS: CERTIFICATE_VERIFY_FAILED"):
        ask(ca_file=str(file))
    assert server[0].tokens == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"host": ""}, r"masterHost must name the API server.*is this a pod\?"),
        (
            {"token_file": "/nowhere/token"},
            'saTokenFile must be the path of a token, got "/nowhere/token"',
        ),
        ({"ca_file": "/nowhere/ca"}, 'caCertFile must be the path of certificates.*"/nowhere/ca"'),
        (
            {"certificate_file": "/no/c", "key_file": "/no/k"},
            "clientCertFile, clientKeyFile must be",
        ),
    ],
)
def test_a_problem_that_only_the_operator_can_mend_is_final(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], told: str
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(DirectoryProblem, match=told) as caught:
        ask(**changes)
    assert caught.value.final


def test_a_server_that_does_not_listen_is_a_problem(ask: Ask) -> None:
    with pytest.raises(DirectoryProblem, match="Connection refused") as caught:
        ask(port=1)
    assert not caught.value.final
