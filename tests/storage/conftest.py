"""Lakes for the storage tests: in a folder, or in both kinds of catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from support import postgres

Opener = Callable[..., Catalog]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def catalog(folder: Path) -> Iterator[Catalog]:
    with Catalog.open(str(folder)) as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres.server() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Location and data path of a new, empty lake of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "lake"), str(tmp_path / "lake" / "data")
    return postgres.new_database(request.getfixturevalue("postgres_url")), str(tmp_path / "data")


@pytest.fixture
def open_lake(location: tuple[str, str]) -> Iterator[Opener]:
    """Opens the lake, as often as one likes."""
    opened: list[Catalog] = []

    def opener(**tuned: Any) -> Catalog:
        opened.append(Catalog.open(*location, settings=Settings(**tuned)))
        return opened[-1]

    yield opener
    for catalog in opened:
        catalog.close()
