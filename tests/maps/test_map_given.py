"""Impossible arguments are refused at the call, with a clear error, and leave no file behind."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from forked import code_of

from jgroups_py import ConfigError, blocking
from jgroups_py.maps import (
    MapBusy,
    MapChange,
    MapError,
    MapFileError,
    MapTypeError,
    PerField,
    Replication,
)
from jgroups_py.maps.feed import Skipped

HERE: dict[str, Any] = {"identifier": 1, "listen": "127.0.0.1:0"}


def _opened(tmp_path: Path, **options: Any) -> blocking.Map[Any, Any]:
    return blocking.open_map(tmp_path / "m", **{"max_bytes": 64 * 1024**2, **options})


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"identifier": "1"}, MapTypeError, r"identifier must be a whole number, got '1' \(str\)"),
        ({"identifier": True}, MapTypeError, r"identifier must be a whole number, got True"),
        ({"identifier": 1.5}, MapTypeError, "identifier must be a whole number"),
        ({"max_bytes": "16GB"}, MapTypeError, "max_bytes must be a whole number"),
        ({"max_bytes": 2**70}, MapError, "max_bytes must be at most 70368744177664"),
        ({"max_entries": 1.5}, MapTypeError, "max_entries must be a whole number"),
        ({"max_entries": 2**70}, MapError, "max_entries must be at most"),
        ({"max_live_bytes": -1}, MapError, "max_live_bytes must be at least 1, or 0 for no limit"),
        ({"inbox_bytes": "x"}, MapTypeError, "inbox_bytes must be a whole number"),
        ({"inbox_bytes": 2**50}, MapError, "inbox_bytes must be at most"),
        ({"sync_interval": "1"}, MapTypeError, "sync_interval must be a number of seconds"),
        ({"merge_interval": math.nan}, MapError, "merge_interval must be more than 0 seconds"),
        ({"merge_interval": 1e12}, MapError, "merge_interval .* at most 3"),
        ({"full_timeout": "x"}, MapTypeError, "full_timeout must be a number of seconds"),
        ({"hybrid": "yes"}, MapTypeError, "hybrid must be True or False, got 'yes'"),
        ({"wide_identifiers": 1}, MapTypeError, "wide_identifiers must be True or False"),
        ({"rule": "last"}, MapTypeError, "rule must have a name and a method merge, got 'last'"),
        ({"rule": PerField}, MapTypeError, r"rule must be an object: PerField\(\), got the class"),
        ({"ttl": math.inf}, MapError, "ttl must be more than 0 seconds, and at most 3"),
        ({"ttl": "5"}, MapTypeError, "ttl must be a number of seconds"),
        ({"identifier": 1, "network": 5}, MapTypeError, "network must be a network or a list"),
        ({"identifier": 1, "network": [5]}, MapTypeError, "network must have a method run, got 5"),
        ({"identifier": 1, "listen": 8076}, MapTypeError, "listen must be HOST:PORT, got 8076"),
        ({"identifier": 1, "peers": [5]}, MapTypeError, "a peer must be HOST:PORT, got 5"),
        ({"identifier": 1, "peers": 5}, MapTypeError, "peers must be a list of HOST:PORT, got 5"),
        ({**HERE, "tls": 5}, MapTypeError, "tls must be TlsSettings, got 5"),
        ({**HERE, "insecure": "no"}, MapTypeError, "insecure must be True or False"),
        (
            {**HERE, "listen": "0.0.0.0:0"},
            ConfigError,
            "listen at 0.0.0.0:0 is not of this machine",
        ),
        ({**HERE, "peers": ["10.0.0.9:1"]}, ConfigError, "a peer at 10.0.0.9:1 is not of this"),
        ({"replication": 5}, MapTypeError, "replication must be Replication, got 5"),
        *(
            ({"replication": Replication(**wrong)}, kind, text)
            for wrong, kind, text in (
                ({"peers": {128}}, MapError, "identifier of Replication.peers must be at most 127"),
                ({"peers": {"a"}}, MapTypeError, "identifier of Replication.peers must be a whole"),
                ({"max_skew": -1}, MapError, "max_skew must be 0 seconds or more"),
                ({"watch": 5}, MapTypeError, "watch must be a function, got 5"),
                ({"max_bandwidth": math.nan}, MapError, "max_bandwidth must be 0 or more, got nan"),
                ({"flush_interval": "x"}, MapTypeError, "flush_interval must be a number of"),
            )
        ),
    ],
)
def test_an_option_that_cannot_be_is_named(
    tmp_path: Path, given: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        _opened(tmp_path, **given)
    _opened(tmp_path).close()  # the path can still be opened in any way


@pytest.mark.parametrize("path", ["", "a\0b", "/tmp/" + "x" * 300])
def test_a_path_that_cannot_be_is_reported(path: str) -> None:
    with pytest.raises(MapError, match=r"path .* is empty|cannot be opened") as caught:
        blocking.open_map(path)
    assert not path or isinstance(caught.value, MapFileError)


@pytest.mark.parametrize("value", [math.nan, {"a": [1, (-math.inf,)]}, {"a": None, "b": math.inf}])
def test_a_float_that_json_does_not_have_is_refused_and_does_not_become_none(
    tmp_path: Path, value: Any
) -> None:
    with _opened(tmp_path, key=str, value="json") as m:
        with pytest.raises(MapTypeError, match="JSON has neither NaN nor Infinity"):
            m["a"] = value
        assert "a" not in m
        m["a"] = {"a": [None, 1.5]}
        assert m["a"] == {"a": [None, 1.5]}


class Perhaps(msgspec.Struct):
    price: float | None = None


def test_a_field_of_a_struct_does_not_become_none_either(tmp_path: Path) -> None:
    with (
        _opened(tmp_path, key=str, value=Perhaps, rule=PerField()) as m,
        pytest.raises(MapTypeError, match="price has NaN or Infinity"),
    ):
        m["a"] = Perhaps(math.nan)


def test_an_empty_key_is_nowhere(tmp_path: Path) -> None:
    with _opened(tmp_path, key=str, value=str) as m:
        assert m.get("") is None and "" not in m and m.pop("", "none") == "none"
        with pytest.raises(MapError, match="a key must have 1 to 511 bytes, got 0"):
            m.put("", "x")


@pytest.mark.parametrize("ttl", [math.inf, 1e11, math.nan, "5", True])
def test_a_time_to_live_that_is_no_time_is_refused(tmp_path: Path, ttl: Any) -> None:
    with _opened(tmp_path, key=str, value=str) as m:
        with pytest.raises(MapError, match="ttl must be"):
            m.put("a", "x", ttl=ttl)
        assert "a" not in m


def test_a_value_that_the_codec_cannot_read_is_not_changed_by_calls_that_return_it(
    tmp_path: Path,
) -> None:
    with _opened(tmp_path, key=str, value="json") as m:
        heard = m.listen(timeout=60.0)
        m._file.write(b"a", b"no json")  # like a host with other codecs
        calls: list[Callable[[], Any]] = [
            lambda: m.put("a", 1),
            lambda: m.remove("a"),
            lambda: m.pop("a"),
            lambda: m.replace("a", 1),
        ]
        for call in calls:
            with pytest.raises(MapError, match="cannot be read as json"):
                call()
            assert m._file.get(b"a") == b"no json"
        with pytest.raises(MapError, match=r"cannot be read as json.*\(key b'a'\)"):
            dict(m.items())
        first = next(heard)
        assert isinstance(first, Skipped)
        assert "of host 1: a value in the file cannot be read as json" in first.reason
        assert "(key b'a')" in first.reason
        m["b"] = 1
        second = next(heard)  # the listener still runs
        assert isinstance(second, MapChange) and second.key == "b"
        m["a"] = 2
        assert dict(m.items()) == {"a": 2, "b": 1}
        del m["a"]
        assert "a" not in m


@pytest.mark.sockets
def test_a_map_that_cannot_listen_says_so_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import socket
    import time

    with socket.socket() as taken, caplog.at_level(logging.ERROR, "jgroups_py.maps"):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        m = _opened(tmp_path, key=str, identifier=1, listen=place)
        limit = time.monotonic() + 60
        while not caplog.records and time.monotonic() < limit:
            time.sleep(0.01)
        assert "is not replicated by this process any more" in caplog.text and place in caplog.text
        m["a"] = b"x"  # reading and writing go on
        assert m["a"] == b"x" and not m.statistics().replicates
        with pytest.raises(ConfigError, match="cannot listen"):
            m.close()


def test_a_call_inside_a_call_may_change_any_other_key_and_not_the_same_one(tmp_path: Path) -> None:
    """Keys share locks, so a process with many pairs would wait for itself."""
    with _opened(tmp_path, key=str, value=int, lock_timeout=30.0) as m:

        def also(_: int | None) -> int:
            for number in range(5_000):  # more than there are locks
                m.increment(f"other{number}")
            return 1

        assert m.update("key", also) == 1
        assert all(m[f"other{number}"] == 1 for number in range(5_000))
        with pytest.raises(MapBusy, match="key b'key' is changed by the call around this one"):
            m.update("key", lambda _: m.increment("key"))
        assert m.update("key", lambda old: old + 1) == 2  # the lock is free afterwards


def test_a_child_that_was_forked_inside_a_call_leaves_the_lock_to_its_parent(
    tmp_path: Path,
) -> None:
    with _opened(tmp_path, key=str, value=int) as m:
        parent, status = os.getpid(), [-1]

        def forks(old: int) -> int:
            pid = os.fork()
            if pid:
                status[0] = code_of(pid)
            return old + 1

        m["key"] = 0
        try:
            m.update("key", forks)
        finally:
            if os.getpid() != parent:
                os._exit(sys.exc_info()[0] is not None)
        assert status == [0] and m["key"] == 1
