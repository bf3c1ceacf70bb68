"""Past each limit of ``Settings.limits`` the work is not done here; judged before anything is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from spark_trickle import Lake, Limits, Settings, connect
from spark_trickle.delta.keys.needs import Need
from spark_trickle.ir.nodes import Scan
from spark_trickle.ir.types import Column, Side
from spark_trickle.maintain.apply.locating import searchable
from spark_trickle.maintain.gather.finding import ScanFinder
from spark_trickle.maintain.gather.nearby import nearby
from spark_trickle.maintain.refresh import whole
from spark_trickle.maintain.refresh.job import Pinned
from spark_trickle.maintain.refresh.locally import ScannedTables
from spark_trickle.storage.read.reader import decoded_bytes
from spark_trickle.storage.read.search import Search
from spark_trickle.storage.records import ChangePlan, ScanPlan
from spark_trickle.storage.upkeep.compaction import compact

FILES, ROWS = 4, 50
IN_FILES = Settings(inline_row_limit=1, small_files=0)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Some files of some rows: ``id`` is known in each, ``v`` is everywhere."""
    with connect(tmp_path / "lake", settings=IN_FILES) as opened:
        opened.sql("CREATE TABLE t (id BIGINT, v BIGINT)")
        for first in range(0, FILES * ROWS, ROWS):
            numbers = range(first, first + ROWS)
            opened.append("t", pa.table({"id": numbers, "v": [n % ROWS for n in numbers]}))
        yield opened


@pytest.fixture
def plan(lake: Lake) -> ScanPlan:
    return lake._catalog.scan("t")


@pytest.fixture
def changes(lake: Lake) -> ChangePlan:
    return lake._catalog.changes("t", 1, lake.version)


class Watched:
    """A run of which only the limits are asked, and whether Spark was."""

    def __init__(self, **limits: int) -> None:
        self.limits = Limits(**limits)
        self.rows_read = 0
        self.on_spark = False

    def note_read(self, rows: int, _: int) -> None:
        self.rows_read += rows

    def search(self, *_: object) -> None:
        self.on_spark = True


def test_every_limit_counts_something_and_is_told() -> None:
    page = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text()
    for field in fields(Limits):
        assert f"| `{field.name}` |" in page
        assert field.name.rpartition("_")[2] in ("rows", "bytes", "files", "values")
        assert getattr(Settings().limits, field.name) > 0


def test_changes(changes: ChangePlan) -> None:
    def few(**limits: int) -> bool:
        none: Any = None
        source = Pinned(none, changes.table, none, none, changes, "t")
        return source.few(Limits(**limits))

    size = decoded_bytes(changes)
    exact = {"delta_rows": FILES * ROWS, "delta_bytes": size, "read_files": FILES}
    assert few(**exact)
    for name, value in exact.items():
        assert not few(**{**exact, name: value - 1}), name


def test_rows_that_go(plan: ScanPlan) -> None:
    search = Search(plan, {})
    size = search.bytes(plan.table.columns)
    exact = {"searched_bytes": size, "read_files": FILES}
    assert searchable(search, ["id", "v"], Limits(**exact))
    for name, value in exact.items():
        assert not searchable(search, ["id", "v"], Limits(**{**exact, name: value - 1})), name


def test_rows_that_only_python_can_compare(lake: Lake) -> None:
    lake.sql("CREATE TABLE d (x DOUBLE)")
    lake.append("d", pa.table({"x": [float(n) for n in range(ROWS)]}))
    search = Search(lake._catalog.scan("d"), {})
    assert searchable(search, ["x"], Limits(worked_rows=ROWS))
    assert not searchable(search, ["x"], Limits(worked_rows=ROWS - 1))


def test_rows_to_compare_with(plan: ScanPlan) -> None:
    exact = {"delta_rows": plan.rows, "searched_bytes": plan.bytes}
    assert whole.few(plan, Limits(**exact))
    for name, value in exact.items():
        assert not whole.few(plan, Limits(**{**exact, name: value - 1})), name


def test_whole_tables(plan: ScanPlan) -> None:
    tables = ScannedTables(lambda *_: plan)
    scan = Scan("t", (Column(1, "id", exp.DataType.build("BIGINT")),))
    exact = {"worked_rows": plan.rows, "worked_bytes": plan.bytes}
    assert tables.few(scan, Settings(limits=Limits(**exact)))
    assert not tables.few(scan, Settings(local_rows=0))
    for name, value in exact.items():
        settings = Settings(limits=Limits(**{**exact, name: value - 1}))
        assert not tables.few(scan, settings), name


def found(plan: ScanPlan, column: str, most: int = 1_000, **limits: int) -> tuple[Any, Watched]:
    """The rows with a value in a column, and what it took."""
    run = Watched(**limits)
    finder = ScanFinder(run, {"t": plan}, {"t": ("id", "v")})  # type: ignore[arg-type]
    return finder.find("t", [{column: pa.array([7])}], most), run


def test_a_source_is_held(plan: ScanPlan) -> None:
    for held, read in ((2 * plan.rows, plan.rows), (2 * plan.rows - 1, ROWS)):
        rows, run = found(plan, "id", held_values=held)
        assert (rows.num_rows, run.rows_read) == (1, read)


@pytest.mark.parametrize("name", ["near_bytes", "read_files"])
def test_rows_near_a_delta_are_searched(plan: ScanPlan, name: str) -> None:
    size = plan.bytes if name == "near_bytes" else FILES
    rows, run = found(plan, "v", held_values=0, **{name: size})
    assert (rows.num_rows, run.on_spark) == (FILES, False)
    rows, run = found(plan, "v", held_values=0, **{name: size - 1})
    assert (rows, run.on_spark) == (None, True)
    rows, run = found(plan, "id", held_values=0, **{name: -(-size // FILES)})
    assert (rows.num_rows, run.on_spark) == (1, False), "files that cannot have one do not count"


@pytest.mark.parametrize("name", ["fetched_bytes", "read_files"])
def test_a_source_as_a_whole(plan: ScanPlan, name: str) -> None:
    size = plan.bytes if name == "fetched_bytes" else FILES
    for most, wanted in ((size, plan.rows), (size - 1, None)):
        run = Watched(**{name: most})
        finder = ScanFinder(run, {"t": plan}, {"t": ("id", "v")})  # type: ignore[arg-type]
        rows = finder.find("t", [{}], 1_000)
        assert (rows and rows.num_rows) == wanted
        assert wanted or run.rows_read == 0


def test_rows_near_a_delta(plan: ScanPlan) -> None:
    """Of what nothing ties to it half."""
    need = Need("t", Side.AFTER, frozenset(["id", "v"]), {})
    finder = ScanFinder(Watched(), {"t": plan}, {"t": ("id", "v")})  # type: ignore[arg-type]
    near = nearby(["t"], [need], {}, finder, 2 * plan.rows)
    assert near is not None
    assert near["t"].rows.num_rows == plan.rows
    assert nearby(["t"], [need], {}, finder, 2 * plan.rows - 1) is None


def test_changes_are_handed_over(changes: ChangePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_trickle.spark import feed

    class Files(Exception):
        """Spark reads them."""

    def by_spark(*_: object) -> None:
        raise Files

    monkeypatch.setattr(feed, "_local", lambda *_: "here")
    monkeypatch.setattr(feed, "_file_frames", by_spark)
    none: Any = None
    exact = {"shipped_rows": FILES * ROWS, "delta_bytes": decoded_bytes(changes)}
    exact["read_files"] = FILES
    assert feed.change_frame(none, changes, Limits(**exact)) == "here"
    for name, value in exact.items():
        with pytest.raises(Files):
            feed.change_frame(none, changes, Limits(**{**exact, name: value - 1}))


def test_compaction(tmp_path: Path, lake: Lake, plan: ScanPlan) -> None:
    asked = []

    class Executors:
        def living(self, *_: object) -> None:
            asked.append("living")
            raise OSError

    executors: Any = Executors()
    for most in (plan.bytes - 1, plan.bytes):
        limits = Limits(written_bytes=most)
        settings = Settings(inline_row_limit=1, small_files=0, limits=limits)
        with connect(tmp_path / "lake", settings=settings) as again, suppress(OSError):
            compact(again._catalog, "t", executors=executors)
    assert asked == ["living"]
    assert len(lake._catalog.scan("t").files) == 1


def test_rows_in_the_catalog(tmp_path: Path) -> None:
    rows = pa.table({"id": range(ROWS)})
    for most, files in ((1 << 20, 0), (8, 1)):
        with connect(tmp_path / f"lake{most}", settings=Settings(inline_bytes=most)) as lake:
            lake.sql("CREATE TABLE t (id BIGINT)")
            lake.append("t", rows)
            assert len(lake._catalog.scan("t").files) == files
