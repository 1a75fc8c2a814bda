"""Several processes that give a full map more room at once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from full_maps import LARGE, SMALL, fill, other, until_merged

from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile


@pytest.mark.usefixtures("patient_puts")
def test_two_that_give_it_more_room_at_once_harm_nothing(tmp_path: Path) -> None:
    settings = FileSettings(max_bytes=SMALL, inbox_bytes=1 << 18, full_timeout=60.0)
    with closing(SharedFile(tmp_path / "m", settings)) as shared:
        fill(shared)
        sizes = [LARGE, LARGE // 2]
        others = [other(tmp_path / "m", s, f"o{n}") for n, s in enumerate(sizes)]
        for one in others:
            one.communicate(timeout=120)
            assert one.returncode == 0
        until_merged(shared)
        assert all(shared.get(b"o%d" % number) == b"value" for number in range(2))
    with closing(SharedFile(tmp_path / "m")) as shared:
        assert shared.max_bytes() == LARGE
