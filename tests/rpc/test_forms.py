"""Calls as bytes: our form, and Java's form compared with Java's bytes."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py import UUID, CallError, LocalProtocolError, Refused, RemoteError
from jgroups_py.rpc.form import Encoded, Form, Unreadable
from jgroups_py.rpc.java import Arg, JavaForm, JavaObject
from jgroups_py.rpc.limits import RpcCounters
from jgroups_py.rpc.methods import methods_of
from jgroups_py.rpc.ours import NAMES_KEPT, Msgpack, OurForm
from jgroups_py.rpc.serving import ServedCall, Server
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.payloads import Streamable, Typed
from jgroups_py.wire.headers import CorrelatorHeader, CorrelatorType
from jgroups_py.wire.java_stream import read_throwable, write_class, write_runtime_exception
from jgroups_py.wire.objects import read_streamable, write_streamable
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import Reader, Writer

VECTORS = Path(__file__).resolve().parents[1] / "wire" / "vectors"
A = UUID.make(random.Random(1))
OURS, JAVA = OurForm(Msgpack()), JavaForm()

java_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.text(max_size=20).filter(lambda text: text.isprintable()),
    st.binary(max_size=20),
    st.just(A),
)


def over_the_wire(encoded: Encoded) -> Any:
    """Return the payload as it arrives."""
    if encoded.type == MessageType.BYTES:
        return memoryview(encoded.payload)
    w = Writer()
    write_streamable(w, encoded.payload)
    r = Reader(w.done())
    value = read_streamable(r)
    r.expect_end()
    assert encoded.size == r.pos
    return value


@given(st.lists(java_values, max_size=5))
@settings(max_examples=60, deadline=None)
def test_values_of_java_types_come_back(values: list[Any]) -> None:
    name, args = JAVA.read_request(over_the_wire(JAVA.write_request("m", values)))
    assert (name, list(args)) == ("m", values)
    for value in values:
        assert JAVA.read_value(over_the_wire(JAVA.write_value(value))) == value


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(1 << 63), (1 << 64) - 1)
        | st.text()
        | st.binary(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=8,
    )
)
@settings(max_examples=60, deadline=None)
def test_values_of_msgpack_types_come_back(value: Any) -> None:
    name, args = OURS.read_request(over_the_wire(OURS.write_request("grün", (value, 1))))
    assert (name, list(args)) == ("grün", [value, 1])
    assert OURS.read_value(over_the_wire(OURS.write_value(value))) == value


@pytest.mark.parametrize("form", [OURS, JAVA], ids=["ours", "java"])
def test_errors_come_back(form: Form) -> None:
    error = form.read_error(over_the_wire(form.write_error("ValueError", "no", refused=False)), A)
    assert isinstance(error, RemoteError) and "ValueError: no" in str(error)
    assert error.member == A and not error.definite
    long = form.read_error(over_the_wire(form.write_error("E", "x" * 5000, refused=False)), A)
    assert len(str(long)) < 1100


def test_a_refusal_is_definite_between_members_of_ours() -> None:
    encoded = OURS.write_error("Refused", "there is no method 'x'", refused=True)
    error = OURS.read_error(over_the_wire(encoded), A)
    assert isinstance(error, Refused) and error.definite and error.member == A


def test_bytes_like_arguments_and_arg() -> None:
    args = (bytearray(b"a"), memoryview(b"b"), Arg(5, "long"))
    assert list(OURS.read_request(OURS.write_request("m", args).payload)[1]) == [b"a", b"b", 5]
    assert list(JAVA.read_request(JAVA.write_request("m", args).payload)[1]) == [b"a", b"b", 5]


def types_of(*args: Any) -> list[Any]:
    encoded = JAVA.write_request("m", args)
    types: list[Any] = [t.value for t in encoded.payload.value.value.value.types]
    return types


def test_parameter_types_of_java_are_read() -> None:
    assert types_of(True, 1, 1 << 40, 1.5, "s", b"b") == [1, 11, 13, 7, 17, 18]
    boxed = [Arg(1, "java.lang.Integer"), Arg(1, "java.lang.Long"), Arg(None, "java.lang.String")]
    assert types_of(*boxed) == [12, 14, 17]
    assert types_of(Arg(1, "long"), Arg("c", "char"), Arg(b"", "byte[]")) == [13, 5, 18]
    assert types_of(Typed(15, 3), Typed(16, 3)) == [15, 16]
    assert types_of(A, None) == [
        write_class("org.jgroups.Address"),
        write_class("java.lang.Object"),
    ]


def test_requests_of_java_are_read_and_ours_are_the_same_bytes() -> None:
    """Requests and replies recorded from Java members."""
    events = json.loads((VECTORS / "conversation_udp_basic.json").read_text())["events"]
    seen = []
    for event in events:
        if event.get("kind") != "packet":
            continue
        data = bytes.fromhex(event["hex"])
        batch = decode_packet(data).batches[0]
        header: Any = batch.headers.get(200)
        if header is None:
            continue
        (payload,) = batch.payloads
        if header.type == 0:
            name, args = JAVA.read_request(payload)
            seen.append((name, list(args)))
            encoded = JAVA.write_request(name, args)
        elif header.type == 1:
            value = JAVA.read_value(payload)
            seen.append(("value", value))
            encoded = JAVA.write_value(value)
        else:
            error: Any = JAVA.read_error(payload, A)
            seen.append((error.type, error.text))
            continue
        assert (encoded.payload, encoded.flags) == (payload, batch.flags & Flag.SERIALIZED)
        assert encode_packets([batch], "demo") == [data]
    assert seen[:4] == [
        ("echo", ["hi"]),
        ("value", "echo:hi"),
        ("add", [2, 3]),
        ("value", 5),
    ]
    assert any("Exception" in name for name, _ in seen), seen


def test_our_exception_is_javas_without_the_stack() -> None:
    vectors = json.loads((VECTORS / "objects.json").read_text())
    golden = next(v for v in vectors if v["name"] == "serializable_runtime_exception_buffer")
    theirs = bytes.fromhex(golden["fields"]["value"]["value"]["b"])
    ours = write_runtime_exception("boom")
    same = theirs.index(b"boom") + 4
    assert ours[:same] == theirs[:same] and ours[same:] == b"ppx"
    assert read_throwable(ours) == read_throwable(theirs) == ("java.lang.RuntimeException", "boom")


def test_an_object_that_is_no_exception_has_no_class() -> None:
    vectors = json.loads((VECTORS / "objects.json").read_text())
    others = [v for v in vectors if v["name"].startswith(("serializable_list", "serializable_map"))]
    assert others
    for vector in others:
        assert read_throwable(bytes.fromhex(vector["fields"]["value"]["value"]["b"])) is None


def test_an_exception_cut_short_or_damaged_is_refused_quietly() -> None:
    whole = write_runtime_exception("boom")
    for end in range(len(whole)):
        assert read_throwable(whole[:end]) is None
    chance = random.Random(7)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] = chance.randrange(256)
        read_throwable(bytes(damaged))


@pytest.mark.parametrize(
    ("form", "args"),
    [
        (OURS, (object(),)),
        (OURS, (1 << 64,)),
        (JAVA, ({},)),
        (JAVA, (1 << 63,)),
        (JAVA, ("\ud800" * 70_000,)),
        (JAVA, (Arg(1 << 40, "int"),)),
        (JAVA, (0,) * 128),
    ],
)
def test_a_value_without_encoding_is_refused_before_it_is_sent(form: Form, args: Any) -> None:
    with pytest.raises(LocalProtocolError):
        form.write_request("m", args)


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_names_have_bounds(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="1 to 255 bytes"):
        OURS.write_request(name, ())


def test_names_of_methods_are_remembered_up_to_a_limit() -> None:
    form = OurForm(Msgpack())
    for number in range(2 * NAMES_KEPT + 1):
        request = form.write_request(f"m{number}", ())
        assert form.read_request(request.payload)[0] == f"m{number}"
        assert len(form._heads) <= NAMES_KEPT and len(form._names) <= NAMES_KEPT


WHOLE = [
    bytes(OURS.write_request("add", (1, "x", [None])).payload),
    bytes(OURS.write_error("ValueError", "boom", refused=False).payload),
]


@given(st.sampled_from(WHOLE), st.integers(0, 20), st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_unreadable(whole: bytes, at: int, damage: bytes) -> None:
    data = whole[:at] + damage + whole[at + len(damage) :]
    payload = memoryview(data)
    with suppress(Unreadable):
        name, args = OURS.read_request(payload)
        assert name.encode() == data[1 : 1 + data[0]] and not isinstance(args, str)
    with suppress(Unreadable):
        assert isinstance(OURS.read_error(payload, A), CallError)
    with suppress(Unreadable):
        OURS.read_value(payload)


@pytest.mark.parametrize(
    "payload",
    [
        None,
        Streamable(20, None),
        Streamable(20, Typed(51, b"\xac\xed\0\5p")),
        Streamable(21, Typed(17, "x")),
        Streamable(11, A),
        b"bytes",
        7,
    ],
)
def test_objects_that_are_no_call_are_unreadable(payload: Any) -> None:
    with pytest.raises(Unreadable):
        JAVA.read_request(payload)
    with pytest.raises(Unreadable):
        JAVA.read_error(payload, A)


def test_a_java_object_stays_bytes_and_goes_back_as_it_came() -> None:
    thing = JavaObject(write_runtime_exception("x"))
    encoded = JAVA.write_request("m", (thing,))
    assert JAVA.read_request(over_the_wire(encoded))[1] == [thing]


def test_a_caller_is_answered_in_the_form_it_knows() -> None:
    """This holds for each form of a request, because in a mixed group our members use Java's form for multicasts."""
    counters = RpcCounters()
    forms: dict[int, Form] = {MessageType.BYTES: OURS, MessageType.OBJECT: JAVA}
    methods = methods_of({"one": lambda: 1})
    server = Server(methods, forms, A, counters, lambda what, details: None, LogLimit(lambda: 0.0))
    stranger = UUID(bytes(range(16)))
    for caller, expected in ((A, MessageType.BYTES), (stranger, MessageType.OBJECT)):
        for method in ("one", "missing"):
            encoded = JAVA.write_request(method, ())
            header = CorrelatorHeader(CorrelatorType.REQ, 5)
            batch = Batch(A, (encoded.payload,), {200: header}, caller, type=encoded.type)
            (one,) = server.read(batch)
            reply = server.run(one) if isinstance(one, ServedCall) else one
            assert reply is not None
            assert (reply.dest, reply.encoded.type) == (caller, expected)
            assert reply.header.request_id == 5
            assert bool(reply.flags & Flag.SERIALIZED) is (expected == MessageType.OBJECT)
