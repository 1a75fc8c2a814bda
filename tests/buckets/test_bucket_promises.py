"""Promises that several parts keep together: no bucket moves by itself, only the channel reports losses, and each
component keeps its data."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from seed_instance import MASTERS, PAIRS, Instance, key_in

from jgroups_py import buckets
from jgroups_py.buckets import Request
from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.messages import BucketRow
from jgroups_py.buckets.rows import find_a_bucket, find_recreatable_buckets
from jgroups_py.testing.explorer.buckets.ledger import OLD, LedgerProvider

ONE_SYSTEM = {
    ("os", "fork"),
    ("os", "getuid"),
    ("os", "uname"),
    ("signal", "SIGKILL"),
    ("os", "O_NOFOLLOW"),
}
"""Search for attributes that not every operating system has. ``getattr`` with a default may ask for them."""


@pytest.mark.seed("A3")
def test_a_manager_that_is_silent_is_replaced_when_the_channel_says_so_and_not_before() -> None:
    """The silent manager neither gets nor renews a lease, so it answers no reads. Only the channel decides that it is
    lost."""
    instance = Instance()
    before = instance.index("n1").state
    manager = instance.manager("n2")
    manager.handle = lambda frm, message: None
    instance.world.run(60.0)
    assert instance.index("n1").state == before and not manager.lease.holds()
    instance.kill("n2")
    instance.world.run(10.0)
    assert instance.index("n1").state.exempted != before.exempted
    assert all(row.master != manager.cep for row in instance.index("n1").state.rows.values())


@pytest.mark.seed("A17", "A18", "A41")
def test_a_bucket_that_has_all_the_load_moves_when_it_is_ordered_to_and_whole() -> None:
    instance = Instance()
    keys = [key_in(4, number) for number in range(5)]
    other = key_in(5)
    rows = dict(instance.index("n1").state.rows)
    for number in range(60):
        assert instance.ask("n1", keys[number % 5], f"+{number}") == str(number // 5)
    instance.ask("n1", other, "+x")
    assert instance.manager("n2").copies[3].counts["requests"] == 60, "affinity by partition"
    instance.world.run(60.0)
    assert instance.index("n1").state.rows == rows
    moved = instance.do(
        "n1", "migrate_master_bucket", instance.cep("n2"), instance.cep("n1"), bucket=3
    )
    instance.world.run(1.0)
    after = instance.index("n3").state.rows
    assert after == {**rows, 3: moved} and moved.master == instance.cep("n1")
    assert sorted(instance.manager("n1").copies[3].bucket.state()) == sorted(keys)
    assert 3 not in instance.manager("n2").copies and 4 in instance.manager("n2").copies


@pytest.mark.seed("A27")
def test_a_bucket_takes_any_number_of_entries() -> None:
    bucket = Bucket(0, LedgerProvider(OLD), 10)
    for number in range(3_000):
        bucket.forward_to_entry(f"k{number}", Request(b"+x"), None, modifies=True, now=0.0)
    assert len(bucket) == len(bucket.all_keys()) == 3_000
    assert len(bucket.all_remembered()) <= 10


@pytest.mark.seed("A58")
def test_routers_and_proxies_keep_nothing_that_their_loss_could_lose() -> None:
    """A bucket is locked during a move, an index copy during an update; both are free afterwards."""
    instance = Instance()
    key = key_in(5)
    assert instance.ask("n3", key, "+by node 3") == "0"
    instance.kill("n3")
    instance.start("n3")
    instance.world.run(8.0)
    router, proxies = instance.router("n3"), instance.world.machines[instance.member("n3")].proxies
    assert router.pending == 0 and len(proxies["p/n3"]) == 0, "a new one begins with nothing"
    assert instance.ask("n3", key, "?") == "by node 3"
    for name in MASTERS:
        assert instance.index(name).locked_by is None
        assert not any(copy.locked for copy in instance.manager(name).copies.values())


@pytest.mark.seed("A64")
def test_an_index_finds_sets_promotes_disables_and_exempts() -> None:
    instance = Instance()
    index = instance.index("n3")
    rows = index.state.rows
    n1, n2, n3 = (instance.cep(name) for name in ("n1", "n2", "n3"))
    assert index.get_bucket_location(3) == BucketRow(3, 1, n2, n3, OLD)
    assert find_a_bucket(rows.values(), n2, "master") == [3, 4, 5]
    assert find_a_bucket(rows.values(), n2, "slave") == [0, 2, 7]
    assert find_recreatable_buckets(rows.values()) == []
    ended: list[Any] = []
    index.set_bucket_location(BucketRow(3, 2, n1, n3, OLD), lambda *end: ended.append(end))
    instance.world.flush(instance.member("n3"))
    assert instance.world.run(5.0, lambda: bool(ended)) and ended[0][1] is None
    instance.world.run(0.1)
    assert {instance.index(name).state.rows[3].master for name in MASTERS} == {n1}
    instance.kill("n2")
    instance.world.run(10.0)
    state = instance.index("n1").state
    assert sorted(state.copies) == ["i/n1", "i/n3"], "the copy of node 2 is exempted"
    assert state.rows[4].master == n1 and state.rows[4].slave is None, "its slave is promoted"
    assert state.rows[0].master == n1 and state.rows[0].slave is None, "a lost slave is disabled"
    assert find_recreatable_buckets(state.rows.values(), n1) == [0, 2, 4]
    assert state == instance.index("n3").state


@pytest.mark.seed("A17")
def test_keys_are_spread_evenly_over_buckets() -> None:
    found = [0] * PAIRS
    for number in range(9_000):
        found[bucket_of(digest_of(f"key-{number}"), PAIRS)] += 1
    assert min(found) > 850 and max(found) < 1_150


@pytest.mark.seed("A28")
def test_the_store_imports_no_module_that_only_one_system_has() -> None:
    """It was never run on macOS or Windows. The code needs no more than Python offers there."""
    elsewhere = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "msvcrt", "winreg"}
    files = sorted(Path(buckets.__file__).parent.rglob("*.py"))
    assert len(files) > 60
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not elsewhere & {name.partition(".")[0] for name in names}, file
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in ONE_SYSTEM, f"{file}:{node.lineno}"
