"""What a benchmark run found: medians by query, the table, and the record that is kept."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from spark_trickle.tpch import queries
from spark_trickle.tpch.bench import BY_DELTA, CHOSEN, IN_FULL, QUERY, BenchOptions, Measurement
from spark_trickle.tpch.opponents import DUCKDB, PLAIN


@dataclass(frozen=True)
class Line:
    """One query: medians over the cycles."""

    query: int
    plain: float | None
    """Seconds of plain Spark over clean files, if that was measured."""
    duckdb: float | None
    full: float | None
    """Seconds of a FULL refresh, if that was measured."""
    differential: float
    auto: float | None
    bare: float | None
    """Seconds of the query by itself, if that was measured."""
    effective_mode: str
    """What ran when DIFFERENTIAL was asked for; several if cycles differ."""
    auto_mode: str
    delta_rows: int
    rows: tuple[int, int]
    """Rows read: in full, by deltas."""
    bytes: tuple[int, int]
    spark_queries: tuple[int, int]

    @property
    def instead(self) -> float:
        """Seconds of what a user would do instead, as far as that was measured."""
        known = (seconds for seconds in (self.plain, self.full) if seconds is not None)
        return next(known, self.differential)

    @property
    def ratio(self) -> float | None:
        """How many times faster than FULL."""
        return None if self.full is None else self.full / self.differential

    @property
    def full_to_plain(self) -> float | None:
        """How many times slower FULL is than plain Spark."""
        return None if self.plain is None or self.full is None else self.full / self.plain

    @property
    def plain_ratio(self) -> float | None:
        """How many times faster than plain Spark."""
        return None if self.plain is None else self.plain / self.differential

    @property
    def duckdb_ratio(self) -> float | None:
        """How many times faster than DuckDB."""
        return None if self.duckdb is None else self.duckdb / self.differential

    @property
    def bare_ratio(self) -> float | None:
        """How many times faster than the query by itself."""
        return None if self.bare is None else self.bare / self.differential

    @property
    def auto_ratio(self) -> float | None:
        return None if self.auto is None or self.full is None else self.full / self.auto


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def lines(measured: Sequence[Measurement]) -> list[Line]:
    """The medians, in the order of the queries."""
    return [_line(measured, number) for number in sorted({m.query for m in measured})]


def _line(measured: Sequence[Measurement], number: int) -> Line:
    by_mode = {
        mode: [m for m in measured if m.query == number and m.mode == mode]
        for mode in (BY_DELTA, IN_FULL, CHOSEN, QUERY, PLAIN, DUCKDB)
    }
    full, delta, auto = by_mode[IN_FULL], by_mode[BY_DELTA], by_mode[CHOSEN]
    return Line(
        number,
        _seconds(by_mode[PLAIN]),
        _seconds(by_mode[DUCKDB]),
        _seconds(full),
        _median([m.seconds for m in delta]),
        _seconds(auto),
        _seconds(by_mode[QUERY]),
        "/".join(sorted({m.effective_mode for m in delta})),
        "/".join(sorted({m.effective_mode for m in auto})),
        int(_median([m.delta_rows for m in delta])),
        _both([m.rows_read for m in full], [m.rows_read for m in delta]),
        _both([m.bytes_read for m in full], [m.bytes_read for m in delta]),
        _both([m.spark_queries for m in full], [m.spark_queries for m in delta]),
    )


def _seconds(measured: Sequence[Measurement]) -> float | None:
    return _median([m.seconds for m in measured]) if measured else None


def _median(values: Sequence[float]) -> float:
    """0 of none: nothing was read where nothing ran."""
    return statistics.median(values or [0])


def _both(full: Sequence[int], delta: Sequence[int]) -> tuple[int, int]:
    return int(_median(full)), int(_median(delta))


def table(found: Sequence[Line]) -> str:
    """The results as text, one line for each query."""
    header = (
        *("query", "plain s", "DuckDB s", "FULL s", "DIFF s", "FULL/plain", "plain/DIFF"),
        *("DuckDB/DIFF", "FULL/DIFF", "mode", "AUTO s", "chose", "query s"),
        *("delta rows", "rows full", "rows diff", "MB full", "MB diff", "jobs full", "jobs diff"),
    )
    rows = [header, *(_cells(line) for line in found)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(header))]
    text = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:], "", *_means(found)])


def _cells(line: Line) -> tuple[str, ...]:
    return (
        queries.name(line.query),
        _shown(line.plain),
        _shown(line.duckdb),
        _shown(line.full),
        _shown(line.differential),
        _shown(line.full_to_plain, "x"),
        _shown(line.plain_ratio, "x"),
        _shown(line.duckdb_ratio, "x"),
        _shown(line.ratio, "x"),
        line.effective_mode,
        _shown(line.auto),
        line.auto_mode,
        _shown(line.bare),
        f"{line.delta_rows:,}",
        f"{line.rows[0]:,}",
        f"{line.rows[1]:,}",
        f"{line.bytes[0] / 1e6:.1f}",
        f"{line.bytes[1] / 1e6:.1f}",
        str(line.spark_queries[0]),
        str(line.spark_queries[1]),
    )


def _shown(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.2f}{unit}"


def means(found: Sequence[Line]) -> dict[str, float]:
    """Of each ratio that was measured."""
    return {name: geometric_mean(known) for name, known in _ratios(found).items()}


def _ratios(found: Sequence[Line]) -> dict[str, list[float]]:
    named: dict[str, list[float | None]] = {
        "FULL / plain Spark": [line.full_to_plain for line in found],
        "plain Spark / DIFFERENTIAL": [line.plain_ratio for line in found],
        "DuckDB / DIFFERENTIAL": [line.duckdb_ratio for line in found],
        "FULL / DIFFERENTIAL": [line.ratio for line in found],
        "the query by itself / DIFFERENTIAL": [line.bare_ratio for line in found],
        "FULL / AUTO": [line.auto_ratio for line in found],
    }
    known = {name: [ratio for ratio in each if ratio is not None] for name, each in named.items()}
    return {name: ratios for name, ratios in known.items() if ratios}


def _means(found: Sequence[Line]) -> list[str]:
    text = [
        f"geometric mean of {name}: {geometric_mean(known):.2f}x "
        f"(from {min(known):.2f} to {max(known):.2f})"
        for name, known in _ratios(found).items()
    ]
    faster = [line.duckdb_ratio > 1 for line in found if line.duckdb_ratio is not None]
    if faster:
        text.append(f"DIFFERENTIAL is faster than DuckDB on {sum(faster)} of {len(faster)} queries")
    return text


def record(options: BenchOptions, measured: Sequence[Measurement]) -> str:
    """Everything as JSON."""
    found = lines(measured)
    content = {
        "what": "derived from TPC-H; not a TPC-H result",
        "options": asdict(options),
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
        "geometric_means": means(found),
        "queries": [
            asdict(line) | {"ratio": line.ratio, "plain_ratio": line.plain_ratio} for line in found
        ],
        "measurements": [asdict(each) for each in measured],
    }
    return json.dumps(content, indent=2) + "\n"
