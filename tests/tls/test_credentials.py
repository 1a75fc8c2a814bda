"""Credentials: PEM and PKCS12 files are read, and each mistake in them gives a clear error."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from jgroups_py.testing.authority import DAY, CertificateAuthority
from jgroups_py.tls import CredentialsError, TlsSettings, fits, load, names_of


def problem_of(settings: TlsSettings) -> str:
    with pytest.raises(CredentialsError) as caught:
        load(settings)
    return str(caught.value)


def test_pem_files_become_credentials(authority: CertificateAuthority) -> None:
    issued = authority.issue("pem", names=("a.example", "127.0.0.1"))
    found = load(TlsSettings(certificate=issued.certificate, key=issued.key, ca=authority.ca))
    assert found.names == ("pem", "a.example", "127.0.0.1") == names_of(found.certificate)
    assert found.not_after - found.not_before > 364 * 86400
    assert found.expires.endswith("UTC")


def test_a_file_may_hold_certificate_and_key(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    issued = authority.issue("both")
    both = tmp_path / "both.pem"
    both.touch(mode=0o600)
    both.write_bytes(Path(issued.certificate).read_bytes() + Path(issued.key).read_bytes())
    assert load(TlsSettings(certificate=str(both), ca=authority.ca)).names == ("both",)


def test_pkcs12_files_become_credentials(authority: CertificateAuthority) -> None:
    issued = authority.issue("store")
    settings = TlsSettings(keystore=issued.keystore, keystore_password=issued.password)
    assert load(settings).names == ("store",)
    named = replace(settings, keystore_alias="STORE", ca=authority.ca)
    assert load(named).names == ("store",)
    trusting = replace(
        settings, truststore=authority.truststore, truststore_password=issued.password
    )
    assert load(trusting).names == ("store",)


def test_the_same_files_have_the_same_fingerprint(authority: CertificateAuthority) -> None:
    first, second = authority.settings("one"), authority.settings("two")
    assert load(first).fingerprint == load(first).fingerprint != load(second).fingerprint


def test_a_key_may_have_a_password(authority: CertificateAuthority, tmp_path: Path) -> None:
    settings = authority.settings("locked")
    key = load_pem_private_key(Path(settings.key).read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.touch(mode=0o600)
    locked.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open"))
    )
    with_key = replace(settings, key=str(locked))
    assert load(replace(with_key, key_password="open")).names == ("locked",)
    assert "key_password must fit" in problem_of(with_key)
    assert "key_password must be the password" in problem_of(replace(with_key, key_password="shut"))
    assert "the key has no password" in problem_of(replace(settings, key_password="open"))


def test_each_mistake_is_said_with_its_file(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    good = authority.settings("good")
    other = authority.settings("other")
    empty = tmp_path / "empty.pem"
    empty.touch(mode=0o600)
    large = tmp_path / "large.pem"
    large.write_bytes(bytes(1_000_001))
    store = authority.issue("p12")
    with_store = TlsSettings(keystore=store.keystore, keystore_password=store.password)
    said = {
        "certificate must name a PEM file (or give a keystore)": TlsSettings(),
        "ca must name a PEM file with the authorities": TlsSettings(certificate="x"),
        "keystore must be empty": replace(good, keystore="x"),
        "truststore must be empty": replace(good, truststore="x"),
        'protocols must be of TLSv1.2, TLSv1.3, got "SSLv3"': replace(good, protocols=("SSLv3",)),
        "protocols must have at least one": replace(good, protocols=()),
        "certificate must name a file that can be read: /none: No such file": replace(
            good, certificate="/none"
        ),
        f"certificate must name a PEM file with certificates: {empty}": replace(
            good, certificate=str(empty)
        ),
        f"certificate must name a file of at most 1000000 bytes: {large}": replace(
            good, certificate=str(large)
        ),
        f"key must name a PEM file with a key: {empty}": replace(good, key=str(empty)),
        f"key must be the key of the certificate in {good.certificate}": replace(
            good, key=other.key
        ),
        f"ca must name a PEM file with certificates: {empty}": replace(good, ca=str(empty)),
        "keystore must name a PKCS12 file, and keystore_password": replace(
            with_store, keystore_password="wrong"
        ),
        "keystore_alias must be the name of the key in": replace(with_store, keystore_alias="x"),
        f"keystore must hold a key and its certificate: {authority.truststore}": TlsSettings(
            keystore=authority.truststore, keystore_password="changeit"
        ),
    }
    os.chmod(authority.truststore, 0o600)
    for text, settings in said.items():
        assert text in problem_of(settings)


def test_a_key_that_everybody_may_read_is_refused(authority: CertificateAuthority) -> None:
    settings = authority.settings("open")
    os.chmod(settings.key, 0o604)
    assert f"chmod 600 {settings.key}" in problem_of(settings)
    os.chmod(settings.key, 0o640)
    assert load(settings).names == ("open",)


def test_a_certificate_is_valid_between_two_moments(authority: CertificateAuthority) -> None:
    settings = authority.settings("time")
    found = load(settings)
    assert "expired on" in _at(settings, found.not_after + 1)
    assert "is valid from" in _at(settings, found.not_before - 1)
    assert load(settings, lambda: found.not_after).names == ("time",)
    old = authority.issue("old", valid=timedelta(seconds=-1))
    new = authority.issue("new", begins=DAY)
    for issued in (old, new):
        files = TlsSettings(certificate=issued.certificate, key=issued.key, ca=authority.ca)
        assert "must be valid" in problem_of(files)


def _at(settings: TlsSettings, moment: float) -> str:
    with pytest.raises(CredentialsError) as caught:
        load(settings, lambda: moment)
    return str(caught.value)


def test_secrets_are_not_shown(authority: CertificateAuthority) -> None:
    settings = TlsSettings(
        keystore="k", keystore_password="hush1", truststore_password="hush2", key_password="hush3"
    )
    assert "hush" not in repr(settings)
    assert "SSLContext" not in repr(load(authority.settings("quiet")))


def test_no_key_stays_in_the_folder_for_temporary_files(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    load(authority.settings("tidy"))
    assert list(tmp_path.iterdir()) == []


def test_a_name_fits_itself_and_a_star_fits_one_label() -> None:
    assert fits(("A", "b.example"), "A") and fits(("A", "b.example"), "b.example")
    assert fits(("*.nyc.example",), "a.nyc.example")
    for wanted in ("nyc.example", "a.b.nyc.example", "*", "", "a"):
        assert not fits(("*.nyc.example", "*"), wanted) or wanted == "*"
    assert not fits((), "A") and not fits(("a",), "A")


def test_bytes_that_are_no_certificate_have_no_names() -> None:
    assert names_of(b"") == () == names_of(b"0\x82")
