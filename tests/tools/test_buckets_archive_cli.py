"""``jgroups-py buckets archive`` and ``repartition``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.buckets.archive import ArchiveReader, ArchiveWriter, Record, repartition
from jgroups_py.tools.commands import buckets_archive

SEATS = """\
name: seats
buckets: 9
nodes: {n1: , n2: , n3: }
"""
PLUGIN = """
from jgroups_py.buckets import Classification, EntryBehaviourProvider, Plugin, RequestClassifier

class Provider(EntryBehaviourProvider):
    application, version = "shop", 73
    def create_entry(self, key):
        raise NotImplementedError

class Classifier(RequestClassifier):
    def classify(self, request):
        return Classification()
    def digest(self, key):
        return 2**64 - 1

PLUGIN = Plugin(Provider(), Classifier())
"""


@pytest.fixture
def file(deployment: Any) -> str:
    return str(deployment(SEATS))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "seats.jgb"
    with ArchiveWriter(path, instance="old", application="shop", created=0.0, buckets=4) as writer:
        for number in range(200):
            writer.add(Record(f"seat-{number:03}", 73, {"": b"x" * 50}))
    return path


@pytest.mark.seed("A22")
def test_an_archive_is_checked_and_readable_entries_are_rescued(archive: Path, run: Any) -> None:
    code, out, _ = run("archive", str(archive))
    assert code == 0 and out.splitlines() == [
        f"{archive}: old (shop), written 1970-01-01 00:00:00 UTC",
        "  200 entries, 11600 bytes, formats 73 (200)",
        "  keys 'seat-000' to 'seat-199'",
    ]
    data = bytearray(archive.read_bytes())
    data[data.index(b"seat-100") + 20] ^= 1
    archive.write_bytes(data)
    rest = archive.with_name("rest.jgb")
    code, out, _ = run("archive", str(archive), "--rescue", str(rest))
    assert code == 1 and "  199 of 200 entries, 11542 bytes" in out
    assert "after entry 100 (key 'seat-099'): a record of 71 bytes with a wrong checksum" in out
    with ArchiveReader(rest) as reader:
        assert reader.check().entries == 199 and reader.head.application == "shop"
    code, out, err = run("archive", str(archive), "--rescue", str(rest))
    assert code == 2 and "the file is there" in err
    code, out, err = run("archive", str(archive), str(rest), "--rescue", "new")
    assert code == 2 and "--rescue takes one archive" in err
    code, out, _ = run("archive", str(rest), "--json")
    assert code == 0 and json.loads(out)[0]["versions"] == {"73": 199}
    archive.write_bytes(b"something else")
    code, out, err = run("archive", str(archive))
    assert (code, out) == (2, "") and f"{archive}: it is no archive" in err


def test_many_damages_are_told_in_short(archive: Path, run: Any) -> None:
    data = bytearray(archive.read_bytes())
    for number in range(0, 200, 4):
        data[data.index(f"seat-{number:03}".encode()) + 20] ^= 1
    archive.write_bytes(data)
    code, out, _ = run("archive", str(archive))
    assert code == 1 and "  150 of 200 entries" in out and "  ! and 30 more" in out
    assert len(out.splitlines()) == 24


@pytest.mark.seed("A21", "A22")
def test_entries_are_sorted_for_another_deployment(
    archive: Path, file: str, tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run("repartition", str(archive), "--to", file, "--out", str(tmp_path / "new"))
    assert code == 0 and out.startswith("200 entries with 11600 bytes in 9 buckets of seats\n")
    files = sorted((tmp_path / "new").iterdir())
    assert [path.name for path in files] == ["n1.jgb", "n2.jgb", "n3.jgb"]
    code, out, _ = run("repartition", *map(str, files), "--to", file, "--json")
    told = json.loads(out)
    assert (told["entries"], told["bytes"]) == (200, 11600) and told["files"] == []
    assert sum(node["entries"] for node in told["nodes"].values()) == 400
    code, out, _ = run(
        "repartition", str(archive), "--to", file, "--project", "1100kb", "--within", "1ms"
    )
    assert code == 1 and "longer than 0.001 s" in out
    new = tmp_path / "none"
    code, out, err = run(
        "repartition", str(archive), "--to", file, "--project", "2mb", "--out", str(new)
    )
    assert (code, out) == (2, "") and "11600 bytes, too few to measure a rate" in err
    assert not new.exists()
    monkeypatch.setattr(repartition, "PROJECT_BYTES", 11_600)
    monkeypatch.setattr(buckets_archive, "PROJECT_BYTES", 11_600)
    code, out, _ = run("repartition", str(archive), "--to", file, "--project", "500000gb")
    assert code == 1 and "longer than 10800 s" in out and "in 3 h at this rate" in out
    code, out, _ = run(
        "repartition", str(archive), "--to", file, "--project", "1kb", "--within", "1h"
    )
    assert code == 0 and "1k would need 0 s, within 3600 s" in out
    code, _, err = run("repartition", str(archive), "--to", file, "--project", "0")
    assert code == 2 and "is not at least 1 byte" in err


@pytest.mark.seed("A57")
def test_the_classifier_of_the_new_deployment_decides(
    archive: Path, file: str, tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "seats_of_a_test.py").write_text(PLUGIN)
    for name, problem in (
        ("seats_of_a_test:PLUGIN", ""),
        ("seats_of_a_test:Provider", "seats_of_a_test:Provider is ABCMeta, not a Plugin"),
        ("seats_of_a_test:none", "seats_of_a_test:none is NoneType, not a Plugin"),
        ("no_such_module_here:P", "no_such_module_here cannot be imported: ModuleNotFoundError"),
    ):
        Path(file).write_text(f"application: {name}\n{SEATS}")
        code, out, err = run("repartition", str(archive), "--to", file, "--json")
        if problem:
            assert code == 2 and f"{file}:1:1: application: {problem}" in err
        else:
            assert json.loads(out)["entries_of_a_bucket"] == {"least": 0, "median": 0, "most": 200}
