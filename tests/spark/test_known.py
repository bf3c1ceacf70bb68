"""Files that are read by their names and sizes: no listing, whatever they are called."""

from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_trickle.spark.frames import parquet_reader
from spark_trickle.spark.known import may_be_named, read_named

pytestmark = pytest.mark.spark

SETTING = "spark.sql.streaming.fileStreamSink.ignoreMetadata"


@pytest.fixture
def named(tmp_path):
    """URIs and sizes of three files below a folder whose name looks like a partition."""
    folder = tmp_path / "env=prod" / "od d%20é{x}*"
    folder.mkdir(parents=True)
    found = []
    for number in range(3):
        path = folder / f"f{number}.parquet"
        pq.write_table(pa.table({"a": range(10 * number, 10 * number + 10)}), path)
        found.append(("file://" + quote(str(path)), path.stat().st_size))
    return found


def test_just_the_named_files_are_read(spark, named):
    assert may_be_named(spark)
    reader = parquet_reader(spark, spark.range(1).selectExpr("id AS a").schema)
    frame = read_named(reader, named[:2])
    assert frame.columns == ["a"], "the folder's name is no column"
    assert sorted(row.a for row in frame.collect()) == list(range(20))
    places = frame.selectExpr("_metadata.file_name AS f", "_metadata.row_index AS r").where(
        "a = 13"
    )
    assert [tuple(row) for row in places.collect()] == [("f1.parquet", 3)]
    gone = read_named(reader, [*named[:2], (named[2][0] + "x", 10)])
    with pytest.raises(Exception, match="does not exist"):
        gone.count()


def test_a_session_that_passes_over_the_log(spark, named):
    session = spark.newSession()
    session.conf.set(SETTING, "true")
    assert not may_be_named(session)
    reader = parquet_reader(session, session.range(1).selectExpr("id AS a").schema)
    with pytest.raises(Exception, match="log_not_read"):  # never an empty answer
        read_named(reader, named).count()
