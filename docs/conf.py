"""Sphinx settings. `make docs` builds build/docs/html, offline."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import generate  # the pages below reference/ come from the sources

project = "jgroups_py"
copyright = "the authors of jgroups_py, Apache-2.0"
release = importlib.metadata.version("jgroups_py")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["README.md"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings: list[str] = []
autodoc_typehints = "description"
autodoc_member_order = "bysource"
html_theme = "furo"
html_title = f"jgroups_py {release}"
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
highlight_language = "text"  # a block without a language shows output
html_show_sphinx = False

generate.write(Path(__file__).parent / "reference")
