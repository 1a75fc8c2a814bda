"""Java and Python members in one group with TLS on TCP: PKCS12 files of both kinds, crashes of each coordinator,
refused strangers."""

from __future__ import annotations

from pathlib import Path

import pytest
from java_parts import JavaParts
from mixed_group import HASTY, eventually, mixed_group
from test_java_membership import agree, hear_each_other

from jgroups_py.testing.authority import CertificateAuthority

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


def attributes_of(authority: CertificateAuthority, name: str) -> dict[str, str]:
    """Return the attributes of TLS in a member's stack file, which are the same for Java and Python."""
    issued = authority.issue(name)
    return {
        "TCP.tls.enabled": "true",
        "TCP.tls.client_auth": "NEED",
        "TCP.tls.keystore_path": issued.keystore,
        "TCP.tls.keystore_type": "pkcs12",
        "TCP.tls.keystore_password": issued.password,
        "TCP.tls.truststore_path": authority.java_truststore(),
        "TCP.tls.truststore_type": "pkcs12",
        "TCP.tls.truststore_password": "changeit",
    }


def of_python(authority: CertificateAuthority, name: str) -> dict[str, str]:
    """Return the same attributes; Java's FD_SOCK2 does not use TLS."""
    return {**attributes_of(authority, name), "FD_SOCK2.use_tls": "false"}


async def test_both_kinds_talk_and_take_over_from_each_other(
    parts: JavaParts, tmp_path: Path
) -> None:
    ca = CertificateAuthority(tmp_path)
    async with mixed_group(parts, "tcp") as group:
        j = await group.java("J", attributes=attributes_of(ca, "J"))
        p = await group.python_process("P", attributes=of_python(ca, "P"))
        k = await group.java("K", attributes=attributes_of(ca, "K"))
        await agree(j, p, k)
        j.kill()
        await agree(p, k)
        assert p.members == ("P", "K")
        q = await group.python("Q", attributes=of_python(ca, "Q"))
        await agree(p, k, q)
        p.kill()
        await agree(k, q)
        assert q.members == ("K", "Q")
        m = await group.java("M", attributes=attributes_of(ca, "M"))
        await agree(k, q, m)
        await hear_each_other(k, q, m, mark="behind TLS")
        await k.tell("send", "Q", "-", "to one")
        await q.until(lambda: q.texts(k, multicast=False) == ["to one"])
        await q.send("back to one", to=k)
        await k.until(lambda: k.texts(q, multicast=False) == ["back to one"])
        await k.tell("bulk", "*", "-", 200, 10_000, 3)
        await q.until(lambda: len(q.from_(k)) == 201)
        counts = q.channel.statistics().protocols["TCP"]
        assert counts["tls_connections"] == counts["connections"] >= 2


async def test_a_certificate_of_another_authority_opens_neither_kind(
    parts: JavaParts, tmp_path: Path
) -> None:
    ca = CertificateAuthority(tmp_path)
    others = [CertificateAuthority(tmp_path / name) for name in ("first", "second")]
    # Java says of each connection that its handshake has failed.
    said = ["SSLHandshakeException", "failed accepting connection from peer SSLSocket"]
    async with mixed_group(parts, "tcp", allowed=said) as group:
        p = await group.python("P", attributes=of_python(ca, "P"))
        j = await group.java("J", attributes=attributes_of(ca, "J"))
        await agree(p, j)
        s = await group.java("S", attributes=attributes_of(others[0], "S") | HASTY)
        t = await group.python("T", attributes=of_python(others[1], "T") | HASTY)
        assert (s.members, t.members) == (("S",), ("T",))
        assert p.members == ("P", "J")
        await hear_each_other(p, j, mark="among ourselves")
        await eventually(lambda: p.channel.statistics().turned_away.get("TLS.refused_us"))
        await eventually(lambda: t.channel.statistics().turned_away.get("TLS.untrusted"))
