"""Re-partition of a bucket store as a Spark job: the same entries at the same nodes as by one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.buckets.archive import ArchiveReader, ArchiveWriter, BadArchive, Record, writer
from jgroups_py.buckets.archive.merge import merged

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # Spark's own
    pytest.mark.timeout(600),
]


def test_spark_sorts_entries_as_one_process_does(
    spark: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from jgroups_py.spark.repartition import repartition
    from jgroups_py.tools.cli import run

    monkeypatch.setattr(writer, "POINT_BYTES", 2_000)
    old = tmp_path / "old.jgb"
    with ArchiveWriter(old, instance="old", application="shop", created=1.0) as made:
        for number in range(1_000):
            made.add(Record(f"seat-{number:05}", 73, {"": b"x" * (number % 50)}))
    to, one, some = (tmp_path / name for name in ("new.yaml", "one", "some"))
    to.write_text("name: seats\nbuckets: 16\nnodes: {n1: , n2: , n3: }\n")
    command = [str(old), "--to", str(to), "--out"]
    assert run(["buckets", "repartition", *command, str(one)]) == 0
    capsys.readouterr()
    assert run(["spark", "repartition", *command, str(some), "--tasks", "3"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["entries"] == 1_000 and said["processes"] == 3 and said["bytes_in_3h"] > 0
    assert len(said["files"]) == 9
    for name in ("n1", "n2", "n3"):
        with ArchiveReader(one / f"{name}.jgb") as whole:
            wanted = list(whole)
        readers = [ArchiveReader(file).__enter__() for file in sorted(some.glob(f"{name}.*"))]
        assert list(merged(readers)) == wanted
        for reader in readers:
            reader.close()

    data = bytearray(old.read_bytes())
    data[data.index(b"seat-00700") + 14] ^= 1
    old.write_bytes(data)
    with pytest.raises(BadArchive, match=r"old\.jgb: .*wrong checksum"):
        repartition(spark, [str(old)], str(to), folder=str(some), tasks=2)
    assert len(list(some.iterdir())) == 9
