"""Tasks that wait for a view (``Channel.wait_view``, ``wait_members``). This part owns the tasks and knows no channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jgroups_py.channel.given import check_member_names, check_size
from jgroups_py.channel.watch import Watch
from jgroups_py.values.address import Address
from jgroups_py.values.view import View


class ViewWaits:
    """``view``: the newest one. ``error``: the error with which the channel has ended. ``name_of``: the logical name of a member.
    ``told``: a view in words, for errors."""

    def __init__(
        self,
        view: Callable[[], View],
        error: Callable[[], Exception | None],
        name_of: Callable[[Address], str],
        told: Callable[[View], str],
    ) -> None:
        self._view, self._error, self._name_of, self._told = view, error, name_of, told
        self._watch = Watch()

    @property
    def watch(self) -> Watch:
        """The tasks that wait."""
        return self._watch

    def changed(self) -> None:
        """Let all waiting tasks look again: a view has come, a member has got its name, or the channel has ended."""
        self._watch.changed()

    async def view(self, wanted: int | Callable[[View], bool], timeout: float | None) -> View:
        """See ``Channel.wait_view``."""
        if callable(wanted):
            name = getattr(wanted, "__name__", None) or repr(wanted)
            holds, words = wanted, f"no view that {name} accepts"
        else:
            size = check_size("wanted", wanted)
            holds, words = (lambda view: len(view) == size), f"no view of {size} members"
        return await self._until(holds, timeout, lambda view: words)

    async def members(self, wanted: int | Iterable[str], timeout: float | None) -> View:
        """See ``Channel.wait_members``."""
        if isinstance(wanted, int):
            size = check_size("wanted", wanted)
            return await self._until(
                lambda view: len(view) >= size,
                timeout,
                lambda view: f"{size - len(view)} of {size} members are missing",
            )
        names = check_member_names("wanted", wanted)

        def absent(view: View) -> list[str]:
            there = {self._name_of(member) for member in view}
            return [name for name in names if name not in there]

        return await self._until(
            lambda view: not absent(view),
            timeout,
            lambda view: f"members are missing: {', '.join(absent(view))}",
        )

    async def _until(
        self,
        holds: Callable[[View], bool],
        timeout: float | None,
        missing: Callable[[View], str],
    ) -> View:
        def is_there() -> bool:
            error = self._error()
            if error is not None:
                raise error
            return holds(self._view())

        def words() -> str:
            view = self._view()
            return f"{missing(view)}; {self._told(view)}"

        await self._watch.until(is_there, timeout, words)
        return self._view()
