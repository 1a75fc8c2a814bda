"""check_plugin: does an application plug-in of the bucket store keep its contract?

    problems = check_plugin(plugin, [Request(b"+LH400", key="a"), ...])
    assert not problems, problems

- A request that runs twice leaves the entry as after once (A6). The store remembers answers for some time only.
- A request that is classified as read-only saves nothing and changes nothing.
- The classifier gives the same answer twice.
- A serialised entry can be unserialised, in every written version, and is equal.
- No entry reaches another one (A5).
"""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable
from typing import Final

from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.messages import EntryChange
from jgroups_py.buckets.plugin import Entry, Plugin, Request

REACH_MAX: Final = 100_000
"""The most objects visited below one entry."""
_PROXY: Final = ProxyId(Cep("check", "proxies"), 1)


def check_plugin(plugin: Plugin, requests: Iterable[Request], *, now: float = 0.0) -> list[str]:
    """Play each request twice, and return the findings as sentences. Requests without a key get one."""
    problems: list[str] = []
    bucket = Bucket(0, plugin.provider, 1)
    for number, request in enumerate(requests):
        found = plugin.classifier.classify(request)
        what = f"request {number} {request.body[:60]!r}"
        if found != plugin.classifier.classify(request):
            problems.append(f"{what}: the classifier gives two answers")
        if not found.sensible:
            continue
        key = found.key or f"invented-{number}"

        def once(
            key: str = key, request: Request = request, modifies: bool = found.modifies
        ) -> str:
            done = bucket.forward_to_entry(key, request, _PROXY, modifies=modifies, now=now)
            return done.error

        before = _state(bucket, plugin)
        error = once()
        after = _state(bucket, plugin)
        if not found.modifies and (after != before or "read-only" in error):
            problems.append(f"{what}: it is classified as read-only and changes entry {key!r}")
        if found.modifies and not error:
            once()
            if _state(bucket, plugin) != after:
                problems.append(f"{what}: carried out twice it leaves another entry than once")
    problems += _formats(bucket, plugin)
    problems += _references(bucket)
    return problems


def _state(bucket: Bucket, plugin: Plugin) -> dict[str, bytes]:
    """Return each live entry in its saved form."""
    return {key: bucket.entry(key).serialise(plugin.provider.version) for key in bucket.all_keys()}


def _formats(bucket: Bucket, plugin: Plugin) -> list[str]:
    problems = []
    provider = plugin.provider
    for key in bucket.all_keys():
        for version in (provider.version, *provider.writes):
            data = bucket.entry(key).serialise(version)
            again = Bucket(0, provider, 1)
            try:
                again.unserialise_entry(EntryChange(key, {"": data}, True, version))
                same = again.entry(key).serialise(version) == data
            except Exception as error:
                problems.append(
                    f"entry {key!r}: what it writes in version {version} cannot be read: {type(error).__name__}: {error}"
                )
                continue
            if not same:
                problems.append(
                    f"entry {key!r}: version {version} is different after reading and writing"
                )
    return problems


def _references(bucket: Bucket) -> list[str]:
    """Describe entries that refer to another entry."""
    problems = []
    for key in bucket.all_keys():
        entry = bucket.entry(key)
        seen, todo = {id(entry)}, [entry]
        while todo and len(seen) < REACH_MAX:
            for other in gc.get_referents(todo.pop()):
                if id(other) in seen or isinstance(
                    other, (type, types.ModuleType, types.FunctionType)
                ):
                    continue
                if isinstance(other, Entry):
                    problems.append(f"entry {key!r} refers to another entry")
                    todo.clear()
                    break
                seen.add(id(other))
                todo.append(other)
    return problems
