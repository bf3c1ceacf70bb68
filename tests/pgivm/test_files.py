"""pg_ivm's scenarios in PostgreSQL's own SQL: the lake and a real server agree after every statement.

``PGIVM_FILES`` (paths, parted by colons) runs other files the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from support.pgivm import Twins, is_strict
from support.postgres import server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.postgres,
    pytest.mark.filterwarnings("ignore::spark_trickle.errors.NoticeWarning"),
]
SHORT = ("b_duplicates.sql",)
"""These run in ``make test``; all of them take minutes."""


def files() -> list[Any]:
    given = [Path(part) for part in os.environ.get("PGIVM_FILES", "").split(":") if part]
    own = sorted(Path(__file__).parent.glob("*.sql"))
    return [
        *(pytest.param(path, id=path.name) for path in given),
        *(
            pytest.param(path, id=path.name, marks=() if path.name in SHORT else pytest.mark.long)
            for path in own
        ),
    ]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    import psycopg

    with server() as url, psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("path", files())
def test_file(path: Path, tmp_path: Path, spark: Any, postgres: Any) -> None:
    settings = spark_trickle.Settings(pg_ivm_strict=is_strict(path))
    with spark_trickle.connect(tmp_path / "lake", spark=spark, settings=settings) as lake:
        twins = Twins(lake, postgres)
        twins.run_file(path)
        assert twins.steps > 3
