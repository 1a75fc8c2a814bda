"""The check of histories: known histories, and comparison with brute force on small ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jgroups_py.testing import (
    NEVER,
    UNKNOWN,
    Call,
    Model,
    Nodes,
    Operation,
    Registers,
    Use,
    check_history,
)


def op(
    caller: str, do: Any, call: float, returned: float, value: Any = None, **more: Any
) -> Operation:
    """Return an operation of a register. ``value``: the written or read value."""
    copy = more.pop("copy", "")
    if do == "read":
        return Operation(caller, Use("read", "x"), call, returned, value, copy)
    result = more.pop("result", None)
    return Operation(caller, Use(do, "x", value, **more), call, returned, result, copy)


LINEARIZABLE = {
    "nothing happened": [],
    "one after the other": [op("A", "write", 0, 1, 1), op("B", "read", 2, 3, 1)],
    "a read beside a write sees the old value": [op("A", "write", 0, 9, 1), op("B", "read", 1, 2)],
    "or the new one": [op("A", "write", 0, 9, 1), op("B", "read", 1, 2, 1)],
    "first the old, then the new": [
        op("A", "write", 0, 9, 1),
        op("B", "read", 1, 2),
        op("C", "read", 3, 4, 1),
    ],
    "two writes side by side": [
        op("A", "write", 0, 9, 1),
        op("B", "write", 0, 9, 2),
        op("C", "read", 3, 4, 2),
        op("C", "read", 5, 6, 1),
    ],
    "what is not known may have happened": [
        op("A", "write", 0, NEVER, 1, result=UNKNOWN),
        op("B", "read", 1, 2),
        op("B", "read", 3, 4, 1),
    ],
    "or not": [op("A", "write", 0, NEVER, 1, result=UNKNOWN), op("B", "read", 90, 91)],
    "a return at the moment of a call is beside it": [
        op("A", "write", 0, 1, 1),
        op("B", "read", 1, 2),
    ],
    "increments": [
        op("A", "add", 0, 9, 1, result=2),
        op("B", "add", 0, 9, 1, result=1),
        op("B", "read", 10, 11, 2),
    ],
    "cas": [
        op("A", "cas", 0, 9, 1, expected=None, result=True),
        op("B", "cas", 0, 9, 2, expected=None, result=False),
    ],
    "two copies that are not equally far": [
        op("A", "write", 0, 9, 1),
        op("B", "read", 1, 2, 1, copy="B"),
        op("C", "read", 3, 4, copy="C"),
    ],
}
NOT_LINEARIZABLE = {
    "a read of what had been overwritten": [
        op("A", "write", 0, 1, 1),
        op("A", "write", 2, 3, 2),
        op("B", "read", 4, 5, 1),
    ],
    "a read of what nobody wrote": [op("A", "write", 0, 1, 1), op("B", "read", 0, 1, 7)],
    "first the new, then the old": [
        op("A", "write", 0, 9, 1),
        op("B", "read", 1, 2, 1),
        op("C", "read", 3, 4),
    ],
    "a lost update": [
        op("A", "add", 0, 9, 1, result=1),
        op("B", "add", 0, 9, 1, result=1),
    ],
    "an acknowledged write that is gone": [
        op("A", "write", 0, 1, 1),
        op("B", "read", 2, 3, 1),
        op("B", "read", 4, 5),
    ],
    "a write seen before it was called": [op("A", "write", 2, 3, 1), op("B", "read", 0, 1, 1)],
    "two winners of one cas": [
        op("A", "cas", 0, 9, 1, expected=None, result=True),
        op("B", "cas", 0, 9, 2, expected=None, result=True),
    ],
    "what was not known, seen and gone again": [
        op("A", "write", 0, NEVER, 1, result=UNKNOWN),
        op("B", "read", 1, 2, 1),
        op("B", "read", 3, 4),
    ],
    "a copy that goes back in time": [
        op("A", "write", 0, 9, 1),
        op("B", "read", 1, 2, 1, copy="B"),
        op("C", "read", 3, 4, copy="B"),
    ],
    "a copy that lacks what had returned": [
        op("A", "write", 0, 1, 1),
        op("B", "read", 2, 3, copy="B"),
    ],
}


@pytest.mark.parametrize("history", LINEARIZABLE.values(), ids=LINEARIZABLE)
def test_a_linearizable_history_passes(history: list[Operation]) -> None:
    verdict = check_history(history, Registers())
    assert verdict.linearizable is True, verdict


@pytest.mark.parametrize("history", NOT_LINEARIZABLE.values(), ids=NOT_LINEARIZABLE)
def test_a_history_that_is_not_linearizable_is_found(history: list[Operation]) -> None:
    verdict = check_history(history, Registers())
    assert verdict.linearizable is False
    assert verdict.culprit in history
    assert verdict.text.startswith("not linearizable: ")


def test_a_return_before_the_call_is_refused() -> None:
    with pytest.raises(ValueError, match="before it was called"):
        check_history([op("A", "read", 2, 1)], Registers())


class Slow(Registers):
    """A model that does not know which operations may give which value."""

    def gives(self, what: Use) -> None:
        return None


def test_the_limit_is_said_and_is_no_pass() -> None:
    """20 writes of unknown outcome and a read of another value: too many orders to try all."""
    history = [op(f"W{i}", "write", 0, NEVER, i, result=UNKNOWN) for i in range(20)]
    history += [op("R", "read", 5, 6, 3), op("R", "read", 7, 8, 99)]
    verdict = check_history(history, Slow(), steps_max=500)
    assert verdict.linearizable is None
    assert "not decided: " in str(verdict) and "steps_max" in str(verdict)
    assert 500 <= verdict.steps < 600


def test_a_place_that_nobody_will_write_any_more_ends_a_search() -> None:
    """12 concurrent writes, and a read of another value: found at once, not after 12! orders."""
    history = [op(f"W{i}", "write", 0, 9, i) for i in range(12)]
    verdict = check_history([*history, op("R", "read", 10, 11, 99)], Registers(), steps_max=500)
    assert verdict.linearizable is False


def test_registers_are_searched_apart() -> None:
    """30 names with 3 concurrent writes each: 90 operations, but still few steps."""
    history = [
        Operation(f"{name}{i}", Use("write", str(name), i), 0, 9)
        for name in range(30)
        for i in range(3)
    ]
    history += [Operation("R", Use("read", str(name)), 10, 11, 1) for name in range(30)]
    verdict = check_history(history, Registers())
    assert verdict.linearizable
    assert verdict.steps < 1000


def test_the_explanation_is_the_shortest_beginning_without_reads_that_do_not_matter() -> None:
    history = [op("W", "write", 2 * i, 2 * i + 1, i) for i in range(10)]
    history += [op("R", "read", 2 * i + 0.2, 2 * i + 0.8, i - 1) for i in range(1, 10)]
    history += [op("Q", "read", 9.2, 9.4, 3)]  # 4 had been written at 9.0
    history += [
        op("R", "read", 40 + i, 40 + i + 0.5, 0) for i in range(5)
    ]  # these histories are wrong, too
    verdict = check_history(history, Registers())
    assert verdict.linearizable is False
    assert verdict.culprit == op("Q", "read", 9.2, 9.4, 3)
    assert [o.what.value for o in verdict.order] == [0, 1, 2, 3, 4]
    lines = verdict.text.splitlines()
    assert lines[0] == ("not linearizable: Q: read x -> 3, returned at 9.400000, fits nowhere")
    assert sum(line.startswith("> Q") for line in lines) == 1
    assert not any("R " in line for line in lines)


# --- a tree


def nodes(*history: tuple[str, Call, float, float, Any]) -> list[Operation]:
    return [Operation(*one) for one in history]


A, AX, B, BX = ("a",), ("a", "x"), ("b",), ("b", "x")
V = (("v", 1),)


def test_a_history_of_a_tree_alone_is_judged() -> None:
    verdict = check_history(
        nodes(
            ("A", Call("put", A, V), 0, 1, None),
            ("A", Call("put", AX, V), 2, 3, None),
            ("A", Call("children", A), 4, 5, ("x",)),
            ("A", Call("move", A, to=B), 6, 7, 2),
            ("A", Call("node", A), 8, 9, None),
            ("A", Call("node", BX), 10, 11, V),
            ("A", Call("update", BX, (("w", 2),), without=("v",)), 12, 13, True),
            ("A", Call("update", A, V), 14, 15, False),
            (
                "A",
                Call("batch", seen=((BX, (("w", 2),)), (A, None)), changes=(Call("put", A, V),)),
                16,
                17,
                None,
            ),
            ("A", Call("remove", A, key="v"), 18, 19, True),
            ("A", Call("remove", A, key="v"), 20, 21, False),
            ("A", Call("exists", A), 22, 23, True),
            ("A", Call("cas", A, (("n", 5),), expected=None), 24, 25, True),
            ("A", Call("add", A, (("n", 2),)), 26, 27, 7),
            ("A", Call("remove_node", A), 28, 29, True),
            ("A", Call("remove_tree", B), 30, 31, 2),
            ("A", Call("children", ()), 32, 33, ()),
        ),
        Nodes(),
    )
    assert verdict.linearizable, verdict


def test_half_a_batch_is_seen() -> None:
    both = Call("batch", changes=(Call("put", A, V), Call("put", B, V)))
    history = nodes(
        ("A", both, 0, 9, None),
        ("B", Call("node", A), 1, 2, V),
        ("B", Call("node", B), 3, 4, None),
    )
    verdict = check_history(history, Nodes())
    assert verdict.linearizable is False
    assert "batch saw nothing; put /a {v=1}, put /b {v=1}" in verdict.text


def test_a_move_over_an_existing_node_cannot_have_happened() -> None:
    history = nodes(
        ("A", Call("put", A, V), 0, 1, None),
        ("A", Call("put", B, V), 2, 3, None),
        ("A", Call("move", A, to=B), 4, 5, 1),
    )
    assert check_history(history, Nodes()).linearizable is False


def test_two_batches_that_saw_the_same_do_not_both_commit() -> None:
    def add(value: int) -> Call:
        return Call("batch", seen=((A, None),), changes=(Call("put", A, (("v", value),)),))

    history = nodes(("A", add(1), 0, 9, None), ("B", add(2), 0, 9, None))
    assert check_history(history, Nodes()).linearizable is False


def test_a_write_of_the_value_that_is_there_may_come_after_another_write() -> None:
    history = [
        Operation("A", Use("write", "x", None), 0, 9),
        Operation("B", Use("write", "x", 1), 1, 2),
        Operation("C", Use("read", "x"), 3, 4, None),
    ]
    assert check_history(history, Registers()).linearizable is True
    put = Call("put", A, (("v", 1),))
    other = Call("put", A, (("v", 2),))
    same = nodes(("A", put, 0, 1, None), ("B", put, 2, 9, None), ("C", other, 3, 4, None))
    seen = Operation("D", Call("node", A), 5, 6, (("v", 1),))
    assert check_history([*same, seen], Nodes()).linearizable is True


# --- brute force


def brute(history: Sequence[Operation], model: Model[Any]) -> bool:
    """Check by the definition: try each order of each choice of the operations that may have happened."""
    known = [o for o in history if o.known]
    maybe = [o for o in history if not o.known]
    for count in range(len(maybe) + 1):
        for chosen in itertools.combinations(maybe, count):
            for order in itertools.permutations([*known, *chosen]):
                if any(b.precedes(a) for i, a in enumerate(order) for b in order[i + 1 :]):
                    continue
                state, fits = model.initial(), True
                for one in order:
                    fits, state = model.step(state, one.what, one.result)
                    if not fits:
                        break
                if fits:
                    return True
    return False


def small(chance: random.Random) -> list[Operation]:
    """Draw at most six operations of three callers on two registers, with any results."""
    history, clock = [], dict.fromkeys("ABC", 0)
    for _ in range(chance.randint(2, 6)):
        caller = chance.choice("ABC")
        call = clock[caller] + chance.randint(0, 3)
        clock[caller] = returned = call + chance.randint(0, 4)
        do: Any = chance.choice(("read", "read", "write", "cas", "add"))
        value = chance.choice((None, 1, 2)) if do == "write" else chance.randint(1, 2)
        use = Use(do, chance.choice("xy"), value, chance.choice((None, 1)))
        copy = ""
        if do == "read":
            result: Any = chance.choice((None, 1, 2))
            copy = chance.choice(("", "", caller))
        elif do == "write":
            result = None
        else:
            result = chance.choice((True, False)) if do == "cas" else chance.randint(1, 3)
        if do != "read" and chance.random() < 0.2:
            history.append(Operation(caller, use, call, NEVER, UNKNOWN))
        else:
            history.append(Operation(caller, use, call, returned, result, copy))
    return history


def test_the_checker_agrees_with_brute_force() -> None:
    chance = random.Random(1)
    seen = {True: 0, False: 0}
    for _ in range(1500):
        history = small(chance)
        verdict = check_history(history, Registers())
        expected = brute(history, Registers())
        assert verdict.linearizable is expected, history
        if verdict.culprit is not None:
            end = verdict.culprit.returned
            part = [o for o in history if o.what.name == verdict.culprit.what.name and o.call < end]
            known = [o for o in part if o.returned < end]
            under_way = [
                replace(o, returned=NEVER, result=UNKNOWN) for o in part if o.returned >= end
            ]
            assert brute([*known, *under_way], Registers())
        seen[expected] += 1
    assert min(seen.values()) > 200


def tree_history(chance: random.Random) -> list[Operation]:
    """Draw two callers on a tree, and the results of a run in some order; now and then one result is wrong."""
    paths = (A, AX, B)
    asks = []
    for number in range(chance.randint(3, 5)):
        path = chance.choice(paths)
        values = (("v", number % 2),)
        asks.append(
            chance.choice(
                (
                    Call("node", path),
                    Call("children", A),
                    Call("put", path, values),
                    Call("update", path, values),
                    Call("remove_node", path),
                    Call("remove_tree", A),
                    Call("move", A, to=B),
                )
            )
        )
    model, state, history = Nodes(), Nodes().initial(), []
    for at, what in enumerate(asks):
        results: list[Any] = [None, True, False, 0, 1, 2, (), ("x",)]
        results += [(("v", n),) for n in range(5)]
        fitting = [r for r in results if model.step(state, what, r)[0]]
        result = fitting[0] if fitting and chance.random() < 0.85 else chance.choice(results)
        if fitting:
            state = model.step(state, what, fitting[0])[1]
        call = at * 2 - chance.randint(0, 4)
        history.append(Operation(f"C{at}", what, call, at * 2 + chance.randint(0, 4), result))
    return history


def test_the_checker_agrees_with_brute_force_on_a_tree() -> None:
    chance = random.Random(2)
    seen = {True: 0, False: 0}
    for _ in range(600):
        history = tree_history(chance)
        expected = brute(history, Nodes())
        assert check_history(history, Nodes()).linearizable is expected, history
        seen[expected] += 1
    assert min(seen.values()) > 100
