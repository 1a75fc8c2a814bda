"""Code of users that raises when a cache calls it: a store, an eviction policy, a codec, a locator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio
from faulty_store import FaultyStore

from jgroups_py.cache import (
    CacheSettings,
    EvictionPolicy,
    Fqn,
    LoaderConfig,
    MsgpackCodec,
    StoreConfig,
    TreeCache,
    open_tree_cache,
)
from jgroups_py.cache.eviction import Region
from jgroups_py.errors import CacheError, CacheRefused, StoreError


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


ERRORS: dict[str, Callable[[], Exception]] = {
    "ValueError": lambda: ValueError("boom"),
    "ExceptionGroup": lambda: ExceptionGroup("two", [OSError(), OSError()]),
    "Odd": Odd,
    "KeyError": lambda: KeyError("x"),
}


class RudeStore(FaultyStore):
    """Raises ``error`` where it would have raised StoreError; ``answer``: its result of reads instead."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.answer: Any = None

    async def _call(self, name: str) -> Any:
        if self.error is not None:
            raise self.error
        return await super()._call(name)

    async def load(self, path: Fqn) -> Any:
        found = await super().load(path)
        return found if self.answer is None else self.answer

    async def load_within(self, path: Fqn, limit: int) -> Any:
        found = await super().load_within(path, limit)
        return found if self.answer is None else self.answer


WITH_STORE = CacheSettings(
    cache_loader_configuration=LoaderConfig(cacheloader=StoreConfig(), passivation=False)
)


@pytest.mark.parametrize("kind", ERRORS)
async def test_any_exception_of_a_store_is_a_store_error_of_the_call(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = RudeStore()
    async with open_tree_cache(WITH_STORE, store=store) as cache:
        await cache.put("/a", "x", 1)
        store.error = error = ERRORS[kind]()
        with pytest.raises(StoreError, match=kind) as caught:
            await cache.put("/b", "x", 2)
        assert caught.value.definite
        assert await cache.get("/a", "x") == 1
        store.error = None
        assert await cache.get("/b", "x") is None
        await cache.put("/b", "x", 3)
        assert cache.statistics().counters["store_failures"] == 1
    first = [r for r in caplog.records if "the store fails" in r.message]
    assert len(first) == 1
    assert first[0].exc_info is not None
    assert first[0].exc_info[1] is error


async def test_a_store_that_fails_by_turns_fills_no_log(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = RudeStore()
    async with open_tree_cache(WITH_STORE, store=store) as cache:
        for n in range(100):
            store.error = ValueError("boom") if n % 2 else None
            try:
                await cache.put(f"/{n}", "x", n)
            except StoreError:
                assert n % 2
        store.error = None
        assert len(caplog.records) == 2
        await trio.sleep(11)
        await cache.put("/a", "x", 1)
        store.error = ValueError("boom")
        with pytest.raises(StoreError):
            await cache.put("/b", "x", 1)
        assert "49 more like this left out" in caplog.records[-1].message
        store.error = None


@pytest.mark.parametrize("answer", ["text", 5, [("/a", "x")], [5]])
async def test_a_wrong_answer_of_a_store_is_a_store_error(answer: Any) -> None:
    store = RudeStore()
    async with open_tree_cache(WITH_STORE, store=store) as cache:
        await cache.put("/a", "x", 1)
        store.answer = answer
        with pytest.raises(StoreError, match=r"the store's load\w*\(\) gave"):
            await cache.get("/other", "x")
        with pytest.raises(StoreError, match=r"the store's load\w*\(\) gave"):
            await cache.remove_tree("/below")
        store.answer = None
        assert await cache.get("/a", "x") == 1


async def test_a_store_whose_methods_are_not_async_is_refused_in_words() -> None:
    class NotAsync(FaultyStore):
        def open(self) -> Any:
            raise OSError("no such disk")

    with pytest.raises(StoreError, match="the store raised OSError: no such disk"):
        async with open_tree_cache(WITH_STORE, store=NotAsync()):
            pass


class RudePolicy(EvictionPolicy):
    """A policy that raises at ``at``, and evicts any node."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.error: Exception = ValueError("boom")
        self.chosen: Sequence[Fqn] = ()

    def _do(self, what: str) -> None:
        if what == self.at:
            raise self.error

    def touched(self, path: Fqn, size: int, now: float, *, written: bool) -> None:
        self._do("touched")

    def gone(self, path: Fqn) -> None:
        self._do("gone")

    def victims(self, now: float, can_take: Callable[[Fqn], bool]) -> list[Fqn]:
        taken = [path for path in self.chosen if can_take(path)]
        self._do("victims")
        if self.at == "unasked":
            return [Fqn.parse("/a")]
        if self.at == "no list":
            return None  # type: ignore[return-value]
        return taken

    def is_over(self, now: float) -> bool:
        self._do("is_over")
        return bool(self.chosen) or self.at in ("unasked", "no list")


@pytest.mark.parametrize("at", ["touched", "gone", "is_over", "victims", "no list"])
@pytest.mark.parametrize("kind", ERRORS)
async def test_a_policy_that_raises_evicts_nothing_and_harms_no_call(
    at: str, kind: str, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    policy = RudePolicy(at)
    policy.error = ERRORS[kind]()
    policy.chosen = [Fqn.parse("/a")] if at == "victims" else []
    cache = TreeCache(regions=[Region(Fqn.parse("/"), policy)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.run)
        await cache.put("/a", "x", 1)
        await cache.put("/b", "x", 1)
        await cache.remove_node("/b")
        await trio.sleep(6)
        assert await cache.get("/a", "x") == 1
        await cache.put("/a", "x", 2)  # its lock is free
        counters = cache.statistics().counters
        assert counters["policy_failures"] > 0
        assert counters["evicted"] == 0
        nursery.cancel_scope.cancel()
    lines = [r.message for r in caplog.records]
    method = "victims" if at == "no list" else at
    assert lines[0].startswith(f"the eviction policy RudePolicy: {method}() raised")
    assert len(lines) == 1


async def test_a_policy_evicts_only_allowed_nodes() -> None:
    cache = TreeCache(regions=[Region(Fqn.parse("/"), RudePolicy("unasked"))])
    await cache.put("/a", "x", 1)
    assert await cache.get("/a", "x") == 1
    assert cache.statistics().counters["evicted"] == 0


async def test_an_odd_error_of_a_codec_is_the_calls_own() -> None:
    class Rude(MsgpackCodec):
        def __init__(self) -> None:
            super().__init__()
            encode, decode = self.encode, self.decode

            def rude_encode(value: Any) -> bytes:
                if value == "bad":
                    raise Odd
                return encode(value)

            def rude_decode(data: bytes) -> Any:
                if decode(data) == "unreadable":
                    raise Odd
                return decode(data)

            self.encode, self.decode = rude_encode, rude_decode  # type: ignore[assignment]

    async with open_tree_cache("local.xml", codec=Rude()) as cache:
        with pytest.raises(CacheRefused, match="cannot be stored"):
            await cache.put("/a", "x", "bad")
        await cache.put("/a", "x", "unreadable")
        with pytest.raises(CacheError, match="cannot be read by this codec"):
            await cache.get("/a", "x")
        await cache.put("/a", "x", 1)
        assert await cache.get("/a", "x") == 1
