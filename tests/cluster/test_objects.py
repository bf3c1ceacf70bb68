"""A lake in S3, read and written by the workers of a cluster over ``s3a://``; DuckDB reads it itself.

The server is moto's, hadoop-aws comes from Maven Central.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.errors import ExecutionError
from spark_trickle.settings import Settings
from spark_trickle.spark.sessions.storage import hadoop_options
from spark_trickle.storage.faults import VARIABLE
from spark_trickle.tpch import data
from support import cluster as clusters
from support import duck, objects
from support.postgres import new_database
from tpch.bench import Bench
from tpch.oracle import Oracle
from tpch.settings import SCALE

from . import objects_child as child

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.postgres,
    pytest.mark.objects,
    pytest.mark.timeout(1800),
]

CACHE = Path(__file__).parents[2] / data.CACHE
TPCH = (1, 3, 13, 15, 17, 22)
SUMS = "SELECT g, sum(v) AS s, max(v) AS m, count(*) AS n FROM t GROUP BY g"
STREAMS = {
    "sums": ("DIFFERENTIAL", SUMS),
    "anew": ("FULL", SUMS),
    "most": ("DIFFERENTIAL", "SELECT id, v FROM t ORDER BY v DESC, id LIMIT 5"),
    "names": ("DIFFERENTIAL", "SELECT t.id, t.v, u.name FROM t JOIN u ON t.g = u.g WHERE t.v > 3"),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s3") / "requests.log"


@pytest.fixture(scope="module")
def storage(log: Path) -> Iterator[dict[str, str]]:
    with objects.server(log) as found:
        yield found


@pytest.fixture(scope="module")
def over_s3(storage: dict[str, str]) -> dict[str, str]:
    """What a Spark needs to reach the server."""
    return {"spark.jars.packages": clusters.HADOOP_AWS, **hadoop_options(storage)}


@pytest.fixture(scope="module")
def spark(cluster: clusters.Cluster, over_s3: dict[str, str]) -> Iterator[SparkSession]:
    try:
        started = clusters.session(cluster.url, extra=over_s3)
        session = started.__enter__()
    except ExecutionError as error:
        pytest.skip(f"no Spark with {clusters.HADOOP_AWS} (from Maven Central): {error}")
    yield session
    started.__exit__(None, None, None)


@pytest.fixture
def url(catalog_url: str) -> str:
    return new_database(catalog_url)


@pytest.fixture
def lake(url, spark, storage) -> Iterator[Lake]:
    settings = Settings(inline_row_limit=10, inline_delete_limit=5, local_rows=0, storage=storage)
    place = f"s3a://{objects.BUCKET}/env=prod/od d%20é/{url.rsplit('/', 1)[1]}"
    with spark_trickle.connect(url, data_path=place, spark=spark, settings=settings) as opened:
        opened.sql("CREATE TABLE t (id BIGINT, g BIGINT, v BIGINT, PRIMARY KEY (id))")
        yield opened


def there(lake: Lake) -> set[str]:
    return {path for path, _ in lake._catalog.files.list(lake._catalog.data_path)}


def needed(lake: Lake) -> set[str]:
    """Files of the newest version."""
    tables = lake._catalog.tables()
    return {file.path for table in tables for file in lake._catalog.scan(table).files}


def judged(lake: Lake, url: str, storage: dict[str, str], *names: str) -> None:
    """DuckDB reads the store by itself and computes each query over the tables it finds there."""
    queries = [text for name in names for text in (f"FROM {name}", STREAMS[name][1])]
    answers = duck.read(url, queries, storage)
    for name, got, wanted in zip(names, answers[::2], answers[1::2], strict=True):
        assert Counter(map(tuple, got)) == Counter(map(tuple, wanted)), name
        assert got, name


def test_flows(lake, url, storage, spark, cluster):
    lake.sql("CREATE TABLE u (g BIGINT, name STRING)")
    lake.append("u", pa.table({"g": range(50), "name": [f"n{n}" for n in range(50)]}))
    lake.sql("INSERT INTO t SELECT id, id % 50, id % 977 FROM range(20000)")
    for name, (mode, query) in STREAMS.items():
        lake.create_stream_table(name, query, refresh_mode=mode)
    judged(lake, url, storage, *STREAMS)
    lake.append("t", pa.table({"id": range(30000, 30200), "g": [7] * 200, "v": [5] * 200}))
    assert lake.sql("UPDATE t SET v = v + 1000 WHERE id % 500 = 3") == 41
    assert lake.sql("DELETE FROM t WHERE id BETWEEN 100 AND 3000") == 2901
    lake.sql(
        "MERGE INTO u USING (SELECT 3 AS g, 'new' AS name) s ON u.g = s.g "
        "WHEN MATCHED THEN UPDATE SET name = s.name"
    )
    victim = cluster.workers[-1]
    with clusters.Striking(spark, 1, lambda: cluster.kill(victim)) as striking:
        reports = lake.refresh_all()
    assert striking.struck
    cluster.worker()
    modes = {report.name: report.effective_mode for report in reports}
    assert modes == {
        "sums": "DIFFERENTIAL",
        "anew": "FULL",
        "most": "TOPK",
        "names": "DIFFERENTIAL",
    }
    judged(lake, url, storage, *STREAMS)
    before = there(lake)
    tx = lake.transaction()
    tx.append("t", spark.range(40000, 60000).selectExpr("id", "id AS g", "id AS v"))
    assert there(lake) > before
    tx.rollback()
    assert there(lake) == before, "what was rolled back leaves no file"
    assert sum(done.files_before - done.files_after for done in lake.compact()) > 0
    judged(lake, url, storage, *STREAMS)
    lake.sql("DELETE FROM t WHERE id < 50")
    lake.refresh_all()
    lake.expire(older_than=0.0)
    with lake._catalog.files.output(f"{lake._catalog.table('t').location}left.parquet") as sink:
        sink.write(b"x")
    assert lake.remove_orphans(grace_seconds=3600.0) == 0
    assert lake.remove_orphans(grace_seconds=-60.0) > 0
    assert needed(lake) <= there(lake), "nothing is lost"
    assert lake.remove_orphans(grace_seconds=-60.0) == 0
    judged(lake, url, storage, *STREAMS)
    for name in STREAMS:
        assert not lake.verify(name)


def test_requests_of_a_refresh(lake, url, storage, log, capsys):
    """Spark is told the files: the store is asked for no listing of any, however many there are."""
    requests = objects.Requests(log)
    lake.create_stream_table("sums", SUMS, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("anew", SUMS, refresh_mode="FULL")
    lists: dict[str, list[int]] = {"sums": [], "anew": []}
    for files in (10, 40):
        while len(lake._catalog.scan("t").files) < files:
            start = 1000 * len(lake._catalog.scan("t").files)
            rows = {"id": range(start, start + 20), "g": [start % 7] * 20, "v": range(20)}
            lake.append("t", pa.table(rows))
        for name in lists:
            known = {file.path.removeprefix("s3:/") for file in lake._catalog.scan("t").files}
            requests.new()
            report = lake.refresh_stream_table(name)
            asked = requests.new()
            kinds = Counter(request.split()[0] for request in asked)
            lists[name].append(kinds["LIST"])
            listed = {request.removeprefix("LIST ").rstrip("/") for request in asked}
            assert not listed & known, "a file was listed"
            with capsys.disabled():
                print(
                    f"\nrequests of a refresh ({report.effective_mode}, {report.engine}, {files} "
                    f"files in the table): {dict(sorted(kinds.items()))}"
                )
    for name, counts in lists.items():
        assert counts[1] <= counts[0], f"{name}: listings grow with the files: {counts}"
    assert lists["sums"] == [0, 0], "what writes no file lists nothing at all"
    judged(lake, url, storage, "sums", "anew")


def test_tpch(url, spark, storage, log):
    """Sums, TopK over a join, an outer join, segments, scalar aggregates: loaded, changed, refreshed."""
    requests = objects.Requests(log)
    generated = data.generate(SCALE, CACHE)
    place = f"s3://{objects.BUCKET}/tpch"
    settings = Settings(storage=storage)
    with spark_trickle.connect(url, data_path=place, spark=spark, settings=settings) as lake:
        data.load(lake, generated)
        bench = Bench(lake, Oracle.of_parquet(generated))
        bench.ensure(TPCH)
        bench.change()
        for number in TPCH:
            requests.new()
            report = bench.refresh(number)
            kinds = Counter(request.split()[0] for request in requests.new())
            print(f"{report.name}: {report.engine}, {report.seconds:.1f} s, {dict(kinds)}")
        bench.change()
        lake.compact()
        for report in lake.refresh_all():
            bench.check(int(report.name[1:]), report)
        bench.verdict()
        bench.check_tables()
        bench.oracle.close()


POINTS = {
    "append": ("file-written", "before-commit", "after-commit"),
    "update": ("delete-file-written", "after-commit"),
    "refresh": ("refresh-computed", "before-commit", "refresh-committed"),
    "compact": ("compaction-file-written", "compaction-swapped", "compaction-after-commit"),
    "expire": ("expiry-marked", "expiry-after-commit"),
    "sweep": ("removal-half-done",),
    "append_by_spark": ("before-commit",),
}


def test_processes_killed_in_the_middle(url, storage, over_s3, spark):
    """The lake is as before or as after, the work can be done again, and no file is lost or left."""
    place = f"s3://{objects.BUCKET}/crashes/{url.rsplit('/', 1)[1]}"
    settings = child.settings(storage, {})
    local = {**over_s3, "spark.master": "local[1]", "spark.driver.memory": "1g"}
    with spark_trickle.connect(url, data_path=place, spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE t (id BIGINT, g BIGINT, v BIGINT, PRIMARY KEY (id))")
        lake.append(
            "t", pa.table({"id": range(100), "g": [n % 5 for n in range(100)], "v": range(100)})
        )
        lake.create_stream_table("s", SUMS, refresh_mode="DIFFERENTIAL")
        for operation, points in POINTS.items():
            for point in points:
                prepared(lake, operation)
                before = sorted(duck.read(url, ["FROM t"], storage)[0])
                command = [sys.executable, child.__file__, operation, url, json.dumps(storage)]
                ran = subprocess.run(
                    [*command, json.dumps(local)],
                    env={**os.environ, VARIABLE: point, "PYTHONPATH": ":".join(sys.path)},
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                assert ran.returncode == -signal.SIGKILL, (operation, point, ran.stdout, ran.stderr)
                survived(lake, url, storage, before, (operation, point))


def prepared(lake: Lake, operation: str) -> None:
    """Something to refresh, to merge, to forget and to remove."""
    for _ in range(2):
        lake.append(
            "t", pa.table({"id": range(500, 520), "g": range(20), "v": [lake.version] * 20})
        )
    if operation == "expire":
        lake.refresh_stream_table("s")
    with lake._catalog.files.output(f"{lake._catalog.table('t').location}left.parquet") as sink:
        sink.write(b"x")


def survived(
    lake: Lake, url: str, storage: dict[str, str], before: list[list[str]], what: tuple[str, str]
) -> None:
    operation, point = what
    rows = sorted(duck.read(url, ["FROM t"], storage)[0])
    changes = operation in ("append", "update", "append_by_spark")
    assert (rows != before) == (changes and point == "after-commit"), what
    assert needed(lake) <= there(lake), what
    lake.refresh_stream_table("s")
    got, wanted = duck.read(url, ["FROM s", SUMS], storage)
    assert sorted(got) == sorted(wanted), what
    lake.expire(older_than=0.0)
    lake.remove_orphans(grace_seconds=-60.0)
    assert needed(lake) <= there(lake), what
    assert lake.remove_orphans(grace_seconds=-60.0) == 0, what
