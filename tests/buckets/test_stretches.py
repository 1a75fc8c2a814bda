"""Re-partition by several processes: the same entries come to the same nodes as by one process, with any stretches."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from test_repartition import RECORDS, Clock, deployed, sorted_into

from jgroups_py.buckets.archive import ArchiveReader, ArchiveWriter, BadArchive, Record, writer
from jgroups_py.buckets.archive.merge import merged
from jgroups_py.buckets.archive.repartition import Partition
from jgroups_py.buckets.archive.stretches import (
    StretchDone,
    StretchTask,
    check_stretches,
    repartition_in_stretches,
)
from jgroups_py.buckets.deployment import Deployment

Do = Callable[[StretchTask], StretchDone]


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart point at about each tenth entry, as in an archive of some GB."""
    monkeypatch.setattr(writer, "POINT_BYTES", 250)


def archive(file: Path, records: Sequence[Record] = RECORDS) -> Path:
    with ArchiveWriter(file, instance="old", application="shop", created=1.0, buckets=9) as made:
        for record in records:
            made.add(record)
    return file


def here(do: Do, tasks: Sequence[StretchTask]) -> Iterator[StretchDone]:
    """Make the stretches in this process, but pickle all data that would be sent."""
    for task in pickle.loads(pickle.dumps(list(tasks))):
        yield pickle.loads(pickle.dumps(do(task)))


def in_stretches(
    folder: Path | None,
    *files: Path,
    processes: int = 4,
    run: Any = here,
    to: Deployment | None = None,
) -> Partition:
    with ExitStack() as opened:
        readers = [opened.enter_context(ArchiveReader(file)) for file in files]
        return repartition_in_stretches(
            readers,
            to or deployed(7),
            run,
            processes=processes,
            clock=Clock(),
            created=2.0,
            folder=folder,
        )


def entries(files: Sequence[Path]) -> list[Record]:
    with ExitStack() as opened:
        return list(merged([opened.enter_context(ArchiveReader(file)) for file in files]))


@pytest.mark.seed("A22", "A57")
@pytest.mark.parametrize("processes", [1, 2, 5, 30])
def test_stretches_give_each_node_the_entries_that_one_process_gives_it(
    tmp_path: Path, processes: int
) -> None:
    one, some = tmp_path / "one", tmp_path / "some"
    one.mkdir()
    some.mkdir()
    old = [archive(tmp_path / "a", RECORDS[:250]), archive(tmp_path / "b", RECORDS[150:])]
    wanted = sorted_into(one, 7, *old)
    found = in_stretches(some, *old, processes=processes)
    assert (found.total, found.buckets, found.nodes) == (wanted.total, wanted.buckets, wanted.nodes)
    assert found.seconds == 5.0 and found.processes == min(processes, len(found.files) // 3)
    for name in ("n1", "n2", "n3"):
        files = sorted(some.glob(f"{name}.*"))
        assert len(files) == len(found.files) // 3 <= processes
        assert entries(files) == entries([one / f"{name}.jgb"])
        check_stretches(map(str, files))
    assert [str(file) for file in some.iterdir() if file.name.startswith(".")] == []
    assert sorted(found.files) == sorted(map(str, some.iterdir()))


def test_stretches_are_of_about_one_length(tmp_path: Path) -> None:
    in_stretches(tmp_path, archive(tmp_path / "old"), processes=4)
    counts = [len(entries([tmp_path / f"n1.{number}of4.jgb"])) for number in range(1, 5)]
    assert max(counts) < 2 * min(counts), counts


def test_stretches_are_not_written_without_a_folder(tmp_path: Path) -> None:
    found = in_stretches(None, archive(tmp_path / "old"))
    assert found.total.entries == len(RECORDS) and not found.files
    assert [file.name for file in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("empty", [True, False])
def test_an_archive_with_few_entries_is_one_stretch(tmp_path: Path, empty: bool) -> None:
    found = in_stretches(tmp_path, archive(tmp_path / "old", [] if empty else RECORDS[:1]))
    assert found.total.entries == (0 if empty else 1)
    assert (tmp_path / "n1.1of1.jgb").is_file()


def test_a_damage_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    old = archive(tmp_path / "old")
    data = bytearray(old.read_bytes())
    data[data.index(b"seat-0300") + 12] ^= 1
    old.write_bytes(data)
    with pytest.raises(BadArchive, match=r"old: .*wrong checksum"):
        in_stretches(new, old)
    assert not list(new.iterdir())


def test_an_entry_that_differs_between_two_archives_is_reported(tmp_path: Path) -> None:
    other = [Record("seat-0200", 73, {"": b"other"})]
    files = [archive(tmp_path / "a"), archive(tmp_path / "b", other)]
    with pytest.raises(BadArchive, match="entry 'seat-0200' differs from that in "):
        in_stretches(tmp_path, *files)


def test_a_stretch_that_read_too_little_is_found(tmp_path: Path) -> None:
    def loses(do: Do, tasks: Sequence[StretchTask]) -> Iterator[StretchDone]:
        return here(do, tasks[:-1])

    with pytest.raises(BadArchive, match=r"old: \d+ entries with \d+ bytes were read, and its end"):
        in_stretches(tmp_path, archive(tmp_path / "old"), run=loses)
    assert [file.name for file in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["n1.1of3.jgb", "n1.3of3.jgb"], "one of 3 files that belong together, and number 2"),
        (["n1.1of2.jgb", "n2.2of2.jgb"], "one of 2 files that belong together, and number 2"),
        (["n1.1of1.jgb", "n2.2of3.jgb"], "one of 3 files that belong together, and number 1"),
        (["n1.2of2.jgb", "n1.1of2.jgb", "n2.jgb", "n3.0of0.jgb"], ""),
    ],
)
def test_a_file_that_is_missing_is_reported(names: list[str], problem: str) -> None:
    if problem:
        with pytest.raises(BadArchive, match=problem):
            check_stretches(f"new/{name}" for name in names)
    else:
        check_stretches(f"new/{name}" for name in names)


def test_processes_of_this_machine_sort(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from jgroups_py.tools.cli import run

    old, new = archive(tmp_path / "old"), tmp_path / "new"
    (tmp_path / "new.yaml").write_text("name: seats\nbuckets: 7\nnodes: {n1: , n2: , n3: }\n")
    command = ["buckets", "repartition", str(old), "--to", str(tmp_path / "new.yaml")]
    assert run([*command, "--out", str(new), "--processes", "2", "--project", "1kb"]) == 0
    said = capsys.readouterr().out
    assert "400 entries with " in said and "s by 2 processes; too few bytes to tell a rate" in said
    assert len(list(new.iterdir())) == 6 and "1k would need " in said
    assert run([*command, "--processes", "2", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["processes"] == 2
    monkeypatch.setattr(writer, "POINT_BYTES", 10**6)
    small = str(archive(tmp_path / "small"))
    assert run([*command[:2], small, *command[3:], "--processes", "8"]) == 0
    told = capsys.readouterr()
    assert "s by one process; too few bytes to tell a rate" in told.out
    assert "too small for 8 processes: they were sorted by 1" in told.err


def test_a_node_does_not_begin_without_one_of_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from jgroups_py.tools.cli import run

    archive(tmp_path / "n1.1of2.jgb")
    (tmp_path / "new.yaml").write_text(
        "name: seats\nbuckets: 7\napplication: jgroups_py.buckets.items.bucket_items:ITEMS\n"
        "nodes: {n1: , n2: , n3: }\n"
    )
    given = ["--import", str(tmp_path / "n1.1of2.jgb")]
    assert run(["buckets", "node", str(tmp_path / "new.yaml"), "n1", *given]) == 2
    assert "n1.1of2.jgb: it is one of 2 files that belong together" in capsys.readouterr().err
