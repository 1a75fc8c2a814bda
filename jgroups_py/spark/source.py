"""JGroupsDataSource: ``format("jgroups")``."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

import jgroups_py.spark.tree  # noqa: F401 - registers its kind
from jgroups_py.errors import ConfigError
from jgroups_py.spark.kinds import kind_of
from jgroups_py.spark.options import SparkOptions, options_of
from jgroups_py.spark.reading import ChangesReader, ChangesStream, FilteredStateReader, StateReader
from jgroups_py.spark.writing import BatchWriter, StreamWriter


class JGroupsDataSource(DataSource):
    """The data source. Spark makes it in Python workers beside the driver and in executors. See ``jgroups_py.spark``."""

    @classmethod
    def name(cls) -> str:
        return "jgroups"

    @property
    def _checked(self) -> SparkOptions:
        return options_of(dict(self.options))

    def schema(self) -> str:
        options = self._checked
        kind = kind_of(options.kind)
        return kind.changes if options.rows == "changes" else kind.state

    def reader(self, schema: Any) -> DataSourceReader:
        options = self._checked
        if options.rows == "changes":
            return ChangesReader(options, schema)
        return (FilteredStateReader if options.pushdown else StateReader)(options, schema)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        options = self._checked
        if options.rows != "changes":
            raise ConfigError('a stream is one of changes: .option("rows", "changes")')
        return ChangesStream(options, schema)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(self._appending(overwrite), schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(self._appending(overwrite), schema)

    def _appending(self, overwrite: bool) -> SparkOptions:
        if overwrite:
            raise ConfigError(
                'format("jgroups") puts rows: use mode("append"); a row with removed = true removes'
            )
        return self._checked


def register(spark: Any) -> None:
    """Make ``format("jgroups")`` known to a session. Call it in each thread that uses the session, because Spark looks for Python
    data sources at the thread's active session."""
    spark.dataSource.register(JGroupsDataSource)
    type(spark)._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
