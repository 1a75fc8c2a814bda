"""``jgroups-py chat``: shows each typed line at every member of the group."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable

import click
import trio

from jgroups_py import Channel, Message, View, open_channel
from jgroups_py.tools.commands.terminal import open_terminal
from jgroups_py.tools.options import examples
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import pairs, stack_options

Say = Callable[[str], None]
PROMPT = "> "
HELP = "/view shows who is here, /quit leaves"


@click.command(
    epilog=examples(
        "jgroups-py chat --name Ada",
        "jgroups-py chat --stack tcp.xml --cluster team --set TCP.bind_port=7900",
        "echo 'backup done' | jgroups-py chat --name cron",
    )
)
@click.option("--cluster", default="chat", show_default=True)
@click.option("--name", help="Default: made from the host's name.")
@stack_options
def chat(
    stack: str,
    cluster: str,
    name: str | None,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    bind_addr: str | None,
) -> int:
    """Chat with the members of a cluster.

    Each line is a message. /view prints the members; /quit or the end of the input leaves. In a pipe it prints own
    lines, too, as the others see them.
    """

    async def command() -> None:
        async with open_channel(
            stack,
            cluster=cluster,
            name=name,
            bind_addr=bind_addr,
            attributes=pairs(settings),
            properties=pairs(properties),
        ) as channel:
            await _chat(channel)

    return run_command(command)


async def _chat(channel: Channel) -> None:
    if sys.stdin.isatty() and sys.stdout.isatty():
        with open_terminal(PROMPT) as terminal:
            terminal.say(f"you are {channel.name} in {channel.cluster}; {HELP}")
            await _talk(channel, terminal.lines(), terminal.say, terminal.say, own_too=False)
        return
    own_too = not sys.stdin.isatty()
    await _talk(channel, _plain_lines(), _plain_say, _plain_complain, own_too=own_too)


async def _talk(
    channel: Channel, lines: AsyncIterator[str], say: Say, complain: Say, *, own_too: bool
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show, channel, say, own_too)
        await _speak(channel, lines, say, complain)
        if own_too:
            await _hear_ourselves(channel)
        nursery.cancel_scope.cancel()


async def _show(channel: Channel, say: Say, own_too: bool) -> None:
    known: View | None = None
    async for item in channel:
        match item:
            case View():
                say(_change_text(known, item))
                known = item
            case Message(sender, payload) if own_too or sender != channel.address:
                text = payload.decode("utf-8", "replace")
                say(f"{_printable(channel.name_of(sender))}: {_printable(text)}")


async def _speak(channel: Channel, lines: AsyncIterator[str], say: Say, complain: Say) -> None:
    async for text in lines:
        if text == "/quit":
            return
        if text == "/view":
            say(f"** {_printable(str(channel.view))}")
        elif text.startswith("/"):
            complain(f"unknown command {text.split()[0]}; {HELP}")
        elif text:
            await channel.send(text.encode())


async def _plain_lines() -> AsyncIterator[str]:
    while True:
        # A thread, because standard input may be a pipe or a file.
        line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        if not line:
            return
        yield line.rstrip("\r\n")


def _plain_say(text: str) -> None:
    print(text, flush=True)


def _plain_complain(text: str) -> None:
    print(f"jgroups-py: {text}", file=sys.stderr, flush=True)


async def _hear_ourselves(channel: Channel) -> None:
    """Wait until the last typed line comes back, so that it is printed."""
    with trio.move_on_after(1.0):
        while (now := channel.statistics()).buffered_bytes or now.waiting:  # noqa: ASYNC110
            await trio.sleep(0.01)
        await trio.sleep(0.1)


def _change_text(old: View | None, new: View) -> str:
    """Return lines about members that came or left, and the view."""
    names = {**(old.names if old else {}), **new.names}
    changes = [
        f"{', '.join(names.get(member, str(member)) for member in members)} {what}"
        for members, what in ((new.joined_since(old), "came"), (new.left_since(old), "left"))
        if members and old is not None
    ]
    return _printable(f"** {'; '.join([*changes, str(new)])}")


def _printable(text: str) -> str:
    """Make control characters visible, so that no peer moves the cursor."""
    return "".join(c if c.isprintable() or c == "\t" else "�" for c in text)
