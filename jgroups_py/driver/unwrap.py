"""Takes a single error out of the group that a nursery of this library put around it."""

from __future__ import annotations

from typing import Any, NoReturn

import trio


def reraise(group: BaseExceptionGroup[Any]) -> NoReturn:
    """Raise the one error of ``group`` as it was, or the group when there are several.

    Cancellation does not count beside a real error. Groups inside are left alone, because a nursery of the user raised them.
    """
    errors = [e for e in group.exceptions if not isinstance(e, trio.Cancelled)]
    if len(errors) > 1:
        raise group
    error = (errors or group.exceptions)[0]
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context  # not the exception group that contained it


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors of a group and of the groups in it."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


def unwrapped(error: BaseException) -> BaseException:
    """Return the only error in a group, or the group. Cancellation does not count beside a real error."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = leaves(error)
    real = [leaf for leaf in found if not isinstance(leaf, trio.Cancelled)] or found[:1]
    return real[0] if len(real) == 1 else error
