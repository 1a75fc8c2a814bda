"""Stored: base of FILE_PING and JDBC_PING2, whose list the members write themselves.

    FindMembers before the     write ourselves, not as coordinator; then look
      first view
    view, as coordinator       write all its members; again a few times (info_writer_...), since another
                               coordinator may have removed it, or an address may have become known
    view, not as coordinator   remove what we have written as coordinator
    view, as coordinator,      remove rows of our last write whose members have left: they remove their own, but our write
      each has a row           may have come after that
    a list without us, as      write again
      coordinator
    the stack is closed        remove our own entry, and those whose removal still waits for its turn

Source:  JGroups FILE_PING.java, JDBC_PING2.java.
Differs: Java takes the list itself for answers; here the members on it are asked. So the entry of a dead member delays
         no joiner, and the writer of a list cannot speak for others. Java writes again only with remove_... set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Seconds
from jgroups_py.protocols.discovery.consulting import Consulting
from jgroups_py.protocols.discovery.entries import StoredMember
from jgroups_py.stack.directories import DirectoryRequest
from jgroups_py.stack.ports import Consult, Consulted
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.events import Event, FindMembers, GetPhysical, ViewChange
from jgroups_py.values.view import View


class Stored(Consulting):
    """See the module's docstring."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Consulting.Config):
        remove_old_coords_on_view_change: bool = False
        """A new coordinator removes the entries that its predecessor has written."""
        remove_all_data_on_view_change: bool = False
        """A coordinator removes the entries of members outside its view."""
        info_writer_max_writes_after_view: int = 2
        """The number of times that a coordinator writes again after a view."""
        info_writer_sleep_time: Seconds = 10.0
        """About the seconds until it writes again."""
        update_store_on_view_change: bool = True
        """A coordinator writes at every view; false: only when it becomes coordinator, and when a member has left."""
        ignored: ClassVar[frozenset[str]] = frozenset(
            {"register_shutdown_hook", "num_read_loops", "read_sleep", "write_data_on_find"}
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            self._at_least(0, "info_writer_max_writes_after_view")
            self._above(0, "info_writer_sleep_time")

    config: Config
    each_has_its_own: ClassVar[bool] = False
    """True if a member's entry stays when only other members are written again."""

    def start(self) -> None:
        super().start()
        self._coordinator = False
        self._saving = False
        """True if a write waits for its turn."""
        self._removing: dict[Address, None] = {}
        """Members whose entries are to be removed; a removal waits for its turn if there are any."""
        self._saved = False
        """True if the directory may have entries of ours."""
        self._last_written: tuple[Address, ...] = ()
        """Members of the last write, whether it is answered or not."""
        self._again = self.timer(self._on_again)
        self._again_left = 0
        self.writes = 0
        self.reads = 0

    def stop(self) -> None:
        super().stop()
        self._again.cancel()
        if self._saved:
            # Waiting requests are not made any more.
            request = self.removing([*dict.fromkeys((self.local_address, *self._removing))])
            self.put(Consult(self.new_handle(), request, self.lookup_time))

    # --- for subclasses

    def reading(self) -> DirectoryRequest:
        raise NotImplementedError

    def entries_of(self, reply: Consulted) -> list[StoredMember]:
        """Return the readable rows, and count the others."""
        raise NotImplementedError

    def writing(self, entries: list[StoredMember]) -> DirectoryRequest:
        raise NotImplementedError

    def removing(self, members: list[Address]) -> DirectoryRequest:
        """Return the request that removes the entries of these members."""
        raise NotImplementedError

    def clear(self) -> None:
        """Remove, as coordinator, the entries of members outside our view."""
        raise NotImplementedError

    def follow(self, was_coordinator: bool) -> None:
        """Follow a view with another coordinator, which writes all its members."""
        raise NotImplementedError

    def is_ours_to_write(self) -> bool:
        """Return whether we may write now. Default: before the first view, and as coordinator."""
        return self.view is None or self._coordinator

    # --- looking

    def event_down(self, event: Event) -> None:
        if isinstance(event, FindMembers) and event.initial and self.view is None:
            self.save()
        super().event_down(event)
        if isinstance(event, ViewChange):
            self._on_view(event.view, event.old)

    def look(self) -> None:
        self.consult(self.reading, self._on_read)

    def _on_read(self, reply: Consulted) -> None:
        if reply.problem:
            self.not_listed(self.directory_name, reply.problem)
            return
        self.reads += 1
        entries = self.entries_of(reply)
        if self._coordinator and not any(
            entry.coordinator and entry.address == self.local_address for entry in entries
        ):
            self.save()  # another coordinator has removed our entry
        self.listed([entry.physical for entry in entries])

    # --- writing

    def _on_view(self, view: View, old: View | None) -> None:
        config = self.config
        was, self._coordinator = self._coordinator, view.coordinator == self.local_address
        self._again.cancel()
        if not self._coordinator:
            self.follow(was)
            return
        if config.remove_all_data_on_view_change:
            self.clear()
        elif config.remove_old_coords_on_view_change and old is not None:
            if old.view_id.creator != self.local_address:
                self.remove([old.view_id.creator])
        left = old is not None and any(member not in view for member in old.members)
        if self.each_has_its_own:
            # A leaving member removes its entry. Our last write may have restored it afterwards.
            self.remove(member for member in self._last_written if member not in view)
        if not was or left or config.update_store_on_view_change:
            self.save()
            self._again_left = config.info_writer_max_writes_after_view
            self._write_again()

    def _write_again(self) -> None:
        if self._again_left > 0:
            most = max(1.0, self.config.info_writer_sleep_time)
            self._again.start(self.random.uniform(1.0, most) if most > 1.0 else most)

    def _on_again(self) -> None:
        self._again_left -= 1
        self.save()
        self._write_again()

    def save(self) -> None:
        if not self._saving:
            self._saving = True
            self.consult(self._make_writing, self._on_written)

    def _make_writing(self) -> DirectoryRequest | None:
        self._saving = False
        entries = self._own_entries()
        if not entries or not self.is_ours_to_write():
            return None
        self._saved = True
        self._last_written = tuple(entry.address for entry in entries)
        return self.writing(entries)

    def _own_entries(self) -> list[StoredMember]:
        """Return this member, and as coordinator all members whose address is known."""
        if self.physical is None:
            return []
        if self.view is None or not self._coordinator:
            return [StoredMember(self.stack.name, self.local_address, self.physical, False)]
        entries = []
        for member in self.view.members:
            mine = member == self.local_address
            physical = self.physical if mine else self.ask_down(GetPhysical(member))
            if isinstance(physical, IpAddress) and isinstance(member, UUID):
                name = self.stack.names.get(member)
                entries.append(StoredMember(name, member, physical, mine))
        return entries

    def _on_written(self, reply: Consulted) -> None:
        if reply.problem:
            self.failed_lookup(self.directory_name, reply.problem)
        else:
            self.writes += 1

    # --- removing

    def remove(self, members: Iterable[Address]) -> None:
        waits = bool(self._removing)
        self._removing.update(dict.fromkeys(members))
        if self._removing and not waits:
            self.consult(self._make_removing, self.removed)

    def _make_removing(self) -> DirectoryRequest | None:
        members, self._removing = list(self._removing), {}
        if self.local_address in members:
            if self._coordinator:  # it was requested once more meanwhile
                members.remove(self.local_address)
            else:
                self._saved = False
        return self.removing(members) if members else None

    def removed(self, reply: Consulted) -> None:
        if reply.problem:
            self.failed_lookup(self.directory_name, reply.problem)
