"""The folder itself: whole files or none, and no file keeps a reader waiting or leads it to another place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jgroups_py.driver.directories import DirectoryProblem
from jgroups_py.driver.directories.folder import answer
from jgroups_py.stack.directories import (
    FolderContents,
    OpenFolder,
    ReadFolder,
    RemoveFiles,
    WriteFile,
)


def read(location: Path, *, files: int = 10, size: int = 100, total: int = 1000) -> FolderContents:
    found = answer(ReadFolder(str(location), "demo", ".list", files, size, total))
    assert isinstance(found, FolderContents)
    return found


@pytest.fixture
def location(tmp_path: Path) -> Path:
    answer(OpenFolder(str(tmp_path), "demo"))
    return tmp_path


def test_a_folder_is_made(tmp_path: Path) -> None:
    answer(OpenFolder(str(tmp_path / "a" / "b"), "demo"))
    assert (tmp_path / "a" / "b" / "demo").is_dir()
    answer(OpenFolder(str(tmp_path / "a" / "b"), "demo"))


def test_a_written_row_is_read_and_removed(location: Path) -> None:
    for name in ("b.x.list", "a.x.list", "c.list"):
        answer(WriteFile(str(location), "demo", name, name.encode()))
    answer(WriteFile(str(location), "demo", "c.list", b"new"))
    (location / "demo" / "note.txt").write_text("not ours")
    assert read(location).files == (
        ("a.x.list", b"a.x.list"),
        ("b.x.list", b"b.x.list"),
        ("c.list", b"new"),
    )
    answer(RemoveFiles(str(location), "demo", ".list", ("a.", "c.")))
    assert [name for name, _ in read(location).files] == ["b.x.list"]
    answer(WriteFile(str(location), "demo", "d.list", b""))
    answer(RemoveFiles(str(location), "demo", ".list", ("b.",), but=True))
    assert sorted(os.listdir(location / "demo")) == ["b.x.list", "note.txt"]


@pytest.mark.parametrize("cluster", ["", "..", ".", "a/b", "a\\b", "a\0b"])
def test_a_cluster_whose_name_leads_out_of_the_folder_is_refused(
    tmp_path: Path, cluster: str
) -> None:
    with pytest.raises(DirectoryProblem, match="cannot have a folder below location") as caught:
        answer(OpenFolder(str(tmp_path), cluster))
    assert caught.value.final


def test_a_location_that_is_a_file_is_told_with_its_value(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(
        DirectoryProblem, match=f'location must be a folder.*got "{file}"'
    ) as caught:
        answer(OpenFolder(str(file), "demo"))
    assert caught.value.final


def test_too_many_and_too_large_files_are_not_read(location: Path) -> None:
    for number in range(5):
        answer(WriteFile(str(location), "demo", f"{number}.list", b"x" * 40))
    answer(WriteFile(str(location), "demo", "0.list", b"x" * 101))
    found = read(location, files=4)
    assert [name for name, _ in found.files] == ["1.list", "2.list", "3.list"]
    assert found.refused == 2
    found = read(location, total=90)
    assert len(found.files) == 2 and found.refused == 3


@pytest.mark.timeout(10)
def test_pipes_links_and_folders_are_passed_over(location: Path) -> None:
    folder = location / "demo"
    os.mkfifo(folder / "pipe.list")
    (folder / "folder.list").mkdir()
    (location / "secret").write_text("secret")
    (folder / "link.list").symlink_to(location / "secret")
    answer(WriteFile(str(location), "demo", "a.list", b"a"))
    found = read(location)
    assert found.files == (("a.list", b"a"),)
    assert found.refused == 3


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_rest(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(WriteFile(str(location), "demo", "a.list", b"old"))

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        answer(WriteFile(str(location), "demo", "a.list", b"new"))
    assert read(location).files == (("a.list", b"old"),)
    assert os.listdir(location / "demo") == ["a.list"]


def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(location: Path) -> None:
    target = location / "target"
    target.write_text("keep")
    (location / "demo" / "a.list").symlink_to(target)
    answer(WriteFile(str(location), "demo", "a.list", b"new"))
    assert target.read_text() == "keep"
    assert read(location).files == (("a.list", b"new"),)
