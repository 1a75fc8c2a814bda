"""What one owner has still to tell one other site, by number. The values are in the nodes."""

from __future__ import annotations

from jgroups_py.buddy.values import Path


class Outbox:
    """``n``: the last number given. ``todo``: to be sent, with the log entry that must be safe before;
    ``flying``: sent, not acknowledged. Both in the order of their numbers, all of ``flying`` before all
    of ``todo``. ``bar``: the last number given by a bootstrap."""

    __slots__ = ("_at", "bar", "flying", "n", "since", "todo")

    def __init__(self) -> None:
        self.n = 0
        self.bar = 0
        self.todo: dict[int, tuple[tuple[Path, ...], int]] = {}
        self.flying: dict[int, tuple[Path, ...]] = {}
        self._at: dict[Path, int] = {}
        """Under which number a path is in ``todo``: under one, so that it is as long as there are nodes."""
        self.since = 0.0
        """When something was acknowledged, or began to wait for that."""

    @property
    def waiting(self) -> int:
        """Nodes that are to be sent or not acknowledged, at least as many as are unsent."""
        return len(self._at) + sum(map(len, self.flying.values()))

    def add(self, paths: tuple[Path, ...], seq: int) -> int:
        """The next event: to be sent when all holders have log entry ``seq``."""
        self.n += 1
        for path in paths:
            self.drop(path)
            self._at[path] = self.n
        self.todo[self.n] = (paths, seq)
        return self.n

    def drop(self, path: Path) -> None:
        """Not to be sent under the number it has."""
        n = self._at.pop(path, None)
        if n is None:
            return
        paths, seq = self.todo[n]
        if len(paths) == 1:
            del self.todo[n]
        else:
            self.todo[n] = (tuple(p for p in paths if p != path), seq)

    def next(self, acked: int) -> tuple[int, tuple[Path, ...]] | None:
        """Takes the next event; None: there is none whose log entry is safe."""
        for n, (paths, seq) in self.todo.items():
            if seq > acked:
                break
            del self.todo[n]
            for path in paths:
                del self._at[path]
            return n, paths
        return None

    def again(self) -> None:
        """Whatever was sent may be lost."""
        flying, self.flying = self.flying, {}
        last = {path: n for n, paths in flying.items() for path in paths} | self._at
        sent = {}
        for n, paths in flying.items():
            rest = tuple(path for path in paths if last[path] == n)
            if rest:
                sent[n] = (rest, 0)
        self.todo = sent | self.todo
        self._at = last
