"""X509Token: members with the certificate of the group admit each other, and no other process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from stack_files import below_gms

from jgroups_py.config.settings import load_stack
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.security.auth import AUTH
from jgroups_py.stack.services import build_whole
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.authority import CertificateAuthority, Issued
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import GetPhysical
from jgroups_py.values.payloads import Streamable
from jgroups_py.wire.headers import PROTOCOL_IDS, AuthHeader, GmsHeader, GmsType
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packing import encode_packets

A, B = make_address(1), make_address(2)
ID = PROTOCOL_IDS["AUTH"]
CIPHERS = ["RSA", "RSA/ECB/PKCS1Padding", "RSA/ECB/OAEPWithSHA-256AndMGF1Padding"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("x509"))


@pytest.fixture(scope="module")
def group(authority: CertificateAuthority) -> Issued:
    return authority.issue("group", rsa_bits=1024)


@pytest.fixture(scope="module")
def settings(group: Issued) -> dict[str, Any]:
    return {
        "auth_class": "org.jgroups.auth.X509Token",
        "keystore_path": group.keystore,
        "keystore_password": group.password,
        "cert_alias": "group",
        "auth_value": "Chris",
    }


def fake(settings: dict[str, Any], seed: int = 1) -> FakeStack:
    return FakeStack(AUTH(**settings), address=A, answers={GetPhysical: lambda _: None}, seed=seed)


def request_of(settings: dict[str, Any], seed: int = 1) -> Batch:
    """A request to join, as another member decodes it."""
    stack = fake(settings, seed)
    stack.down(Batch.of(A, PROTOCOL_IDS["GMS"], GmsHeader(GmsType.JOIN_REQ, member=B)))
    (packet,) = encode_packets(stack.take_down(), "test")
    (decoded,) = decode_packet(packet).batches
    return decoded


def admitted(settings: dict[str, Any], request: Batch) -> bool:
    stack = fake(settings)
    stack.up(request)
    counted = stack.protocol.statistics()
    let_in = bool(stack.take_up())
    assert counted["tokens_taken"] == let_in
    assert counted["turned_away_wrong_token"] == (not let_in)
    return let_in


@pytest.mark.parametrize("cipher", CIPHERS)
def test_members_with_one_certificate_and_value_let_each_other_in(
    settings: dict[str, Any], cipher: str
) -> None:
    ours = {**settings, "cipher_type": cipher}
    assert admitted(ours, request_of(ours))
    assert admitted(ours, request_of({**ours, "auth_value": "chrIs"}))  # as in JGroups


def test_another_value_certificate_or_padding_is_refused(
    settings: dict[str, Any], authority: CertificateAuthority
) -> None:
    other = authority.issue("other", rsa_bits=1024)
    for wrong in (
        {"auth_value": "Chri"},
        {"keystore_path": other.keystore, "cert_alias": ""},
        {"cipher_type": CIPHERS[2]},
    ):
        assert not admitted(settings, request_of({**settings, **wrong})), wrong


@pytest.mark.parametrize("value", [None, b"", b"x", bytes(128), b"\xff" * 128, bytes(129)])
def test_bytes_that_are_no_token_are_refused(settings: dict[str, Any], value: Any) -> None:
    request = request_of(settings)
    assert not admitted(settings, request.with_header(ID, AuthHeader(Streamable(17, value))))


def test_a_token_of_another_kind_is_refused(settings: dict[str, Any]) -> None:
    request = request_of({"auth_class": "FixedMembershipToken", "fixed_members_value": "::1"})
    assert not admitted(settings, request)


def test_an_altered_token_is_refused(settings: dict[str, Any]) -> None:
    request = request_of(settings)
    token = request.headers[ID].token  # type: ignore[attr-defined]
    for at in (0, 1, 64, 127):
        bad = bytearray(token.value)
        bad[at] ^= 1
        altered = AuthHeader(Streamable(17, bytes(bad)))
        assert not admitted(settings, request.with_header(ID, altered))


def test_the_value_is_not_on_the_wire_and_tokens_of_two_members_differ(
    settings: dict[str, Any],
) -> None:
    tokens = [
        bytes(request_of(settings, seed).headers[ID].token.value)  # type: ignore[attr-defined]
        for seed in (1, 2, 1)
    ]
    assert tokens[0] == tokens[2] != tokens[1]  # in a simulation random numbers repeat
    assert all(b"Chris" not in token for token in tokens)


def test_secrets_are_not_shown(settings: dict[str, Any]) -> None:
    config = AUTH.Config(**{**settings, "cert_password": settings["keystore_password"]})
    assert "Chris" not in repr(config) and "changeit" not in repr(config)


def problem_of(folder: Path, attributes: str) -> str:
    """Return the error of ``validate`` and ``open_channel`` about such attributes, with its place."""
    file = folder / "s.xml"
    kind = 'auth_class="org.jgroups.auth.X509Token"'
    file.write_text(below_gms(f"AUTH {kind}\n        {attributes}"))
    stack = load_stack(str(file))
    with pytest.raises(ConfigError) as caught:
        build_whole(stack)[5][1].verify()
    return str(caught.value).removeprefix(f"{file}:")


def test_a_wrong_setting_is_told_with_its_place(tmp_path: Path) -> None:
    keystore = 'auth_token.keystore_path="k" '
    said = {
        'auth_value="v"': "7:3: AUTH: keystore_path must be given for X509Token",
        keystore: "7:3: AUTH: auth_value must be given for X509Token",
        f'{keystore} auth_value="v" cipher_type="DSA"': "8:54: AUTH.cipher_type: cipher_type must be one of RSA, RSA/ECB/",
        f'{keystore} auth_value="v" cert_password="x"': "8:54: AUTH.cert_password: cert_password must be keystore_password",
        f'{keystore} auth_value="v" match_string="x"': "8:54: AUTH.match_string: match_string is an attribute of RegexMembership",
    }
    assert {a: problem_of(tmp_path, a)[: len(text)] for a, text in said.items()} == said


def test_a_keystore_that_cannot_be_used_is_reported(
    settings: dict[str, Any], group: Issued, authority: CertificateAuthority, tmp_path: Path
) -> None:
    jks, nothing = tmp_path / "jks", tmp_path / "missing"
    jks.write_bytes(bytes.fromhex("feedfeed00000002"))
    jks.chmod(0o600)
    curve = authority.issue("curve")
    short = tmp_path / "short.p12"
    short.write_bytes(b"")
    short.chmod(0o600)
    for wrong, problem in (
        ({"keystore_path": str(nothing)}, "keystore_path must name a file that can be read"),
        ({"keystore_path": str(jks)}, f"{jks} is JKS (keytool -importkeystore -srckeystore {jks}"),
        ({"keystore_path": str(short)}, "keystore_path must name a PKCS12 file"),
        ({"keystore_password": "guess"}, "and keystore_password must be its password"),
        ({"keystore_path": curve.keystore}, "must name a file with a key of RSA and its certif"),
        ({"cert_alias": "mine"}, f'cert_alias must be the name of the key in {group.keystore}, "g'),
        ({"auth_value": "x" * 118}, "auth_value must have at most 117 bytes"),
    ):
        with pytest.raises(ConfigError) as caught:
            AUTH.Config(**{**settings, **wrong}).verify()
        assert problem in str(caught.value) and "guess" not in str(caught.value)
    AUTH.Config(**{**settings, "auth_value": "x" * 117}).verify()


def test_a_file_without_a_key_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    store = pkcs12.load_pkcs12(Path(settings["keystore_path"]).read_bytes(), b"changeit")
    assert store.cert is not None
    bare = tmp_path / "bare.p12"
    bare.write_bytes(
        pkcs12.serialize_key_and_certificates(
            None, None, None, [store.cert.certificate], BestAvailableEncryption(b"changeit")
        )
    )
    bare.chmod(0o600)
    with pytest.raises(ConfigError, match="with a key of RSA and its certificate"):
        AUTH.Config(**{**settings, "keystore_path": str(bare)}).verify()
