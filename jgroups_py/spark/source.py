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
from jgroups_py.spark import maps
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

    @property
    def _map(self) -> maps.MapSourceOptions | None:
        """The options of a kind that is read from a folder. None: the kind is read at a port."""
        given = dict(self.options)
        if given.get("kind") != maps.KIND:
            return None
        return maps.map_options_of(given)

    def schema(self) -> str:
        of_map = self._map
        if of_map is not None:
            return maps.schema_of(of_map)
        options = self._checked
        kind = kind_of(options.kind)
        return kind.changes if options.rows == "changes" else kind.state

    def reader(self, schema: Any) -> DataSourceReader:
        of_map = self._map
        if of_map is not None:
            changes = of_map.rows == "changes"
            return (maps.MapChangesReader if changes else maps.MapStateReader)(of_map, schema)
        options = self._checked
        if options.rows == "changes":
            return ChangesReader(options, schema)
        return (FilteredStateReader if options.pushdown else StateReader)(options, schema)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        of_map = self._map
        options = of_map or self._checked
        if options.rows != "changes":
            raise ConfigError('a stream is one of changes: .option("rows", "changes")')
        if isinstance(options, SparkOptions):
            return ChangesStream(options, schema)
        return maps.MapChangesStream(options, schema)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(self._appending(overwrite), schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(self._appending(overwrite), schema)

    def _appending(self, overwrite: bool) -> SparkOptions:
        if self._map is not None:
            raise ConfigError(
                "a map is not written by the data source: open it in foreachPartition, with jgroups_py.blocking.open_map"
            )
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
