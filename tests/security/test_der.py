"""Elements of ASN.1, whole and broken."""

from __future__ import annotations

import pytest

from jgroups_py.protocols.security.der import INTEGER, OCTETS, SEQUENCE, BadDer, whole


def test_elements_nest() -> None:
    found = whole(bytes.fromhex("3008 0201ff 0403 010203".replace(" ", "")))
    assert found.tag == SEQUENCE and found.child(0, INTEGER).number == -1
    assert found.child(1, OCTETS).content == b"\1\2\3"


def test_a_long_element_has_a_long_length() -> None:
    assert whole(b"\x04\x82\x01\x00" + bytes(256)).content == bytes(256)


def test_an_object_identifier_is_numbers() -> None:
    assert whole(bytes.fromhex("06092a864886f70d010701")).oid == "1.2.840.113549.1.7.1"
    assert whole(bytes.fromhex("060960864801650304012a")).oid == "2.16.840.1.101.3.4.1.42"


@pytest.mark.parametrize(
    "data",
    ["", "04", "0402", "040201", "04820100", "0480", "048500000000", "0400 0400"],
    ids=["nothing", "tag", "no-content", "cut", "cut-long", "endless", "huge-length", "two"],
)
def test_bytes_that_are_no_element_are_refused(data: str) -> None:
    with pytest.raises(BadDer):
        whole(bytes.fromhex(data))


def test_a_child_that_is_not_there_or_of_another_kind_is_refused() -> None:
    found = whole(bytes.fromhex("3003020101"))
    for index, tag in ((1, None), (0, OCTETS)):
        with pytest.raises(BadDer):
            found.child(index, tag)
