"""A stack that cannot work is refused by `validate` and by `open_channel`, before any socket is opened."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
from commands import Ran, run_here

from jgroups_py import LocalProtocolError, MemoryNetwork, Message, open_channel
from jgroups_py.errors import ConfigError

WHOLE = """<config>
    <UDP/>
    <PING/>
    <MERGE3/>
    <FD_SOCK2/>
    <FD_ALL3/>
    <VERIFY_SUSPECT2/>
    <pbcast.NAKACK2/>
    <UNICAST3/>
    <pbcast.STABLE/>
    <pbcast.GMS/>
    <MFC/>
    <UFC/>
    <FRAG2/>
    <pbcast.STATE_TRANSFER/>
</config>
"""

WITHOUT = [
    ("UDP", ["no transport", "UDP", "TCP"]),
    ("PING", ["discovery", "PING", "GMS"]),
    ("pbcast.NAKACK2", ["NAKACK2", "GMS", "messages"]),
    ("UNICAST3", ["UNICAST3", "GMS", "join"]),
    ("pbcast.STABLE", ["STABLE", "NAKACK2", "delivered messages"]),
    ("pbcast.GMS", ["GMS", "views"]),
]
"""The missing protocol or attribute, and the words that the one line must have."""

STILL_WORKS = [
    "MERGE3",
    "FD_SOCK2",
    "FD_ALL3",
    "VERIFY_SUSPECT2",
    "MFC",
    "UFC",
    "FRAG2",
    "pbcast.STATE_TRANSFER",
]


def without(name: str) -> str:
    changed = WHOLE.replace(f"    <{name}/>\n", "")
    assert changed != WHOLE
    return changed


def moved(name: str, behind: str) -> str:
    """Return the stack with ``name`` moved behind ``behind``, that is above it."""
    line = f"    <{name}/>\n"
    return WHOLE.replace(line, "").replace(f"    <{behind}/>\n", f"    <{behind}/>\n{line}")


WRONG = [
    (moved("pbcast.GMS", "VERIFY_SUSPECT2"), ["pbcast.GMS", "NAKACK2", "below"], 8),
    (moved("UDP", "PING"), ["transport", "bottom"], 3),
    (WHOLE.replace("<UDP/>", "<UDP/>\n    <TCP/>"), ["UDP", "TCP", "two transports"], 3),
    (WHOLE.replace("<MFC/>", "<MFC/>\n    <MFC/>"), ["MFC", "twice"], 13),
    (moved("pbcast.STABLE", "pbcast.GMS"), ["STABLE", "GMS", "above"], 11),
    (moved("MFC", "VERIFY_SUSPECT2"), ["MFC", "NAKACK2", "below"], 8),
    (
        WHOLE.replace("<UDP/>", '<UDP\n  mcast_port="${nosuch}"/>'),
        ["UDP.mcast_port", "${nosuch}"],
        3,
    ),
    (
        WHOLE.replace("<UDP/>", '<UDP mcast_addr="239.${nosuch}.1.1"/>'),
        ["${nosuch}", "mcast_addr"],
        2,
    ),
    (WHOLE.replace("<FRAG2/>", '<FRAG2 frag_size="70000"/>'), ["frag_size", "65007", "UDP"], 14),
    (
        WHOLE.replace("<UDP/>\n    <PING/>", "<TCP/>\n    <TCPPING/>").replace(
            "<FRAG2/>", '<FRAG2 frag_size="10M"/>'
        ),
        ["frag_size", "9999500", "TCP"],
        14,
    ),
    (WHOLE.replace("<UDP/>", '<include file="${nosuch}"/>'), ["${nosuch}", "include.file"], 2),
]


def validate(file: Path, *more: str) -> Ran:
    return run_here("validate", str(file), *more)


def refused_by_validate(file: Path) -> str:
    done = validate(file)
    assert done.code == 2, done.out
    (line,) = done.err.splitlines()
    assert line.startswith("jgroups-py: ")
    return line


def refused_by_open_channel(file: Path) -> str:
    """The refusal takes no virtual time, and starts no task."""

    class Network(MemoryNetwork):
        def driver(self, machine: Any) -> NoReturn:
            raise AssertionError("the network was asked for")

    async def main() -> str:
        with pytest.raises(ConfigError) as caught:
            async with open_channel(str(file), cluster="test", transport=Network()):
                pytest.fail("it opened")
        return str(caught.value)

    return trio.run(main)


@pytest.mark.parametrize(("name", "words"), WITHOUT)
def test_a_missing_layer_is_named_with_the_consequence(
    tmp_path: Path, name: str, words: list[str]
) -> None:
    file = tmp_path / "stack.xml"
    file.write_text(without(name))
    for said in (refused_by_validate(file), refused_by_open_channel(file)):
        assert str(file) in said
        for word in words:
            assert word in said, said


@pytest.mark.parametrize(("text", "words", "line"), WRONG)
def test_a_wrong_order_a_second_one_and_a_variable_that_is_not_set_are_named_with_their_line(
    tmp_path: Path, text: str, words: list[str], line: int
) -> None:
    file = tmp_path / "stack.xml"
    file.write_text(text)
    for said in (refused_by_validate(file), refused_by_open_channel(file)):
        assert f"{file}:{line}:" in said, said
        for word in words:
            assert word in said, said


@pytest.mark.parametrize("name", STILL_WORKS)
def test_a_stack_that_works_without_a_layer_opens(tmp_path: Path, name: str) -> None:
    file = tmp_path / "stack.xml"
    file.write_text(without(name))
    done = validate(file)
    assert done.code == 0, done.err

    async def main() -> None:
        with trio.fail_after(30):
            async with open_channel(
                str(file), cluster="test", transport=MemoryNetwork()
            ) as channel:
                assert len(channel.view) == 1

    trio.run(main)


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (WHOLE, False),
        (without("FRAG2"), True),
        (without("FRAG2").replace("<UDP/>\n    <PING/>", "<TCP/>\n    <TCPPING/>"), False),
    ],
)
def test_datagrams_without_fragmentation_are_warned_of(
    tmp_path: Path, text: str, warned: bool
) -> None:
    file = tmp_path / "stack.xml"
    file.write_text(text)
    done = validate(file)
    assert ("does not fit into a packet never arrives" in done.out) is warned, done.out


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (WHOLE, None),
        (without("FRAG2"), 65_007),
        (
            without("FRAG2").replace(
                "<UDP/>\n    <PING/>", '<TCP max_length="100000"/>\n    <TCPPING/>'
            ),
            99_500,
        ),
    ],
)
async def test_a_message_that_no_packet_takes_is_refused_where_it_is_sent(
    tmp_path: Path, text: str, most: int | None, autojump_clock: object
) -> None:
    """Formerly such a message never arrived, was requested again and again, and later messages waited for it."""
    file = tmp_path / "stack.xml"
    file.write_text(text.replace("/>", ' insecure="true"/>', 1))
    network = MemoryNetwork()
    async with (
        open_channel(file, cluster="sizes", name="A", transport=network) as one,
        open_channel(file, cluster="sizes", name="B", transport=network) as two,
    ):
        fits = bytes(most or 70_000)
        if most is not None:
            for send in (
                one.send,
                as_async(one.send_nowait),
                lambda large: one.send_many([b"", large]),
            ):
                with pytest.raises(LocalProtocolError, match=f"at most {most} bytes.*FRAG2"):
                    await send(fits + b"x")
        await one.send(fits)
        async for item in two if "<UDP" in text else one:  # TCPPING has no hosts
            if isinstance(item, Message):
                assert item.payload == fits
                break


def as_async(function: Callable[[bytes], None]) -> Callable[[bytes], Awaitable[None]]:
    async def call(payload: bytes) -> None:
        function(payload)

    return call


def test_a_variable_is_given_by_option_and_by_default(tmp_path: Path) -> None:
    file = tmp_path / "stack.xml"
    file.write_text(WHOLE.replace("<UDP/>", '<UDP mcast_port="${nosuch}"/>'))
    assert validate(file, "-D", "nosuch=45600").code == 0
    assert validate(file, "--set", "UDP.mcast_port=45600").code == 0
    file.write_text(
        WHOLE.replace("<UDP/>", '<UDP mcast_port="${nosuch:45600}" bind_addr="${none:}"/>')
    )
    assert validate(file).code == 0


OWN = """
from dataclasses import dataclass
from jgroups_py.stack.protocol import Protocol

class COUNTER(Protocol):
    protocol_id = 3001

class MEMBERS(Protocol):
    protocol_id = 3002
    provides = ("views", "transport")
"""


def test_protocols_of_ones_own_stand_where_they_like_and_take_the_place_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_layers.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_layers", raising=False)
    file = tmp_path / "stack.xml"
    counter = "    <own_layers.COUNTER/>\n"
    for place in [m.end() for m in re.finditer(r"/>\n", WHOLE)]:
        file.write_text(WHOLE[:place] + counter + WHOLE[place:])
        if place > WHOLE.index("<pbcast.GMS/>"):
            done = validate(file)
            assert done.code == 0, done.err
    file.write_text("<config><own_layers.MEMBERS/></config>")
    done = validate(file)
    assert done.code == 0, done.err
