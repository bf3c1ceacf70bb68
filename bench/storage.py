"""The lake against plain Spark on the same files."""

from __future__ import annotations

import os
import random
import shutil
import statistics
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.figures import Figure, ratio, seconds
from spark_trickle import Lake, connect
from spark_trickle.spark.sessions.session import start_session

COLUMNS = "id BIGINT, customer STRING, amount DECIMAL(12,2), quantity INT, day DATE, price DOUBLE"


def generated(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr(
        "id",
        "concat('customer-', id % 100003) AS customer",
        "cast(id % 10007 / 100 AS DECIMAL(12,2)) AS amount",
        "cast(id % 50 AS INT) AS quantity",
        "date_add(DATE '2020-01-01', cast(id % 2000 AS INT)) AS day",
        "cast(id % 997 AS DOUBLE) / 7 AS price",
    )


def total(frame: DataFrame) -> object:
    """A scan that reads all columns."""
    return frame.selectExpr(
        "count(*)",
        "sum(id)",
        "sum(amount)",
        "sum(quantity)",
        "sum(price)",
        "max(day)",
        "sum(length(customer))",
    ).collect()


def bytes_read() -> int:
    """Bytes that this process and its Java have read so far, from files, pipes and sockets."""
    own = os.getpid()
    children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    total_bytes = 0
    for process in (str(own), *children):
        text = Path(f"/proc/{process}/io").read_text()
        total_bytes += int(text.split("rchar:")[1].split()[0])
    return total_bytes


def run(folder: Path, rows: int, repeat: int) -> list[Figure]:
    spark = start_session("UTC", {"spark.driver.memory": "2g"})
    with connect(folder / "lake", spark=spark) as lake:
        figures = [_append(lake, spark, folder, repeat)]
        lake.sql(f"CREATE TABLE big ({COLUMNS}, PRIMARY KEY (id))")
        lake.append("big", generated(spark, rows))
        figures += [
            _scan(lake, spark, repeat),
            _commit(lake, repeat),
            _changes(lake),
            _scan_with_deletes(lake, spark, rows, repeat),
        ]
        return figures


def _append(lake: Lake, spark: SparkSession, folder: Path, repeat: int) -> Figure:
    data = generated(spark, 1_000_000)
    names = (f"append_{i}" for i in count())

    def ours() -> None:
        name = next(names)
        lake.sql(f"CREATE TABLE {name} ({COLUMNS})")
        assert lake.append(name, data) == 1_000_000

    def plain() -> None:
        shutil.rmtree(folder / "plain", ignore_errors=True)
        data.write.parquet(str(folder / "plain"))

    return ratio("append 1 M rows", 1.5, ours, plain, repeat)


def _plain_scan(lake: Lake, spark: SparkSession) -> DataFrame:
    paths = [file.path for file in lake._catalog.scan("big").files]
    return spark.read.schema(COLUMNS).parquet(*paths)


def _scan(lake: Lake, spark: SparkSession, repeat: int) -> Figure:
    return ratio(
        "full scan",
        1.15,
        lambda: total(lake.sql("SELECT * FROM big")),
        lambda: total(_plain_scan(lake, spark)),
        repeat,
    )


def _scan_with_deletes(lake: Lake, spark: SparkSession, rows: int, repeat: int) -> Figure:
    deleted = lake.sql("DELETE FROM big WHERE pmod(xxhash64(id), 100) = 0")
    assert 0.009 * rows < deleted < 0.011 * rows, deleted
    return ratio(
        "scan, 1 % of rows deleted",
        2.0,
        lambda: total(lake.sql("SELECT * FROM big")),
        lambda: total(_plain_scan(lake, spark)),
        repeat,
    )


def _commit(lake: Lake, repeat: int) -> Figure:
    """What a two-table transaction costs beside Spark: everything but the statements' Spark work."""
    lake.sql("CREATE TABLE left_side (id BIGINT, v STRING)")
    lake.sql("CREATE TABLE right_side (id BIGINT, v STRING)")

    def once(i: int) -> float:
        def work() -> None:
            with lake.transaction() as tx:
                tx.sql(f"INSERT INTO left_side VALUES ({i}, 'a'), ({i + 1}, 'b')")
                tx.append("right_side", [{"id": i, "v": "c"}])

        return seconds(work)

    once(0)
    times = [once(i) * 1000 for i in range(10 * repeat)]
    median = statistics.median(times)
    worst = sorted(times)[int(len(times) * 0.95)]
    return Figure(
        "commit of a small two-table transaction",
        median / 1000,
        None,
        median,
        20,
        "ms",
        f"p95 {worst:.1f} ms",
    )


def _changes(lake: Lake) -> Figure:
    """40 small commits of inserts, updates and deletes at random keys; how much is read for them?

    All bytes that any process of ours reads are counted, traffic between Python and Java included.
    """
    chance = random.Random(1)
    before = lake.version
    size = lake._catalog.scan("big").bytes
    top = lake.sql("SELECT max(id) FROM big").collect()[0][0]
    for i in range(40):
        key = chance.randrange(top)
        with lake.transaction() as tx:
            tx.sql(
                f"INSERT INTO big VALUES ({top + 1 + i}, 'new', 1.00, 1, DATE '2026-01-01', 0.5)"
            )
            tx.sql(f"UPDATE big SET quantity = quantity + 1 WHERE id = {key}")
            tx.sql(f"DELETE FROM big WHERE id = {key + 1}")
    lake.changes("big", lake.version - 1).collect()  # Java loads its classes from files, too
    start = bytes_read()
    taken = seconds(lambda: lake.changes("big", before).collect())
    read = bytes_read() - start
    share = 100 * read / size
    return Figure(
        "changes over 40 small commits, of the table's bytes",
        taken,
        None,
        share,
        1.0,
        "%",
        f"{read} of {size} bytes, {taken:.2f} s",
    )
