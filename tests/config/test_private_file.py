"""Files with secrets: their owners and modes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jgroups_py.config.private_file import read_private
from jgroups_py.errors import ConfigError


def is_read(file: Path, mode: int) -> bool:
    file.chmod(mode)
    try:
        found = read_private(str(file), 100)
    except ConfigError:
        return False
    assert found is not None
    return found.data == b"secret"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"secret")
    return path


def test_only_its_owner_may_read_a_secret(file: Path) -> None:
    accepted = {mode for mode in range(0o400, 0o1000) if mode & 0o400 and is_read(file, mode)}
    assert accepted == {0o400, 0o500, 0o600, 0o700}


def test_a_group_may_read_a_secret_that_root_has_mounted_for_another_user(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes does so with ``fsGroup``: the file belongs to root, has mode 0440, and another user reads it."""

    def mounted(handle: int) -> os.stat_result:
        found = os.stat(handle)
        return os.stat_result((found.st_mode, *found[1:4], 0, *found[5:10]))

    monkeypatch.setattr(os, "fstat", mounted)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    assert is_read(file, 0o440) and is_read(file, 0o640)
    assert not is_read(file, 0o460) and not is_read(file, 0o444) and not is_read(file, 0o450)
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # root needs no group
    assert not is_read(file, 0o440)
