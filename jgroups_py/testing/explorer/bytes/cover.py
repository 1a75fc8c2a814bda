"""The way of an input through our code: pairs of lines that ran one after the other.

``sys.settrace`` makes code some twenty times slower; that is why work.py traces a share of the inputs only.
Frames of other packages are not traced, nor is this one. A pair is a number that is the same in every process
and every run.

Lines of compiled modules (setup.py) are not seen, only those of plain modules that call them. So explore bytes with plain Python.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import jgroups_py

_ROOT: Final = str(Path(jgroups_py.__file__).parent)
_OURSELVES: Final = str(Path(__file__).parent)
_FILE_BITS: Final = 24
_LINE_BITS: Final = 16
_MIX: Final = 0x9E3779B97F4A7C15  # the golden ratio's bits: neighbours end far apart
_MASK: Final = (1 << 62) - 1

Edges = set[int]


class Cover:
    """Collects the pairs of lines of the code that runs inside ``watch``."""

    def __init__(self) -> None:
        self._files: dict[CodeType, int] = {}
        self._last = 0
        self._edges: Edges = set()

    def watch(self, run: Callable[[], object]) -> Edges:
        """Call ``run``, whose exceptions go on; the pairs are those up to then."""
        before = sys.gettrace()
        edges: Edges = set()
        self._edges = edges
        self._last = 0
        sys.settrace(self._on_call)
        try:
            run()
        finally:
            sys.settrace(before)
        return edges

    @property
    def edges(self) -> Edges:
        """The edges of the last ``watch``, also when it ended with an exception."""
        return self._edges

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        base = self._files.get(code)
        if base is None:
            base = self._files[code] = _number(code.co_filename)
        return self._on_line if base else None

    def _on_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            here = self._files[frame.f_code] + frame.f_lineno
            self._edges.add((self._last * _MIX ^ here) & _MASK)
            self._last = here
        return self._on_line


def _number(filename: str) -> int:
    """Return the number of a file of ours, in the upper bits; 0 for any other file."""
    path = filename.replace("\\", "/")
    if not path.startswith(_ROOT) or path.startswith(_OURSELVES):
        return 0
    name = path[len(_ROOT) :]
    return (zlib.crc32(name.encode()) & (1 << _FILE_BITS) - 1 | 1) << _LINE_BITS
