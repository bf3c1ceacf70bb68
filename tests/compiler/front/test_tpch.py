"""The 22 queries of TPC-H: each plan, before and after every pass, gives what the text gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from spark_trickle.sql.bind.plan import bind
from spark_trickle.sql.types.coercion import is_unknown
from support import tpch
from support.meaning import differences, run

NUMBERS = range(1, 23)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("tpch")
    program = Path(sys.executable).parent / "tpchgen-cli"
    command = [str(program), "parquet", "--scale-factor", "0.01", "--output-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    for name, source in tpch.sources().items():
        columns = ", ".join(f"{c.name}::{c.type.sql('duckdb')} as {c.name}" for c in source.columns)
        file = folder / f"{name}.parquet"
        connection.execute(f"create table {name} as select {columns} from '{file}'")
    yield connection
    connection.close()


@pytest.mark.parametrize("number", NUMBERS)
def test_plans_mean_what_the_text_means(database: duckdb.DuckDBPyConnection, number: int) -> None:
    sql = tpch.query(number)
    assert run(database, sql)
    assert differences(database, sql, tpch.sources(), oracle=sql) == []


@pytest.mark.parametrize("number", NUMBERS)
def test_nothing_blocks_them(number: int) -> None:
    bound = bind(tpch.query(number), tpch.sources())
    assert bound.plan is not None
    assert bound.blockers == ()
    assert not any(is_unknown(column.type) for column in bound.plan.columns)
