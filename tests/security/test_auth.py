"""AUTH between a fake GMS above and a fake UNICAST3 below."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stack_files import below_gms, refusal_of

from jgroups_py.config.settings import load_stack
from jgroups_py.protocols.membership.gms.wire import is_refusal
from jgroups_py.protocols.security.auth import AUTH
from jgroups_py.protocols.security.tokens import java_text
from jgroups_py.stack.services import build_whole
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import GetPhysical
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.payloads import JoinRsp, MergeId, Streamable
from jgroups_py.values.view import Digest, View, ViewId
from jgroups_py.wire.headers import PROTOCOL_IDS, AuthHeader, GmsHeader, GmsType
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import decode_whole, encode_whole
from jgroups_py.wire.values import read_join_rsp, write_join_rsp

A, B = make_address(1), make_address(2)
GMS, ID = PROTOCOL_IDS["GMS"], PROTOCOL_IDS["AUTH"]
HOME = IpAddress("10.0.0.2", 7800)
REGEX = {"auth_class": "org.jgroups.auth.RegexMembership", "match_string": r"10\.0\.0\.\d+:\d+"}
FIXED = {"auth_class": "FixedMembershipToken", "fixed_members_value": "10.0.0.2/7800, ::1"}
REQUESTS = [GmsType.JOIN_REQ, GmsType.JOIN_REQ_WITH_STATE_TRANSFER, GmsType.MERGE_REQ]
ANSWERS = [GmsType.JOIN_RSP, GmsType.MERGE_RSP, GmsType.INSTALL_MERGE_VIEW]
CONVERSATION = Path(__file__).parents[1] / "wire/vectors/conversation_udp_auth_compress.json"
EVERY_TOKEN = pytest.mark.parametrize("settings", [REGEX, FIXED], ids=["regex", "fixed"])


def fake(settings: dict[str, Any], at: IpAddress | None = HOME, **more: Any) -> FakeStack:
    return FakeStack(AUTH(**settings, **more), address=A, answers={GetPhysical: lambda query: at})


def message(type: GmsType, payload: bytes | None = None, src: Any = B, **fields: Any) -> Batch:
    header = GmsHeader(type, **fields)
    kind = MessageType.EMPTY if payload is None else MessageType.BYTES
    return replace(Batch.of(A, GMS, header, payload=payload, type=kind), src=src)


def shown_by(settings: dict[str, Any], batch: Batch) -> Batch:
    """Return a message that a member with these settings sends, as another member decodes it."""
    stack = fake(settings)
    stack.down(batch)
    (packet,) = encode_packets(stack.take_down(), "test")
    (decoded,) = decode_packet(packet).batches
    return decoded


def letting_in(*members: Any) -> bytes:
    view = View(ViewId(A, 1), members)
    return encode_whole(write_join_rsp, JoinRsp(view, Digest(dict.fromkeys(members, (0, 0))), None))


def counters(stack: FakeStack) -> dict[str, int | float]:
    found = stack.protocol.statistics()
    return {k: v for k, v in found.items() if v and k.startswith("turned_away")}


@EVERY_TOKEN
@pytest.mark.parametrize("type", [*REQUESTS, *ANSWERS])
def test_a_member_with_a_good_token_is_let_in(settings: dict[str, Any], type: GmsType) -> None:
    payload = letting_in(A, B) if type == GmsType.JOIN_RSP else b"x"
    stack = fake(settings)
    stack.up(shown_by(settings, message(type, payload)))
    (taken,) = stack.take_up()
    assert taken.headers[GMS].type == type  # type: ignore[attr-defined]
    assert not counters(stack) and not stack.take_down()
    assert stack.protocol.statistics()["tokens_taken"] == 1


@EVERY_TOKEN
@pytest.mark.parametrize("type", [GmsType.JOIN_REQ, GmsType.JOIN_REQ_WITH_STATE_TRANSFER])
def test_a_joiner_without_a_token_is_refused_and_told_why(
    settings: dict[str, Any], type: GmsType
) -> None:
    stack = fake(settings)
    stack.up(message(type, member=B))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_no_token": 1}
    (answer,) = stack.take_down()
    assert answer.dest == B and answer.headers == {GMS: GmsHeader(GmsType.JOIN_RSP)}
    assert answer.flags == int(Flag.OOB | Flag.NO_RELIABILITY)
    refusal = decode_whole(read_join_rsp, answer.payloads[0])
    assert refusal == JoinRsp(fail_reason="it shows no token (AUTH)")


@EVERY_TOKEN
@pytest.mark.parametrize("at", [IpAddress("10.0.1.2", 7800), None], ids=["elsewhere", "unknown"])
def test_a_joiner_at_another_address_is_refused(
    settings: dict[str, Any], at: IpAddress | None
) -> None:
    stack = fake(settings, at)
    stack.up(shown_by(settings, message(GmsType.JOIN_REQ, member=B)))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_wrong_token": 1}
    (answer,) = stack.take_down()
    assert is_refusal(answer.payloads[0])


@pytest.mark.parametrize(("ours", "theirs"), [(REGEX, FIXED), (FIXED, REGEX)])
def test_a_token_of_another_kind_is_refused(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    stack = fake(ours)
    stack.up(shown_by(theirs, message(GmsType.JOIN_REQ, member=B)))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_wrong_token": 1}


def test_a_header_without_a_token_or_of_another_class_is_refused() -> None:
    stack = fake(REGEX)
    stack.up(message(GmsType.JOIN_REQ).with_header(ID, AuthHeader(None)))
    stack.up(message(GmsType.JOIN_REQ).with_header(ID, GmsHeader(GmsType.VIEW)))
    assert stack.take_up() == []
    assert counters(stack) == {"turned_away_no_token": 1, "turned_away_wrong_token": 1}


def test_a_merge_without_a_token_is_refused_and_the_refusal_names_the_merge() -> None:
    stack = fake(REGEX)
    merge = MergeId(B, 7)
    stack.up(message(GmsType.MERGE_REQ, b"x", member=B, merge_id=merge))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_no_token": 1}
    (answer,) = stack.take_down()
    assert answer.headers[GMS] == GmsHeader(GmsType.MERGE_RSP, merge_id=merge, rejected=True)
    assert isinstance(answer.headers[ID], AuthHeader)


@pytest.mark.parametrize("type", ANSWERS)
def test_an_answer_of_a_coordinator_without_a_token_is_dropped_and_nobody_is_told(
    type: GmsType,
) -> None:
    stack = fake(REGEX)
    stack.up(message(type, letting_in(A, B)))
    assert stack.take_up() == [] and stack.take_down() == []
    assert counters(stack) == {"turned_away_no_token": 1}


@pytest.mark.parametrize("type", ANSWERS)
def test_without_auth_coord_a_coordinator_shows_none_and_needs_none(type: GmsType) -> None:
    stack = fake(REGEX, auth_coord=False)
    stack.down(message(type, letting_in(A, B)))
    assert ID not in stack.take_down()[0].headers
    stack.up(message(type, letting_in(A, B)))
    assert len(stack.take_up()) == 1 and not counters(stack)


def test_a_refusal_carries_no_token_and_needs_none() -> None:
    refusal = encode_whole(write_join_rsp, JoinRsp(fail_reason="full"))
    stack = fake(REGEX)
    stack.down(message(GmsType.JOIN_RSP, refusal))
    assert ID not in stack.take_down()[0].headers
    stack.up(message(GmsType.JOIN_RSP, refusal))
    assert len(stack.take_up()) == 1 and not counters(stack)


def test_a_view_in_a_refusal_does_not_get_around_the_check() -> None:
    """GMS installs the view of an answer, even if the answer also has a reason."""
    view, digest = View(ViewId(B, 1), (A, B)), Digest({A: (0, 0), B: (0, 0)})
    both = encode_whole(write_join_rsp, JoinRsp(view, digest, "no"))
    stack = fake(REGEX)
    stack.up(message(GmsType.JOIN_RSP, both))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_no_token": 1}


@pytest.mark.parametrize("type", [t for t in GmsType if t not in (*REQUESTS, *ANSWERS)])
def test_other_messages_of_gms_pass(type: GmsType) -> None:
    stack = fake(REGEX)
    stack.down(message(type, b"x"))
    (sent,) = stack.take_down()
    stack.up(sent)
    assert ID not in sent.headers and len(stack.take_up()) == 1


def test_messages_of_a_run_are_looked_at_one_by_one() -> None:
    refusal = encode_whole(write_join_rsp, JoinRsp(fail_reason="full"))
    stack = fake(REGEX)
    run = replace(message(GmsType.JOIN_RSP, b"x"), payloads=(letting_in(A, B), refusal))
    stack.up(run)
    assert [bytes(b.payloads[0]) for b in stack.take_up()] == [refusal]


def test_packets_of_java_members_are_taken() -> None:
    events = json.loads(CONVERSATION.read_text())["events"]
    taken = 0
    for event in events:
        if "AUTH" not in event.get("summary", ""):
            continue
        for batch in decode_packet(bytes.fromhex(event["hex"])).batches:
            stack = fake({**REGEX, "match_string": ".*"})
            stack.up(batch)
            assert len(stack.take_up()) == 1 and not counters(stack)
            again = fake({**REGEX, "match_string": ".*"})
            again.down(batch.without_header(ID))
            assert again.take_down()[0].headers[ID] == batch.headers[ID]
            taken += 1
    assert taken == 2


def test_a_logical_name_can_be_looked_at() -> None:
    settings = {
        "auth_class": "RegexMembership",
        "match_string": "worker-[0-9]+",
        "match_logical_name": True,
        "match_ip_address": False,
    }
    for name, admitted in (("worker-17", 1), ("worker-", 0), ("xworker-1", 0), (None, 0)):
        stack = fake(settings)
        if name is not None:
            stack.stack.names[B] = name
        stack.up(message(GmsType.JOIN_REQ).with_header(ID, AuthHeader(shown())))
        assert len(stack.take_up()) == admitted, name


def shown() -> Streamable:
    return Streamable(-1, None, "org.jgroups.auth.RegexMembership")


@pytest.mark.parametrize(
    ("value", "port", "admitted"),
    [
        ("10.0.0.2/7800", 7800, True),
        ("10.0.0.2/7801", 7800, False),
        ("10.0.0.2", 4711, True),
        ("10.0.0.3,10.0.0.2/1,10.0.0.2/7800", 7800, True),
        ("localhost", 7800, False),
    ],
)
def test_a_fixed_member_may_be_listed_with_or_without_a_port(
    value: str, port: int, admitted: bool
) -> None:
    settings = {**FIXED, "fixed_members_value": value}
    stack = fake(settings, IpAddress("10.0.0.2", port))
    stack.up(shown_by(settings, message(GmsType.JOIN_REQ)))
    assert bool(stack.take_up()) == admitted


def test_a_fixed_member_may_have_an_ipv6_address() -> None:
    for host, admitted in (("::1", True), ("::2", False)):
        stack = fake(FIXED, IpAddress(host, 7800))
        stack.up(shown_by(FIXED, message(GmsType.JOIN_REQ)))
        assert bool(stack.take_up()) == admitted


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_localhost_may_be_listed(host: str) -> None:
    settings = {**FIXED, "fixed_members_value": "localhost/7800"}
    stack = fake(settings, IpAddress(host, 7800))
    stack.up(shown_by(settings, message(GmsType.JOIN_REQ)))
    assert len(stack.take_up()) == 1


def test_an_address_is_matched_in_the_form_that_java_shows() -> None:
    assert java_text(IpAddress("10.0.0.1", 7800)) == "10.0.0.1:7800"
    assert java_text(IpAddress("fe80::1:2", 7800)) == "fe80:0:0:0:0:0:1:2:7800"
    assert java_text(IpAddress(None, 7800)) == "<null>:7800"


@pytest.mark.parametrize(
    ("attributes", "where", "problem"),
    [
        ("", "AUTH", "needs auth_class"),
        ('auth_class="x.Y"', "AUTH.auth_class", "FixedMembershipToken, RegexMembership"),
        ('auth_class="org.jgroups.auth.Krb5Token"', "AUTH.auth_class", "is not built here"),
        ('auth_class="RegexMembership"', "AUTH", "match_string must be a regular expression"),
        (
            'auth_class="RegexMembership" match_string="("',
            "AUTH.match_string",
            "match_string must be a regular expression: missing ), unterminated subpattern",
        ),
        (
            'auth_class="RegexMembership" match_string="x" auth_token.match_ip_address="false"',
            "AUTH",
            "match_ip_address or match_logical_name must be true",
        ),
        ('auth_class="FixedMembershipToken"', "AUTH", "must name the members that may join"),
        (
            'auth_class="FixedMembershipToken" fixed_members_value="host.example/7800"',
            "AUTH.fixed_members_value",
            'must be numeric addresses or localhost, as 10.0.0.1/7800 or ::1, got "host.example/7800"',
        ),
        (
            'auth_class="FixedMembershipToken" fixed_members_value="10.0.0.1/70000"',
            "AUTH.fixed_members_value",
            "must be numeric addresses",
        ),
        (
            'auth_class="FixedMembershipToken" fixed_members_value="::1" match_string="x"',
            "AUTH.match_string",
            "match_string is an attribute of RegexMembership, not of FixedMembershipToken",
        ),
    ],
)
def test_a_wrong_setting_is_told_with_its_place(
    tmp_path: Path, attributes: str, where: str, problem: str
) -> None:
    error = refusal_of(below_gms(f"AUTH {attributes}"), tmp_path)
    assert (error.line, error.where) == (7, where)
    assert problem in error.problem


def test_the_attributes_of_jgroups_own_example_are_read(tmp_path: Path) -> None:
    file = tmp_path / "s.xml"
    attributes = (
        r'auth_class="org.jgroups.auth.RegexMembership" auth_token.match_string="10\..*" '
        'auth_token.match_ip_address="true" auth_token.match_logical_name="true"'
    )
    file.write_text(below_gms(f"AUTH {attributes}"))
    config = build_whole(load_stack(str(file)))[5][1]
    assert (config.match_string, config.match_logical_name) == (r"10\..*", True)


def test_auth_stands_below_gms(tmp_path: Path) -> None:
    text = below_gms('AUTH auth_class="RegexMembership" match_string="x"')
    auth = next(line for line in text.splitlines() if "AUTH" in line)
    above = text.replace(auth + "\n", "").replace("</config>", auth + "</config>")
    assert "needs views above it" in str(refusal_of(above, tmp_path))
