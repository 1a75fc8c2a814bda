"""Writers: tasks stage their rows at one member, the commit names the attempts that count.

Staged rows are known by the task's partition and Spark's number of the attempt. So a task that runs again, or twice at once,
counts once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from jgroups_py.errors import ConfigError
from jgroups_py.export.client import Address
from jgroups_py.export.columns import WRITES, pack
from jgroups_py.export.errors import ExportError
from jgroups_py.export.messages import Committed, Marker, StageRows
from jgroups_py.spark.kinds import kind_of
from jgroups_py.spark.options import SparkOptions
from jgroups_py.spark.reading import resolved


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):
    """The staged rows of one attempt of one task, with job and member, because Spark may make the committing writer anew."""

    member: Address
    job: str
    task: int
    attempt: int
    rows: int


class Writing:
    """The base of both writers. It is made where the query is planned, so that a wrong token fails there."""

    def __init__(self, options: SparkOptions, schema: Any) -> None:
        with options.connect() as client:
            self._map, kind = resolved(options, client)
            self._options = replace(options, members=(client.address,))
            self._member = client.address
        kind.encoder(schema)  # refuses a wrong schema at once
        self._kind = kind.name
        self._schema = schema
        self._job = uuid.uuid4().hex

    def stage(self, batches: Iterator[Any]) -> StagedPart:
        """Stage the rows of a task."""
        context = TaskContext.get()
        assert context is not None
        task, attempt = context.partitionId(), context.taskAttemptId()
        encode = kind_of(self._kind).encoder(self._schema)
        with self._options.connect() as client:
            for batch in batches:
                for rows, sizes, body in encode(batch):
                    frame = StageRows(self._map, self._job, task, attempt, rows, sizes, False)
                    client.stage(frame, body)
            sizes, body = pack(WRITES, [[], [], []])
            last = StageRows(self._map, self._job, task, attempt, 0, sizes, True)
            staged = client.stage(last, body)
            return StagedPart(client.address, self._job, task, attempt, staged)

    def finish(self, messages: list[Any], marker: Marker | None) -> None:
        """Commit, in the driver's worker. Now the rows take effect."""
        staged = [message for message in messages if isinstance(message, StagedPart)]
        places = {(part.member, part.job) for part in staged} or {(self._member, self._job)}
        ((member, job),) = places  # the parts of one writer, whose tasks stage at one member
        parts = [(part.task, part.attempt) for part in staged]
        options = replace(self._options, members=(member,))
        with options.connect() as client:
            for said in client.commit(
                self._map,
                job,
                parts,
                replace=options.replace,
                marker=marker,
                skip_equal=options.skip_equal,
            ):
                last = said
        assert isinstance(last, Committed)

    def drop(self, messages: list[Any]) -> None:
        """Drop the staged rows. The member forgets others by itself."""
        jobs = {(m.member, m.job) for m in messages if isinstance(m, StagedPart)}
        for member, job in jobs | {(self._member, self._job)}:
            try:
                with replace(self._options, members=(member,)).connect() as client:
                    client.abort(self._map, job)
            except ExportError:
                pass


class BatchWriter(DataSourceArrowWriter):
    """Writes rows once, or the job fails. The cache throttles it."""

    def __init__(self, options: SparkOptions, schema: Any) -> None:
        self._writing = Writing(options, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._writing.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writing.finish(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writing.drop(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch once: its number is written with it, under the name of the query."""

    def __init__(self, options: SparkOptions, schema: Any) -> None:
        if not options.query:
            raise ConfigError(
                "option query is missing: a name for this query, the same after a restart, under which "
                "the cache remembers its last batch"
            )
        self._query = options.query
        self._writing = Writing(options, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._writing.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._writing.finish(messages, Marker(self._query, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._writing.drop(messages)
