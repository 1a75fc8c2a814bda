"""Re-partition off line: from any number of buckets to any other, no entry is lost, and every copy is at its node."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jgroups_py.buckets.archive import ArchiveReader, ArchiveWriter, BadArchive, Record
from jgroups_py.buckets.archive.repartition import OUTAGE, Partition, repartition
from jgroups_py.buckets.deployment import Deployment, distribute, parse_deployment
from jgroups_py.buckets.digest import bucket_of, digest_of

RECORDS = [Record(f"seat-{number:04}", 73, {"": b"x" * (number % 9)}) for number in range(400)]


def deployed(buckets: int, nodes: int = 3) -> Deployment:
    names = "".join(f"  n{n}:\n" for n in range(1, nodes + 1))
    return parse_deployment(f"name: seats\nbuckets: {buckets}\nnodes:\n{names}")


def write(file: Path, records: list[Record] = RECORDS) -> Path:
    with ArchiveWriter(file, instance="old", application="shop", created=1.0, buckets=9) as archive:
        for record in records:
            archive.add(record)
    return file


class Clock:
    """The test's clock moves five seconds between two readings."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 5.0
        return self.now


def sorted_into(
    folder: Path | None, buckets: int, *files: Path, nodes: int = 3, **options: object
) -> Partition:
    readers = [ArchiveReader(file).__enter__() for file in files]
    try:
        return repartition(
            readers,
            deployed(buckets, nodes),
            clock=Clock(),
            created=2.0,
            folder=folder,
            **options,  # type: ignore[arg-type]
        )
    finally:
        for reader in readers:
            reader.close()


@pytest.mark.seed("A22", "A57")
@pytest.mark.parametrize("buckets", [1, 7, 64])
def test_each_node_gets_the_entries_of_which_it_has_a_copy(tmp_path: Path, buckets: int) -> None:
    found = sorted_into(tmp_path, buckets, write(tmp_path / "old"))
    nodes = distribute(deployed(buckets)).nodes
    for name in ("n1", "n2", "n3"):
        with ArchiveReader(tmp_path / f"{name}.jgb") as archive:
            assert archive.head.application == "shop" and archive.head.buckets == buckets
            wanted = [r for r in RECORDS if name in nodes[bucket_of(digest_of(r.key), buckets)]]
            assert list(archive) == wanted
            assert found.nodes[name].entries == len(wanted)
    assert found.total.entries == sum(load.entries for load in found.buckets) == len(RECORDS)
    assert sum(load.size for load in found.nodes.values()) == 2 * found.total.size


@pytest.mark.seed("A22")
def test_the_way_there_and_back_gives_the_same_entries(tmp_path: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    there.mkdir()
    back.mkdir()
    sorted_into(there, 64, write(tmp_path / "old"), nodes=5)
    sorted_into(back, 3, *sorted(there.iterdir()), nodes=3)
    again = sorted_into(None, 9, *sorted(back.iterdir()))
    assert (again.total.entries, again.files) == (400, [])
    assert again.total.size == sum(record.size for record in RECORDS)


@pytest.mark.seed("A57")
def test_the_new_classifier_chooses_the_bucket(tmp_path: Path) -> None:
    file = write(tmp_path / "old")
    found = sorted_into(None, 4, file, digest=lambda key: 2**63)
    assert [load.entries for load in found.buckets] == [0, 0, 400, 0]
    with pytest.raises(
        BadArchive, match=r"the classifier: its digest of 'seat-0000' is -1, not 0 to"
    ):
        sorted_into(None, 4, file, digest=lambda key: -1)


@pytest.mark.seed("A21")
def test_the_time_is_projected_by_the_measured_rate(tmp_path: Path) -> None:
    found = sorted_into(None, 4, write(tmp_path / "old"))
    assert found.seconds == 5.0
    assert found.projected(10 * found.total.size) == 50.0
    assert found.within(OUTAGE) == found.total.size * 2160
    told = found.as_json()
    assert told["entries"] == 400 and told["bytes_in_3h"] == found.total.size * 2160
    assert told["entries_of_a_bucket"]["least"] > 50
    none = sorted_into(None, 4)
    assert none.projected(1) == float("inf") and none.total.entries == 0


def test_a_damaged_archive_leaves_no_file(tmp_path: Path) -> None:
    file = write(tmp_path / "old")
    data = bytearray(file.read_bytes())
    data[data.index(b"seat-0100")] ^= 1
    file.write_bytes(data)
    folder = tmp_path / "new"
    folder.mkdir()
    with pytest.raises(BadArchive, match="wrong checksum"):
        sorted_into(folder, 4, file)
    assert os.listdir(folder) == []
