"""Kubernetes' API server, for KUBE_PING."""

from __future__ import annotations

import http.client
import os
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from jgroups_py.driver.directories.asking import DirectoryProblem
from jgroups_py.stack.directories import ListPods

NAMESPACE_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
TOKEN_MAX: Final = 65_536
"""The most bytes of a token file that are read."""
REFUSED: Final = {
    401: "the token or certificate is not accepted",
    403: "the service account must be allowed to get and list pods in namespace {namespace} (Role, RoleBinding)",
    404: "there is no namespace {namespace}, or no API of that version",
}
"""The action that an operator can take about an answer."""


def answer(request: ListPods) -> bytes:
    """Return the API server's answer."""
    host = request.host or os.environ.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        raise DirectoryProblem(
            "masterHost must name the API server: it is empty, and KUBERNETES_SERVICE_HOST is not set "
            "(is this a pod?)",
            final=True,
        )
    namespace = request.namespace or os.environ.get("KUBERNETES_NAMESPACE") or _own_namespace()
    labels = request.labels or os.environ.get("KUBERNETES_LABELS", "")
    path = f"/api/{quote(request.api_version)}/namespaces/{quote(namespace, safe='')}/pods"
    if labels:
        path += "?" + urlencode({"labelSelector": labels})
    connection = _connection(request, host)
    try:
        status, body = _get(connection, path, _headers(request), request)
    except http.client.HTTPException as error:
        raise DirectoryProblem(f"{host}: no answer in HTTP ({type(error).__name__})") from None
    except ssl.SSLError as error:
        raise DirectoryProblem(f"{host}: TLS: {error.reason or type(error).__name__}") from None
    except OSError as error:
        raise DirectoryProblem(f"{host}: {error.strerror or type(error).__name__}") from None
    finally:
        connection.close()
    if status != 200:
        hint = REFUSED.get(status, "").format(namespace=namespace)
        raise DirectoryProblem(f"{host} answers {status}{f': {hint}' if hint else ''}")
    if len(body) > request.max_answer:
        raise DirectoryProblem(
            f"{host}: the answer is longer than max_answer ({request.max_answer}); labels would make it shorter"
        )
    return body


def _own_namespace() -> str:
    try:
        return Path(NAMESPACE_FILE).read_text(encoding="utf-8").strip()[:253] or "default"
    except OSError:
        return "default"


def _connection(request: ListPods, host: str) -> http.client.HTTPConnection:
    port = request.port or _environment_port()
    if request.protocol == "http":
        return http.client.HTTPConnection(host, port, timeout=request.connect_timeout)
    return http.client.HTTPSConnection(
        host, port, timeout=request.connect_timeout, context=_encryption(request)
    )


def _environment_port() -> int:
    text = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise DirectoryProblem(
            f'masterPort must be a port: it is 0, and KUBERNETES_SERVICE_PORT is "{text[:20]}"',
            final=True,
        )
    return int(text)


def _encryption(request: ListPods) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=request.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise _unreadable("caCertFile", request.ca_file, "certificates (PEM)", error) from None
    if request.certificate_file:
        try:
            context.load_cert_chain(
                request.certificate_file, request.key_file, request.key_password or (lambda: "")
            )
        except (OSError, ssl.SSLError) as error:
            place = f"{request.certificate_file}, {request.key_file}"
            raise _unreadable(
                "clientCertFile, clientKeyFile", place, "a certificate and its key", error
            ) from None
    return context


def _headers(request: ListPods) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": "jgroups_py"}
    if request.certificate_file or request.protocol == "http":
        return headers
    try:
        with open(request.token_file, encoding="ascii") as file:
            token = file.read(TOKEN_MAX).strip()
    except (OSError, UnicodeError) as error:
        raise _unreadable("saTokenFile", request.token_file, "a token", error) from None
    return {**headers, "Authorization": f"Bearer {token}"}


def _unreadable(attribute: str, value: str, wanted: str, error: Exception) -> DirectoryProblem:
    reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
    return DirectoryProblem(
        f'{attribute} must be the path of {wanted}, got "{value}": {reason}', final=True
    )


def _get(
    connection: http.client.HTTPConnection, path: str, headers: dict[str, str], request: ListPods
) -> tuple[int, bytes]:
    """Return the status, and at most one byte more than allowed."""
    connection.connect()
    assert connection.sock is not None
    connection.sock.settimeout(request.read_timeout)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response.status, response.read(request.max_answer + 1)
