"""A member of ours in a group that is measured (groups.py): ``python -m`` this module with an argument, which is JSON.

It imports only the modules that a member needs, because its memory is measured.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field

import trio

from jgroups_py import View, open_channel
from jgroups_py.tools.child_side import run_child, say, set_at_first_line


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group: ``joiners`` members join the first one at the same time. Then its members are idle for ``idle_seconds``, and the
    last one is killed; 0: neither."""

    stack: str
    joiners: int
    idle_seconds: float
    cluster: str
    attributes: dict[str, str] = field(default_factory=dict)
    bind_addr: str | None = None

    @property
    def members(self) -> int:
        return self.joiners + 1


async def _member(plan: GroupPlan, number: int) -> None:
    async with trio.open_nursery() as nursery:
        begin = trio.Event()
        nursery.start_soon(set_at_first_line, begin, nursery.cancel_scope)
        say(event="loaded")
        await begin.wait()
        async with open_channel(
            plan.stack,
            cluster=plan.cluster,
            name=f"M{number + 1}",
            bind_addr=plan.bind_addr,
            attributes=plan.attributes,
        ) as channel:
            async for item in channel:
                if isinstance(item, View):
                    say(event="view", members=len(item), at=time.monotonic())


def main(text: str) -> None:
    """Entry point of a member's process."""
    arguments = json.loads(text)
    run_child(_member, GroupPlan(**arguments["plan"]), arguments["number"])


if __name__ == "__main__":
    main(sys.argv[1])
