"""What an export port keeps and waits for at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ExportLimits:
    """Sizes are bytes, times seconds."""

    connections_max: int = 64
    """Clients at once; more are told so and let go."""
    hello_timeout: float = 5.0
    """Until a client has proved that it knows the token."""
    idle_timeout: float = 900.0
    """How long a client may say nothing, or take nothing of what it asked for."""
    frame_rows: int = 8192
    """Rows of one frame: the cache's loop makes them in one go, about 20 ms of it."""
    frame_bytes: int = 1_000_000
    """A frame ends after so many bytes; a single larger row is still sent."""
    log_bytes: int = 64_000_000
    """Change log: names and values of the changes kept. The oldest go first."""
    log_changes: int = 1_000_000
    """Change log: changes kept."""
    log_origins: int = 1000
    """Change logs of a cache with buddies: owners, those that are gone included, of which the first known go first."""
    behind_wait: float = 10.0
    """How long a reader that comes from another member waits until this one has seen what it has."""
    snapshots_max: int = 32
    """Snapshots open at once. One costs what was changed since, and a pointer for each node."""
    snapshot_min: float = 10.0
    """When there are too many, the one that was not read for longest is closed, if for so long."""
    snapshot_ttl: float = 600.0
    """A snapshot nobody has read for so long is closed."""
    stage_bytes: int = 4_000_000_000
    """Rows of bulk writes that wait for their commit."""
    stage_memory: int = 256_000_000
    """Of these so many bytes are made ready in memory (where short rows take about four times as much); the
    others wait in temporary files."""
    jobs_max: int = 100
    """Bulk writes known at once. Those that are done make room, the oldest first; who asks for the commit
    of one that is forgotten is told so."""
    job_ttl: float = 3600.0
    """A bulk write nobody has asked about for so long is forgotten, with what was staged."""
    write_nodes: int = 500
    """Nodes of one batch of a bulk write."""
    write_ahead: int = 4
    """Batches of one bulk write under way at once; the cache's own back-pressure holds them up."""
    atomic_nodes: int = 10_000
    """A bulk write with a marker and at most so many nodes is one batch: all or nothing."""
