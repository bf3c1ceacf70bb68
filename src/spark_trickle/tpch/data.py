"""Data at a scale: generated once by ``tpchgen-cli``, kept as Parquet, loaded into lakes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from spark_trickle.errors import ExecutionError, NotFoundError
from spark_trickle.lake import Lake
from spark_trickle.tpch.schema import TABLES, TpchTable

PROGRAM = "tpchgen-cli"
CACHE = Path("bench") / "data"
"""Where generated data is kept, below the current folder; TRICKLE_TPCH_DATA names another place."""

TellProgress = Callable[[str, int, int], None]
"""Told what is being done, how many tables are finished and how many there are."""


def _silent(_what: str, _done: int, _total: int) -> None:
    pass


def cache_folder() -> Path:
    """The folder of generated data."""
    return Path(os.environ.get("TRICKLE_TPCH_DATA", CACHE))


def generate(scale: float, cache: Path | None = None, progress: TellProgress = _silent) -> Path:
    """The folder with the Parquet files of a scale; makes those that are not there yet.

    A file appears under its name only when it is complete, so a generation that was
    interrupted goes on where it stopped, and two at once do not harm each other.
    """
    folder = (cache or cache_folder()) / f"sf{scale:g}"
    for done, table in enumerate(TABLES):
        progress(f"generate {table.name}", done, len(TABLES))
        if not parquet(folder, table).exists():
            _generate_table(scale, table, folder)
    progress("generated", len(TABLES), len(TABLES))
    return folder


def parquet(folder: Path, table: TpchTable) -> Path:
    """Where a table's data is."""
    return folder / f"{table.name}.parquet"


def _generate_table(scale: float, table: TpchTable, folder: Path) -> None:
    program = _program()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder) as partial:
        command = [program, "parquet", "-s", f"{scale:g}", "-T", table.name, "-o", partial, "-q"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        made = parquet(Path(partial), table)
        if done.returncode != 0 or not made.exists():
            raise ExecutionError(
                f"{PROGRAM} did not generate {table.name} at scale {scale:g}: "
                f"{done.stderr.strip() or 'no reason given'}",
                hint="is there enough space on the disk? Scale 1 takes 0.4 GB, scale 10 takes 4 GB",
            )
        os.replace(made, parquet(folder, table))


def _program() -> str:
    # A program that pip installed is beside the interpreter, even if that folder is not on PATH.
    beside = shutil.which(PROGRAM, path=str(Path(sys.executable).parent))
    found = beside or shutil.which(PROGRAM)
    if found is None:
        raise NotFoundError(
            f"{PROGRAM}, which generates TPC-H data, is not installed",
            hint="pip install 'spark-trickle[bench]'",
        )
    return found


def load(lake: Lake, folder: Path, progress: TellProgress = _silent) -> int:
    """Make the eight tables and fill them, in one transaction; the version it committed."""
    with lake.transaction() as tx:
        for done, table in enumerate(TABLES):
            progress(f"load {table.name}", done, len(TABLES))
            tx.sql(table.create_statement)
            tx.append(table.name, lake.spark.read.parquet(str(parquet(folder, table).resolve())))
    progress("loaded", len(TABLES), len(TABLES))
    return lake.version
