"""What a user would do instead: recompute the query over clean Parquet files of the same tables.

After the changes of a cycle the tables are exported, outside of what is timed. Plain Spark runs the
query's text over them and overwrites its result, in a session that has none of our settings; DuckDB
does the same over the same files.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_trickle.lake import Lake
from spark_trickle.tpch.schema import TABLES

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import SparkSession

PLAIN, DUCKDB = "PLAIN", "DUCKDB"


@dataclass
class Opponents:
    """Both of them, at the tables as they were when exported last."""

    lake: Lake
    folder: Path
    spark: SparkSession = field(init=False)
    duck: Any = field(init=False)
    """A connection; None if DuckDB is not installed."""

    def __post_init__(self) -> None:
        self.spark = _plain(self.lake.spark)
        self.duck = _duckdb()
        self._cycle = 0

    @property
    def names(self) -> tuple[str, ...]:
        return (PLAIN,) if self.duck is None else (PLAIN, DUCKDB)

    def export(self) -> None:
        """Write the tables as they are now; a folder for each time, so that nobody keeps old files."""
        old, self._cycle = self._tables, self._cycle + 1
        for table in TABLES:
            path = self._tables / table.name
            self.lake.table(table.name).write.mode("overwrite").parquet(str(path))
            self.spark.read.parquet(str(path)).createOrReplaceTempView(table.name)
            if self.duck is not None:
                files = f"{path}/*.parquet"
                self.duck.execute(
                    f"CREATE OR REPLACE VIEW {table.name} AS SELECT * FROM read_parquet('{files}')"
                )
        shutil.rmtree(old, ignore_errors=True)

    def seconds(self, name: str, query: str) -> float:
        """How long it takes one of them to replace a stored result."""
        target = str((self.folder / name.lower()).resolve())
        started = time.perf_counter()
        if name == PLAIN:
            self.spark.sql(query).write.mode("overwrite").parquet(target)
        else:
            self.duck.execute(f"COPY ({query}) TO '{target}.parquet' (FORMAT parquet)")
        return time.perf_counter() - started

    @property
    def _tables(self) -> Path:
        return (self.folder / f"tables{self._cycle}").resolve()


def _plain(ours: SparkSession) -> SparkSession:
    """A session of the same Spark with the defaults of Spark SQL."""
    plain = ours.newSession()
    for key in dict(plain.conf.getAll):
        if key.startswith("spark.sql.") and plain.conf.isModifiable(key):
            plain.conf.unset(key)
    return plain


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        return None
    return duckdb.connect(":memory:")
