"""Cluster files in YAML, as Chronicle Map Enterprise writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.maps import Maximum, load_cluster, parse_cluster

SAMPLE = Path(__file__).with_name("seed_cluster.yaml")
HOST = "cluster: {a: {hostId: 1, connectUri: '127.0.0.1:1'}}\n"


@pytest.mark.seed("K20", "K21")
def test_the_sample_of_the_seed_loads_unmodified() -> None:
    cluster = load_cluster(SAMPLE)
    assert {i: (h.name, h.connect_uri) for i, h in cluster.hosts.items()} == {
        1: ("host1", "hostport1"),
        2: ("host2", "hostport2"),
        3: ("host3", "hostport3"),
    }
    (fx,) = cluster.maps.values()
    assert (fx.name, fx.key_class, fx.value_class) == (
        "fx",
        "String",
        "software.chronicle.enterprise.map.ValueObject",
    )
    assert (fx.entries, fx.average_key_size, fx.average_value_size) == (10000, 64, 128)
    assert fx.folder(2, Path("base")) == Path("base/data/2/fx")
    assert fx.log_directory == "logs/$hostId/" and fx.replication_logging


def test_a_cluster_file_may_have_block_style_and_options_of_ours() -> None:
    cluster = parse_cluster(
        """
cluster:
  a: {hostId: 7, connectUri: "127.0.0.1:8076"}
maps:
  counts:
    keyClass: int
    rule: maximum
    durability: sync
    timeToLive: 5s
    maxBytes: 1gib
    flushInterval: 20
    maxBandwidth: 10M
    tombstoneMinAge: 60s
    tombstoneAge: 86400s
"""
    )
    counts = cluster.maps["counts"]
    assert isinstance(counts.options["rule"], Maximum)
    assert {k: v for k, v in counts.options.items() if k != "rule"} == {
        "durability": "sync",
        "ttl": 5.0,
        "max_bytes": 1024**3,
    }
    assert counts.replication == {
        "flush_interval": 0.02,
        "max_bandwidth": 10_000_000,
        "tombstone_min_age": 60.0,
        "tombstone_age": 86400.0,
    }
    assert not counts.replication_logging and counts.line == 6


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f.yaml: the file is empty"),
        ("[1]", "f.yaml:1:1: the tag tag:yaml.org,2002:seq is not known"),
        (
            "!Other {cluster: {}, maps: {}}",
            r"1:1: the tag !Other is not known \(!MapReplicationCfg",
        ),
        ("cluster: {}", "1:1: maps: the key is missing"),
        ("cluster: {}\nmaps: {}", "1:10: cluster: at least one host is wanted"),
        (HOST + "maps: {}", "2:7: maps: 1 to 1000 maps are possible, not 0"),
        (HOST + "maps: {m: }", "2:10: maps.m: keys and values are wanted, not nothing"),
        (HOST + "maps: {m: {}}\nx: 1", r"3:1: x: no such key \(known: cluster, maps\)"),
        (
            HOST + "maps: {m: {entires: 1}}",
            r'2:12: maps.m.entires: no such key \(did you mean "entries"\?\) \(known: keyClass, ',
        ),
        (
            HOST + "maps: {m: {entries: -1}}",
            "2:21: maps.m.entries: '-1' is not a whole number .0 to .*",
        ),
        (
            HOST + "maps: {m: {entries: [1]}}",
            "2:21: maps.m.entries: one value is wanted, not a list",
        ),
        (
            HOST + "maps: {m: {keyClass: !!python/name:os.system x}}",
            "maps.m.keyClass: the tag .*python/name.* is not known",
        ),
        (
            HOST + "maps: {m: {rule: best}}",
            "2:18: maps.m.rule: must be one of last-writer, .*, got best",
        ),
        (
            HOST + "maps: {m: {durability: often}}",
            "must be one of process, interval, sync, got often",
        ),
        (HOST + "maps: {m: {timeToLive: soon}}", "2:24: maps.m.timeToLive: .*soon"),
        (
            HOST + "maps: {m: {enableReplicationLogging: yep}}",
            "2:38: maps.m.enableReplicationLogging: must be true or false, got yep",
        ),
        (HOST + "maps: {m: {}, m: {}}", "2:15: maps.m: the key stands twice, first in line 2"),
        (HOST + "maps: {m: &a {}, n: *a}", "2:21: not YAML: anchors and aliases are not accepted"),
        (HOST + "maps: {m: {", "3:1: not YAML|2:12: not YAML"),
        (HOST + "maps:\n\tm: {}", "3:1: not YAML: a tab stands where"),
        (
            "cluster: {a: {hostId: 0, connectUri: x}}\nmaps: {m: {}}",
            r"1:23: cluster.a.hostId: 0 is not possible \(1 to 65535\)",
        ),
        (
            "cluster: {a: {hostId: 1}}\nmaps: {m: {}}",
            "1:14: cluster.a.connectUri: the key is missing",
        ),
        (
            "cluster:\n  a: {hostId: 1, connectUri: x}\n  b: {hostId: 1, connectUri: y}\nmaps: {m: {}}",
            r"3:6: cluster.b.hostId: 1 is that of a, too \(each host needs another one\)",
        ),
    ],
)
def test_an_error_of_a_cluster_file_names_line_key_and_value(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_cluster(text, "f.yaml")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load_cluster(tmp_path / "none.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="it has more than 1048576 bytes"):
        load_cluster(tmp_path / "large.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(ConfigError, match="not a readable text"):
        load_cluster(tmp_path / "binary.yaml")
