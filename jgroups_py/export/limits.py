"""Limits of an export port."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ExportLimits:
    """Sizes are bytes, times seconds."""

    connections_max: int = 64
    """The most clients at once that have proved that they know the token. Further ones are refused."""
    lobby_max: int = 16
    """The most clients at once that have not proved it yet. For a further one the first is disconnected."""
    lobby_per_host: int = 8
    """The most such clients of one address."""
    lobby_waiting_max: int = 64
    """The most clients that wait for a place in the lobby. For a further one, the client that has waited longest is
    disconnected."""
    lobby_patience: float = 1.0
    """A client keeps its place for this long, even if others want it."""
    hello_timeout: float = 5.0
    """The longest time until a client has proved that it knows the token."""
    idle_timeout: float = 900.0
    """The longest time for which a client may be silent, or not read its answers."""
    frame_rows: int = 8192
    """The most rows of one frame. The cache's loop makes them in one step of about 20 ms."""
    frame_bytes: int = 1_000_000
    """A frame ends after this many bytes. A single larger row is still sent."""
    log_bytes: int = 64_000_000
    """The most bytes of names and values in the change log. The oldest changes go first."""
    log_changes: int = 1_000_000
    """The most changes in the change log."""
    log_origins: int = 1000
    """The most owners whose change logs are kept, with buddies. Owners that are gone count; of these the first known
    ones are dropped first."""
    behind_wait: float = 10.0
    """The longest time that a reader from another member waits until this member has seen the same changes."""
    snapshots_max: int = 32
    """The most open snapshots. A snapshot costs the changes since, and a pointer for each node."""
    snapshot_min: float = 10.0
    """When there are too many snapshots, the one that was not read for longest is closed if it was not read for this long."""
    snapshot_ttl: float = 600.0
    """A snapshot that was not read for this long is closed."""
    stage_bytes: int = 4_000_000_000
    """The most bytes of bulk writes that wait for their commit."""
    stage_memory: int = 256_000_000
    """The most of these bytes that are made ready in memory, where short rows take about four times as much. The others wait
    in temporary files."""
    jobs_max: int = 100
    """The most bulk writes that are known at once. Done ones make room, the oldest first. A commit of a forgotten one is
    refused."""
    job_ttl: float = 3600.0
    """A bulk write that no client asked about for this long is forgotten, with its staged rows."""
    write_nodes: int = 500
    """The most nodes of one batch of a bulk write."""
    write_ahead: int = 4
    """The most batches of one bulk write under way at once. The cache's own back-pressure also holds them up."""
    atomic_nodes: int = 10_000
    """A bulk write with a marker and at most this many nodes is one batch: all of it takes effect or nothing."""
