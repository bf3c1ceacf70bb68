"""Opens a lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spark_trickle.calls import checked
from spark_trickle.errors import UserError
from spark_trickle.execute.engine import Engine
from spark_trickle.lake import Lake
from spark_trickle.settings import Settings
from spark_trickle.spark.sessions.session import SessionHolder
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.upkeep.tending import Tender

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import SparkSession


@checked
def connect(
    location: str | Path,
    *,
    data_path: str | Path | None = None,
    spark: SparkSession | None = None,
    settings: Settings | None = None,
    create: bool = True,
) -> Lake:
    """Open a lake: a folder (made on first use), or a ``postgresql://`` URL with ``data_path``.

    Without ``spark`` a local Spark is started when a statement first needs one. With
    ``create=False`` a lake that is not there is an error.

    >>> lake = connect("my_lake")
    """
    _check(spark, settings)
    chosen = settings or Settings()
    files = None if data_path is None else str(data_path)
    catalog = Catalog.open(str(location), files, chosen, create=create)
    catalog.tending.append(Tender(catalog).after_commit)
    return Lake(Engine(catalog, SessionHolder(spark, chosen), chosen))


def _check(spark: object, settings: object) -> None:
    if settings is not None and not isinstance(settings, Settings):
        raise UserError(f"settings must be Settings(…), not {type(settings).__name__}")
    if spark is not None and not (hasattr(spark, "sql") and hasattr(spark, "createDataFrame")):
        raise UserError(
            f"spark must be a SparkSession, not {type(spark).__name__}",
            hint="give the session itself, or leave it out and a local Spark is started",
        )
