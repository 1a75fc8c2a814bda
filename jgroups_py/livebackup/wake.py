"""WAKE: the result of a wait that only ends. One object serves all such waits.

``trio.lowlevel.reschedule`` makes a result for each wait, and trio marks it as used. That takes a fifth of the time of a
task's step.
"""

from __future__ import annotations

from typing import Final

import outcome


class _Nothing(outcome.Value[None]):  # type: ignore[misc]  # final for those who check types; this one is one, too
    """A value that may be given again and again, because it is None."""

    __slots__ = ()

    def unwrap(self) -> None:
        """Return the value, without a note that it was used."""


WAKE: Final = _Nothing(None)
