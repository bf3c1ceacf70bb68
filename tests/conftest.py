"""One Spark for all tests of a process: two cores, 2 GB, no UI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle.maintain.refresh import locally
from support.java import SPARK_OF_TESTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write golden files anew")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--rewrite"):
        os.environ["REWRITE"] = "1"
    # Of the deltas that are computed without Spark, a share is computed on Spark as well.
    locally.CHECKED = 3


_LONGEST = {"tpch", "test_battery.py", "test_interrupts.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no process of ``make test`` is left with one at the end."""
    items.sort(key=lambda item: not _LONGEST & {*item.path.parts})


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from spark_trickle.spark.sessions.session import start_session

    session = start_session(
        "UTC",
        {
            "spark.master": "local[2]",
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "2",
            **SPARK_OF_TESTS,
        },
    )
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[spark_trickle.Lake]:
    """A fresh lake on the shared Spark."""
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as opened:
        yield opened


@pytest.fixture
def dry_lake(tmp_path: Path) -> Iterator[spark_trickle.Lake]:
    """A fresh lake of which nothing may start Spark."""
    from spark_trickle.spark.sessions.session import SessionHolder

    class NoSpark(SessionHolder):
        @property
        def spark(self) -> SparkSession:
            raise AssertionError("this statement must not need Spark")

    with spark_trickle.connect(tmp_path / "dry") as opened:
        opened._engine.holder = NoSpark(None, opened._engine.settings)
        yield opened
