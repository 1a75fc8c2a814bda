"""A drill of a bucket store reads all keys at its end."""

from __future__ import annotations

import io
import json
import random
from typing import Any, cast

import pytest
import trio
import trio.testing

from jgroups_py.buckets import BucketNode, Request
from jgroups_py.buckets.errors import Unavailable
from jgroups_py.buckets.messages import EMPTY
from jgroups_py.drill.run.bucket_user import LAST_LOOK_SECONDS, BucketUser
from jgroups_py.tools.commands.drill import _tell_many


async def test_the_last_look_waits_once_for_all_keys_that_nobody_answers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Node:
        state = EMPTY

        async def request(self, request: Request) -> list[bytes]:
            if request.key in ("k3", "k97"):
                return [json.dumps([request.key]).encode()]
            if request.key == "k5":
                raise Unavailable("no master")
            return await trio.sleep_forever()

    told: list[dict[str, Any]] = []
    user = BucketUser(
        cast(BucketNode, Node()),
        "NYC",
        "A#1",
        random.Random(1),
        lambda *_, **what: told.append(what),
        {},
    )
    began = trio.current_time()
    await user.census(60)
    assert trio.current_time() - began == pytest.approx(LAST_LOOK_SECONDS)
    (found,) = told
    assert found["owned"] == {"3": ["k3"]} and len(found["missing"]) == 59
    told.clear()
    await user.census(100)
    assert told[0]["missing"] == [key for key in range(100) if key != 3]
    assert trio.current_time() - began == pytest.approx(2 * LAST_LOOK_SECONDS)


def test_many_seeds_tell_how_many_buckets_have_one_copy() -> None:
    """The number of buckets with one copy is only a number; other findings are listed."""
    runs = [
        {"lost": [], "unavailable": [3], "alone": 4},
        {"lost": [7, 8], "unavailable": [], "alone": None},
    ]
    out = io.StringIO()
    summary = {"runs": runs, "passed": 2, "failed": 0, "verdict": "pass"}
    _tell_many(out, "b.yaml", False, (), summary, [], {}, seal=False)
    assert out.getvalue() == "lost: 2\nunavailable: 1\nalone: 4\n2 passed, 0 failed: PASS\n"
