"""Stream tables: chains, fans, idle refreshes, and AUTO against FULL and DIFFERENTIAL."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from pyspark.sql import SparkSession
from rich.table import Table

from bench.figures import Figure, console, seconds
from spark_trickle import Lake, connect
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.spark.sessions.session import start_session

DEPTH, WIDTH = 10, 20
PARTS_OF_10_000 = (1, 10, 100, 500, 2_000, 5_000, 8_000)
"""Change sizes of the sweep, 0.01 % to 80 %."""
SHAPES = {
    "one-table aggregate": "SELECT customer, sum(amount) AS total, count(*) AS n FROM {sales} "
    "GROUP BY customer",
    "three-table join aggregate": "SELECT r.name, p.kind, sum(s.amount * p.price) AS revenue "
    "FROM {sales} s JOIN products p ON s.product = p.product JOIN regions r ON s.region = r.region "
    "GROUP BY r.name, p.kind",
    "filtered copy": "SELECT id, customer, amount FROM {sales} WHERE amount % 10 < 5",
}
MODES = ("FULL", "DIFFERENTIAL", "AUTO")
ROUNDS = tuple(permutations(MODES))
"""Every order once: what comes first finds less in the caches of Spark and the machine."""


@dataclass(frozen=True)
class Point:
    """One change size of the sweep: median seconds by mode, and what AUTO ran."""

    shape: str
    share: float
    seconds: dict[str, float]
    chosen: str

    @property
    def ratio(self) -> float:
        """AUTO to the better of the two it chooses from."""
        return self.seconds["AUTO"] / min(self.seconds["FULL"], self.seconds["DIFFERENTIAL"])


def run(folder: Path, rows: int, repeat: int) -> list[Figure]:
    """All figures; prints the sweep as a table."""
    spark = start_session("UTC", {"spark.driver.memory": "2g"})
    with connect(folder / "streams", spark=spark) as lake:
        figures = [*_chain(lake, repeat), *_fan(lake, repeat), _idle(lake)]
        _sales(lake, spark, rows // 6)
        points = [point for shape in SHAPES for point in _sweep(lake, shape)]
    show(points)
    for shape in SHAPES:
        worst = max((p for p in points if p.shape == shape), key=lambda point: point.ratio)
        better = min(worst.seconds["FULL"], worst.seconds["DIFFERENTIAL"])
        name = f"AUTO to the better mode, worst of the sweep: {shape}"
        figures.append(Figure(name, worst.seconds["AUTO"], better, worst.ratio, 1.2))
    return figures


def show(points: Sequence[Point]) -> None:
    table = Table(title="AUTO over a sweep of change sizes", header_style="bold")
    for name in ("query", "changed", *MODES, "AUTO ran", "AUTO to better", "FULL to better"):
        table.add_column(name, justify="left" if name in ("query", "AUTO ran") else "right")
    for point in points:
        better = min(point.seconds["FULL"], point.seconds["DIFFERENTIAL"])
        table.add_row(
            point.shape,
            f"{point.share:.2%}",
            *(f"{point.seconds[mode]:.3f} s" for mode in MODES),
            point.chosen,
            f"{point.ratio:.2f}",
            f"{point.seconds['FULL'] / better:.2f}",
        )
    console.print(table)


def _base(lake: Lake) -> None:
    lake.sql("CREATE TABLE IF NOT EXISTS base (g INT, v BIGINT)")
    if not lake._catalog.scan("base").rows:
        lake.append("base", [{"g": i % 100, "v": i} for i in range(5_000)])


def _chain(lake: Lake, repeat: int) -> Iterator[Figure]:
    _base(lake)
    lake.create_stream_table("chain_0", "SELECT g, v FROM base", refresh_mode="DIFFERENTIAL")
    for hop in range(1, DEPTH):
        query = f"SELECT g, v + 1 AS v FROM chain_{hop - 1}"
        lake.create_stream_table(f"chain_{hop}", query, refresh_mode="DIFFERENTIAL")
    yield from _one_row(lake, f"chain of {DEPTH}", DEPTH, repeat)
    lake.drop_stream_table("chain_0", cascade=True)


def _fan(lake: Lake, repeat: int) -> Iterator[Figure]:
    _base(lake)
    for number in range(WIDTH):
        lake.create_stream_table(
            f"fan_{number}",
            f"SELECT g, sum(v + {number}) AS total FROM base GROUP BY g",
            refresh_mode="DIFFERENTIAL",
        )
    yield from _one_row(lake, f"fan of {WIDTH}", WIDTH, repeat)
    for number in range(WIDTH):
        lake.drop_stream_table(f"fan_{number}")


def _one_row(lake: Lake, what: str, tables: int, repeat: int) -> Iterator[Figure]:
    """One changed row under many stream tables: seconds for all, and the Spark queries they took."""
    taken, queries = [], []
    for step in range(repeat + 1):
        changed = lake.sql(f"UPDATE base SET v = v + 1000000 WHERE v = {100 * tables + step}")
        assert changed == 1
        reports: list[RefreshReport] = []
        taken.append(seconds(lambda found=reports: found.extend(lake.refresh_all())))
        assert {r.effective_mode for r in reports} == {"DIFFERENTIAL"}, reports
        queries.append(sum(report.spark_queries for report in reports))
    each = 1000 * statistics.median(taken[1:]) / tables
    detail = f"{statistics.median(taken[1:]):.2f} s in all"
    yield Figure(f"{what}, one changed row: time per table", 0.0, None, each, 500, "ms", detail)
    count = statistics.median(queries[1:])
    bar = 2.0 * tables
    yield Figure(f"{what}: Spark queries", 0.0, None, count, bar, "", f"{count:g} queries")


def _idle(lake: Lake) -> Figure:
    _base(lake)
    lake.create_stream_table("idle", "SELECT g, sum(v) AS total FROM base GROUP BY g")
    lake.refresh_stream_table("idle")
    taken = [1000 * seconds(lambda: lake.refresh_stream_table("idle")) for _ in range(30)]
    worst = f"p95 {sorted(taken)[28]:.1f} ms"
    lake.drop_stream_table("idle")
    return Figure("refresh without a change", 0.0, None, statistics.median(taken), 20, "ms", worst)


def _sales(lake: Lake, spark: SparkSession, rows: int) -> None:
    """Small tables, and a large one for each mode: none finds in memory what another has read."""
    for mode in MODES:
        lake.sql(
            f"CREATE TABLE sales_{mode} (id BIGINT, customer INT, product INT, region INT, "
            "amount BIGINT, PRIMARY KEY (id))"
        )
        lake.append(
            f"sales_{mode}",
            spark.range(rows).selectExpr(
                "id",
                "cast(pmod(hash(id, 1), 20000) AS INT) AS customer",
                "cast(pmod(hash(id, 2), 1000) AS INT) AS product",
                "cast(pmod(hash(id, 3), 50) AS INT) AS region",
                "pmod(hash(id, 4), 1000) AS amount",
            ),
        )
    lake.sql("CREATE TABLE products (product INT, kind STRING, price BIGINT)")
    lake.append(
        "products",
        spark.range(1000).selectExpr(
            "cast(id AS INT) AS product", "concat('kind-', id % 20) AS kind", "id % 90 AS price"
        ),
    )
    lake.sql("CREATE TABLE regions (region INT, name STRING)")
    lake.append(
        "regions",
        spark.range(50).selectExpr("cast(id AS INT) AS region", "concat('region-', id) AS name"),
    )


def _sweep(lake: Lake, shape: str) -> Iterator[Point]:
    """Every change size in all ROUNDS, after a round that only warms up and teaches AUTO.

    A round leaves more dead rows than live ones, so each begins with a compaction.
    """
    for mode in MODES:
        query = SHAPES[shape].format(sales=f"sales_{mode}")
        lake.create_stream_table(f"in_{mode}", query, refresh_mode=mode)
    found: dict[int, list[dict[str, RefreshReport]]] = {part: [] for part in PARTS_OF_10_000}
    for turn, order in enumerate((MODES, *ROUNDS)):
        lake.compact()
        for part in PARTS_OF_10_000:
            for mode in MODES:
                lake.sql(
                    f"UPDATE sales_{mode} SET amount = pmod(amount + 7, 1000) "
                    f"WHERE pmod(xxhash64(id, {turn}), 10000) < {part}"
                )
            reports = {mode: lake.refresh_stream_table(f"in_{mode}") for mode in order}
            assert reports["DIFFERENTIAL"].effective_mode == "DIFFERENTIAL"
            assert reports["FULL"].effective_mode == "FULL"
            if turn:
                found[part].append(reports)
    for part, runs in found.items():
        taken = {mode: statistics.median(r[mode].seconds for r in runs) for mode in MODES}
        chosen = ", ".join(sorted({r["AUTO"].effective_mode for r in runs}))
        yield Point(shape, part / 10_000, taken, chosen)
    for mode in MODES:
        lake.drop_stream_table(f"in_{mode}")
