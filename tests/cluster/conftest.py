"""A master, two workers and PostgreSQL; the driver is this process, which has no other Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support import cluster as clusters
from support import postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def catalog_url() -> Iterator[str]:
    with postgres.server() as url:
        yield url


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Cluster]:
    with clusters.cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def spark(cluster: clusters.Cluster) -> Iterator[SparkSession]:
    """In the place of the local Spark of the other tests."""
    with clusters.session(cluster.url) as made:
        yield made
