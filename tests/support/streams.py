"""Stream tables in tests: refresh, then demand exact contents and the stated mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pyarrow as pa

from spark_trickle import Lake
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.refresh.by_text import verified_frame
from spark_trickle.maintain.refresh.job import source_size
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import TableName
from support.lakes import located, rows_of


def refreshed(lake: Lake, name: str, *modes: str) -> RefreshReport:
    """Refresh; the contents must be exact and the effective mode one of ``modes``."""
    report = lake.refresh_stream_table(name)
    assert report.effective_mode in modes, report
    assert_exact(lake, name)
    return report


def assert_exact(lake: Lake, *names: str) -> None:
    """The contents equal the defining query at the frontier, row by row."""
    for name in names:
        if not _plainly_equal(lake, name):
            difference = lake.verify(name)
            assert not difference, f"{name} differs:\n{difference.rows.to_pylist()[:5]}"


FEW = 20_000


def _plainly_equal(lake: Lake, name: str) -> bool:
    """Whether few rows, read here, are just those that Spark answers: one query, nothing written.

    What is not plainly the same (-0.0, the order of a map) is for ``verify`` to judge.
    """
    streams = lake._streams
    stream, tx = streams._pinned(name)
    stored = tx.scan(TableName.of(stream.name))
    run = streams._refresher.run(tx, stream.query, stream.dialect, stream.meaning)
    try:
        now = lake._catalog.at(tx.base) if stream.follows else None
        pinned = streams._refresher.pinned(stream, now)
        rows, bytes = source_size(pinned)
        if stored.rows > FEW or rows > FEW:
            return False
        run.reads(bytes, tiny=True)
        compiled = streams._refresher.compile(stream)
        frame = verified_frame(lake._engine, run, stream, compiled, pinned)
        return _bag(frame.toArrow()) == _bag(read_scan(stored))
    finally:
        run.close()
        tx.rollback()


def _bag(found: pa.Table) -> Counter[str]:
    columns = [column.to_pylist() for column in found.columns]
    return Counter(map(repr, zip(*columns, strict=True)))


def rows(lake: Lake, name: str) -> list[tuple[object, ...]]:
    """The contents of a table, sorted."""
    found = lake.table(name).toArrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def change(lake: Lake, changes: Mapping[str, Counter[tuple[object, ...]]]) -> None:
    """Insert and delete rows of several tables in one commit, equal rows as often as stated."""
    tx = lake._catalog.begin()
    for name, weights in changes.items():
        plan = tx.scan(name)
        names = [column.name for column in plan.table.columns]
        missing = Counter({row: -n for row, n in weights.items() if n < 0})
        files: dict[int, list[int]] = {}
        inlined: list[int] = []
        for row, file, position in located(plan):
            key = tuple(row[column] for column in names)
            if missing[key] > 0:
                missing[key] -= 1
                inlined.append(position) if file is None else files.setdefault(file, []).append(
                    position
                )
        assert not +missing, f"the scenario deletes rows that are not there: {missing}"
        if files or inlined:
            tx.delete_rows(name, files, inlined)
        gained = [row for row, n in weights.items() for _ in range(n)]
        if gained:
            values = {c: [row[i] for row in gained] for i, c in enumerate(names)}
            tx.insert_rows(name, rows_of(lake._catalog, name, values))
    tx.commit()
