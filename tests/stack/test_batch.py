"""Runs of messages and their parts."""

from __future__ import annotations

from dataclasses import replace

from jgroups_py.testing import make_address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.wire.headers import FragHeader, NakAckHeader2, NakAckType

A = make_address(1)
NAKACK, FRAG = 41, 4
RUN = Batch(
    None,
    [b"1", b"22", None, b"4444"],
    {NAKACK: NakAckHeader2(NakAckType.MSG, 7), FRAG: FragHeader(3, 0, 2)},
    A,
    credits=(Credit(A, True, 7),),
)


def test_a_part_of_a_run_has_the_numbers_of_its_messages() -> None:
    part = RUN.slice(2, 4)
    assert part.payloads == [None, b"4444"]
    assert part.headers[NAKACK] == NakAckHeader2(NakAckType.MSG, 9)
    assert part.headers[FRAG] == FragHeader(5, 0, 2)
    assert RUN.headers[NAKACK] == NakAckHeader2(NakAckType.MSG, 7)


def test_credits_stay_with_the_part_that_ends_the_run() -> None:
    """The credits are then given back once, when the whole run was read."""
    parts = [RUN.slice(0, 1), RUN.slice(1, 3), RUN.slice(3, 4)]
    assert [part.credits for part in parts] == [(), (), RUN.credits]
    assert RUN.slice(0, 4) is RUN


def test_the_length_of_a_part_is_its_own() -> None:
    assert [RUN.length, RUN.slice(1, 3).length, RUN.slice(3, 4).length] == [7, 2, 4]
    assert RUN.with_header(1, FragHeader(1, 0, 1)).length == 7


def test_a_run_whose_sizes_are_known_passes_them_to_its_parts() -> None:
    run = Batch(None, [b"11", b"22", b"33"], RUN.headers, A)
    run.sizes_are(6, 2)
    part = run.slice(1, 3)
    assert (part.size_of_each, part.length) == (2, 4)
    headed = run.with_header(1, FragHeader(1, 0, 1))
    assert (headed.size_of_each, headed.length) == (2, 6)
    other = replace(run, payloads=[b"1", b"333"])
    assert (other.size_of_each, other.length) == (-1, 4)
