"""Files and folders that pages and notes name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("design/*.md")])
    # Paths of former versions and of runs; docs/reference is generated.
    if page.name not in ("CHANGELOG.md", "mutants.md", "mutants-random.md")
    and "reference" not in page.parts
]
NAMED = re.compile(
    r"`((?:tests|jgroups_py|protocols|tools|design|stacks|examples)/[A-Za-z0-9_/.*-]+)"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_paths_exist(page: Path) -> None:
    named = {path.rstrip(".") for path in NAMED.findall(page.read_text(encoding="utf-8"))}
    missing = [
        path
        for path in sorted(named)
        if not any(
            next(folder.glob(path.rstrip("/")), None) for folder in (ROOT, ROOT / "jgroups_py")
        )
    ]
    assert missing == []
