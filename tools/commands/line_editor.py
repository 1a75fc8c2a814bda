"""LineEditor: a line that is typed on a terminal. It takes keys and has text and cursor. It neither reads nor prints.

Commands use it that print while a user types: the caller erases the line, prints, and shows it again.

    printable keys, Backspace, Delete       change the text at the cursor
    Left, Right, Home, End, ^A ^E ^B ^F     move the cursor
    ^U ^K ^W                                erase to the begin, to the end, the word before
    Up, Down, ^P ^N                         the lines typed before (at most HISTORY_MAX)
    Enter                                   the line is complete
    ^D on an empty line                     the end of the input
"""

from __future__ import annotations

import codecs
from collections import deque
from typing import Final

from rich.cells import cell_len

HISTORY_MAX: Final = 1000
"""The most lines that Up brings back."""
TEXT_MAX: Final = 65_536
"""The most characters of a line. Further ones are not taken."""
_ESCAPE_MAX: Final = 16
_KEYS: Final = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x10": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x0e": "down",
    "\x1b[C": "right",
    "\x1bOC": "right",
    "\x06": "right",
    "\x1b[D": "left",
    "\x1bOD": "left",
    "\x02": "left",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x01": "home",
    "\x1b[F": "end",
    "\x1bOF": "end",
    "\x1b[4~": "end",
    "\x05": "end",
    "\x1b[3~": "delete",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x15": "kill_before",
    "\x0b": "kill_after",
    "\x17": "kill_word",
}


class LineEditor:
    """``feed`` takes the bytes of a terminal. ``shown`` returns the visible part of its line."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        """The index in ``text`` before which the next character is put."""
        self.ended = False
        """True after ^D on an empty line."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._escape = ""
        self._history: deque[str] = deque(maxlen=HISTORY_MAX)
        self._back = 0
        self._draft = ""

    def feed(self, data: bytes) -> list[str]:
        """Take keys. Return the lines that they complete."""
        lines = []
        for character in self._decoder.decode(data):
            if self._escape:
                self._on_escape(character)
            elif character in "\r\n":
                lines.append(self._enter())
            elif character == "\x04" and not self.text:
                self.ended = True
            elif character == "\x1b":
                self._escape = character
            elif character in _KEYS:
                self._press(_KEYS[character])
            elif character.isprintable() and len(self.text) < TEXT_MAX:
                self._replace(self.cursor, self.cursor, character)
        return lines

    def shown(self, prompt: str, width: int) -> tuple[str, int]:
        """Return the line as it fits into ``width`` columns, and the columns from its begin to the cursor.

        Of a longer line it is the part around the cursor."""
        room = max(1, width - 1 - cell_len(prompt))
        begin = 0
        while cell_len(self.text[begin : self.cursor]) > room:
            begin += 1
        end = len(self.text)
        while cell_len(self.text[begin:end]) > room:
            end -= 1
        before = cell_len(prompt) + cell_len(self.text[begin : self.cursor])
        return prompt + self.text[begin:end], before

    def _enter(self) -> str:
        line, self.text, self.cursor, self._back = self.text, "", 0, 0
        if line and (not self._history or self._history[-1] != line):
            self._history.append(line)
        return line

    def _on_escape(self, character: str) -> None:
        """Take one more character of a key that sends several. Unknown keys do nothing."""
        self._escape += character
        if len(self._escape) == 2 and character in "[O":
            return
        if character.isalpha() or character == "~" or len(self._escape) > _ESCAPE_MAX:
            key = _KEYS.get(self._escape)
            self._escape = ""
            if key is not None:
                self._press(key)
        elif len(self._escape) == 2:
            self._escape = ""

    def _press(self, key: str) -> None:
        at, length = self.cursor, len(self.text)
        match key:
            case "up" | "down":
                self._recall(1 if key == "up" else -1)
            case "left" | "right":
                self.cursor = min(length, max(0, at + (1 if key == "right" else -1)))
            case "home" | "end":
                self.cursor = 0 if key == "home" else length
            case "backspace":
                self._replace(max(0, at - 1), at)
            case "delete":
                self._replace(at, at + 1)
            case "kill_before":
                self._replace(0, at)
            case "kill_after":
                self._replace(at, length)
            case "kill_word":
                kept = self.text[:at].rstrip()
                self._replace(kept.rfind(" ") + 1, at)

    def _replace(self, begin: int, end: int, text: str = "") -> None:
        self.text = self.text[:begin] + text + self.text[end:]
        self.cursor = begin + len(text)

    def _recall(self, step: int) -> None:
        back = min(len(self._history), max(0, self._back + step))
        if self._back == 0:
            self._draft = self.text
        self._back = back
        self.text = self._history[-back] if back else self._draft
        self.cursor = len(self.text)
