"""EntryWork: one request at its entry. The plug-in's code runs here, and only its result comes out.

Source: 4.4.2.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from jgroups_py.buckets.bucket import Bucket, Done
from jgroups_py.buckets.copy import Copy
from jgroups_py.buckets.ends import ProxyId
from jgroups_py.buckets.faults import PLUGIN_ERRORS, text_of
from jgroups_py.buckets.messages import TEXT_MAX, Forward, decode_change
from jgroups_py.buckets.plugin import EntryBehaviourProvider, Request
from jgroups_py.buckets.port import Port

_log = logging.getLogger("jgroups_py.buckets")

BLOCKED_AFTER: Final = 0.5
"""The seconds after which a working request is counted ``blocked`` and logged. The channel counts the same time as a
lag."""
BLOCKED_TOLD: Final = 10.0
"""Seconds between two such warnings of a manager."""


class EntryWork:
    """``find``: returns all proxies with attributes, for an entry that looks for one."""

    def __init__(
        self,
        port: Port,
        provider: EntryBehaviourProvider,
        counts: Counter[str],
        find: Callable[[], list[tuple[ProxyId, Mapping[str, str]]]],
    ) -> None:
        self.clock: Callable[[], float] = float
        """A clock in seconds, to notice entries that block. With virtual time it does not advance."""
        self._port, self._provider, self._counts, self._find = port, provider, counts, find
        self._told_blocked = -math.inf

    def work(self, copy: Copy, forward: Forward) -> Done:
        """Let the entry work on the request, or put an exported entry."""
        return self._put(copy, forward) if forward.puts else self._worked(copy, forward)

    def _worked(self, copy: Copy, forward: Forward) -> Done:
        began = self.clock()
        request = Request(forward.body, forward.key)
        done = copy.bucket.forward_to_entry(
            forward.key,
            request,
            forward.proxy,
            modifies=forward.modifies,
            now=self._port.wall,
            find=self._find,
            version=copy.row.slave_version if copy.row.slave is not None else 0,
        )
        took = self.clock() - began
        if took > BLOCKED_AFTER:
            self._blocked(request, took)
        return done

    def _blocked(self, request: Request, took: float) -> None:
        """Count a request that has kept the whole node waiting, and log its name."""
        self._counts["blocked"] += 1
        if self._port.now < self._told_blocked + BLOCKED_TOLD:
            return
        self._told_blocked = self._port.now
        try:
            what = str(self._provider.name_of(request))[:TEXT_MAX]
        except PLUGIN_ERRORS:
            what = "a request"
        _log.warning(
            "%s: %s of entry %r worked for %.1f s; the whole node waited meanwhile",
            self._port.cep.component,
            what,
            request.key,
            took,
        )

    def _put(self, copy: Copy, forward: Forward) -> Done:
        """Put an exported entry. The plug-in tries it first, so that a refused one makes no change."""
        try:
            change = decode_change(forward.body)
            if change.key != forward.key:
                raise ValueError("it has another key")
            trial = Bucket(copy.bucket.id, self._provider, 1)
            trial.check_version(change)
            trial.unserialise_entry(change)
            version = copy.row.slave_version if copy.row.slave is not None else 0
            saved = trial.as_version(change, version)
        except PLUGIN_ERRORS as error:
            return Done([], None, text_of(error))
        copy.bucket.adopt(change)
        self._counts["entries_put"] += 1
        return Done([], saved)
