"""A folder of files, one for each coordinator, which FILE_PING reads and writes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from jgroups_py.driver.directories.asking import DirectoryProblem
from jgroups_py.stack.directories import (
    FolderContents,
    OpenFolder,
    ReadFolder,
    RemoveFiles,
    WriteFile,
)

_PLAIN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
"""A pipe of that name must not keep us waiting, and links are not followed."""


def answer(request: OpenFolder | ReadFolder | WriteFile | RemoveFiles) -> Any:
    """Carry out a request."""
    folder = _folder(request.location, request.cluster)
    match request:
        case OpenFolder():
            _open(request.location, folder)
            return None
        case ReadFolder():
            return _read(request, folder)
        case WriteFile(name=name, data=data):
            _write(folder, name, data)
            return None
        case RemoveFiles():
            _remove(request, folder)
            return None


def _folder(location: str, cluster: str) -> Path:
    if cluster in ("", ".", "..") or any(char in cluster for char in "/\\\0"):
        raise DirectoryProblem(
            f'a cluster named "{cluster}" cannot have a folder below location; take a name without / and \\',
            final=True,
        )
    return Path(location) / cluster


def _open(location: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", str(folder))
    except OSError as error:
        place = error.filename or str(folder)
        raise DirectoryProblem(
            f'location must be a folder that this process may write to or make, got "{location}": {place}: '
            f"{error.strerror}",
            final=True,
        ) from None


def _read(request: ReadFolder, folder: Path) -> FolderContents:
    names = sorted(name for name in os.listdir(folder) if name.endswith(request.suffix))
    refused = max(0, len(names) - request.max_files)
    files, left = [], request.max_total
    for name in names[: request.max_files]:
        try:
            data = _contents(folder / name, min(request.max_size, left))
        except FileNotFoundError:
            continue  # its member has left meanwhile
        except OSError:
            data = None
        if data is None:
            refused += 1
        else:
            left -= len(data)
            files.append((name, data))
    return FolderContents(tuple(files), refused)


def _contents(file: Path, most: int) -> bytes | None:
    handle = os.open(file, _PLAIN)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        parts, size = [], 0
        while size <= most and (part := os.read(handle, most + 1 - size)):
            parts.append(part)
            size += len(part)
        return b"".join(parts) if size <= most else None
    finally:
        os.close(handle)


def _write(folder: Path, name: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".{name}.{os.getpid()}.new"  # a name that readers skip
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(new, folder / name)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _remove(request: RemoveFiles, folder: Path) -> None:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(request.suffix) and name.startswith(request.prefixes) != request.but:
            (folder / name).unlink(missing_ok=True)
