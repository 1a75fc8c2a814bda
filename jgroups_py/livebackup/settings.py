"""Settings of a node, and the operations that it starts itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from jgroups_py.errors import ConfigError
from jgroups_py.livebackup.confirming import RULES, Rule

Mode = Literal["parallel", "one_at_a_time"]
MODES: Final[tuple[Mode, ...]] = ("parallel", "one_at_a_time")


@dataclass(frozen=True, kw_only=True)
class LiveBackupSettings:
    """Settings of a node, the same on all nodes. Times are seconds."""

    confirm: Rule = "all"
    """The confirmations needed to answer a client: of "all" backups, of the "first", or of a "quorum": a majority with
    the live node."""
    backups_min: int = 0
    """The least backups for answering clients. 0: a live node without backups answers at once."""
    quorum: int = 0
    """The least size of a view with a live node, this one included. A live node in a smaller view confirms no more
    operations. 0: any view has a live node, so both sides of a cut network have one."""
    mode: Mode = "parallel"
    """"one_at_a_time" is the reference (P1): each operation runs on the backup, then on the live node, then comes the next one."""
    lag_operations: int = 10_000
    """The most operations by which the slowest backup may lag. Beyond this new operations wait."""
    lag_bytes: int = 64_000_000
    """The most bytes of operations by which the slowest backup may lag."""
    lag_seconds: float = 10.0
    """The greatest age of an operation that the slowest backup has not confirmed."""
    lag_aim: float = 0.05
    """The wanted greatest lag of a backup, in seconds. When an object's lag is half of it, operations that begin with
    that object wait. Two of each object never wait, so long changes are not slowed. A backup without processor time may
    lag more. With "first" and "quorum" only the backups count that clients wait for. 0: no aim."""
    checksum_every: int = 0
    """After this many changes of an object a backup compares its checksum with the live node's, to find operations that
    act differently. Both sides encode the whole object for that. 1: at each change. 0: never."""
    readable: bool = False
    """Backups can be read (``Node.read``). They copy the object before each change for that, ``undone_by`` or not."""
    processes: int = 0
    """Processes that own the objects of kinds with ``runs_in = "process"``. 0: one for each processor."""
    abandon_timeout: float = 5.0
    """The time that a backup without its live node waits for operations that still run (P13). Then they are cancelled
    and reversed."""
    snapshot_wait: float = 30.0
    """The longest time that a snapshot waits for the operations that run when it is asked for, and then for those that
    have begun since. New ones wait during the latter. Beyond this the joiner asks again, and the log names the operation
    that has run longest."""

    def __post_init__(self) -> None:
        if self.confirm not in RULES:
            raise ConfigError(f'confirm must be one of {", ".join(RULES)}, got "{self.confirm}"')
        if self.mode not in MODES:
            raise ConfigError(f'mode must be one of {", ".join(MODES)}, got "{self.mode}"')
        if self.checksum_every and self.mode != "parallel":
            raise ConfigError(
                f'checksum_every must be 0 with mode "{self.mode}", got {self.checksum_every}'
            )
        if self.readable and self.mode != "parallel":
            raise ConfigError(f'readable must be false with mode "{self.mode}"')
        for name in ("backups_min", "quorum", "checksum_every", "processes"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("lag_operations", "lag_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.lag_aim >= 0:
            raise ConfigError(f"lag_aim must be at least 0 seconds, got {self.lag_aim}")
        for name in ("lag_seconds", "abandon_timeout", "snapshot_wait"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0 seconds, got {getattr(self, name)}")


@dataclass(frozen=True)
class Every:
    """An operation that the live node starts itself, each ``seconds`` (P4): delivery, paging, expiry. Its errors are
    logged and counted."""

    seconds: float
    operation: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ConfigError(f"an interval must be more than 0 seconds, got {self.seconds}")
