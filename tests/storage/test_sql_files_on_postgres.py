"""The statements of ``tests/sql/dry`` over a PostgreSQL catalog: the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import spark_trickle
from support import sqlfiles
from support.postgres import new_database

FOLDER = Path(__file__).parents[1] / "sql" / "dry"


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["alter", "views", "tables", "schemas"])
def test_statements(postgres_url: str, tmp_path: Path, name: str) -> None:
    location = new_database(postgres_url)
    with spark_trickle.connect(location, data_path=tmp_path / "data") as lake:
        sqlfiles.run(lake, FOLDER / f"{name}.test", location)
