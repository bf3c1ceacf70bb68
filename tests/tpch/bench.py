"""A lake with the queries of TPC-H as stream tables, and DuckDB, which sees the same changes."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

import spark_trickle
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.tpch import churn, queries
from spark_trickle.tpch.schema import TABLES
from support.watched import contents
from tpch.oracle import Oracle, compare
from tpch.settings import CHURN, SCALE, SEED

LIMITED = {2, 3, 10, 18, 21}


class Bench:
    """A lake and its judge, which see the same changes."""

    def __init__(self, lake: spark_trickle.Lake, oracle: Oracle) -> None:
        self.lake = lake
        self.oracle = oracle
        self.cycle = 0
        self._churn = churn.Churn(SCALE, CHURN, SEED, every_table=True)
        self._failures: list[str] = []

    def ensure(self, numbers: Iterable[int], mode: str = "DIFFERENTIAL", suffix: str = "") -> None:
        """Make the stream tables that are not there yet."""
        there = {info.name for info in self.lake.stream_tables()}
        for number in numbers:
            name = queries.name(number) + suffix
            if name not in there:
                report = self.lake.create_stream_table(
                    name, queries.text(number), refresh_mode=mode
                )
                assert report is not None
                self.check(number, report)
        self.verdict()

    def change(self) -> None:
        """The next cycle, in the lake and beside it."""
        self.cycle += 1
        for batch in self._churn.cycle(self.cycle):
            churn.apply(self.lake, batch)
            self.oracle.follow([batch])

    def refresh(self, number: int) -> RefreshReport:
        report = self.lake.refresh_stream_table(queries.name(number))
        self.check(number, report)
        self.check_mode(number, report)
        return report

    def check(self, number: int, report: RefreshReport) -> None:
        """The contents are exact."""
        difference = compare(self.rows(report.name), self.oracle.run(queries.text(number)))
        if not difference.same:
            self.fail(number, report, str(difference))

    def check_mode(self, number: int, report: RefreshReport) -> None:
        """The contents were made incrementally."""
        wanted = "TOPK" if number in LIMITED else "DIFFERENTIAL"
        if report.effective_mode != wanted:
            self.fail(number, report, f"  the effective mode should be {wanted}")

    def rows(self, name: str) -> pa.Table:
        return contents(self.lake, name)

    def check_tables(self) -> None:
        """The base tables are those that DuckDB has."""
        for table in TABLES:
            difference = self.oracle.table_difference(table.name, self.rows(table.name))
            assert difference.same, f"{table.name}\n{difference}"

    def fail(self, number: int, report: RefreshReport, why: str) -> None:
        self._failures.append(
            f"{queries.name(number)}, cycle {self.cycle}, "
            f"effective mode {report.effective_mode}\n{why}\n  {report}"
        )

    def verdict(self) -> None:
        """Fail with everything that was found wrong since the last time."""
        found, self._failures = self._failures, []
        assert not found, "\n\n".join(found)
