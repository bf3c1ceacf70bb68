"""Generated data and loaded lakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle.tpch import data
from tpch.settings import SCALE

_CACHE = Path(__file__).parents[2] / data.CACHE


@pytest.fixture(scope="session")
def tpch_data() -> Path:
    """Parquet files of the eight tables, generated once per scale."""
    return data.generate(SCALE, _CACHE)
