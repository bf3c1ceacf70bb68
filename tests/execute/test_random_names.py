"""Random ALTERs, writes and filters on the lake and on DuckDB side by side: names never mislead."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from spark_trickle import Lake, Limits, Settings, connect
from spark_trickle.storage.manifest import file_list, names
from spark_trickle.storage.versions import planning, staging
from support import duck as outside

pytestmark = pytest.mark.spark

SETTINGS = Settings(inline_row_limit=3, inline_delete_limit=3, limits=Limits(written_bytes=0))
NAMES = "abcd"
STEPS, SEEDS = 7, (4, 5, 7)


@dataclass
class Walk:
    lake: Lake
    duck: duckdb.DuckDBPyConnection
    random: Random
    columns: list[str] = field(default_factory=lambda: ["a", "b"])
    values: list[int] = field(default_factory=lambda: [0])
    asked: list[tuple[int, str, int]] = field(default_factory=list)
    """Versions and conditions, and how many rows met them."""
    numbers: Any = field(default_factory=lambda: count(1))

    def step(self) -> None:
        """One or more statements, sometimes in a transaction."""
        batch = self.statements()
        if self.random.random() < 0.3:
            batch += self.statements()
            with self.lake.transaction() as tx:
                for sql in batch:
                    self.both(tx, sql)
        else:
            for sql in batch:
                self.both(self.lake, sql)
        if self.random.random() < 0.3:
            self.lake.compact("t")

    def both(self, ours: Any, sql: str) -> None:
        expected = self.duck.execute(sql).fetchall()
        found = ours.sql(sql)
        if not sql.startswith("ALTER"):
            assert found == expected[0][0], sql

    def statements(self) -> list[str]:
        kind = self.random.choice(["insert", "insert", "change", "free", "swap", "rename", "add"])
        if kind == "insert":
            return [self.insert()]
        if kind == "change":
            column, where = self.random.choice(self.columns), self.condition()
            new = f"UPDATE t SET {column} = {self.value()} WHERE {where}"
            return [self.random.choice([new, f"DELETE FROM t WHERE {where} AND k % 3 = 0"])]
        return [f"ALTER TABLE t {action}" for action in self.actions(kind)]

    def actions(self, kind: str) -> list[str]:
        free = [name for name in NAMES if name not in map(str.lower, self.columns)]
        old = self.random.choice(self.columns)
        new = self.random.choice((str.lower, str.upper))(self.random.choice(free or "x"))
        if kind == "swap" and len(self.columns) > 1:
            one, other = self.random.sample(self.columns, 2)
            return [
                f"RENAME COLUMN {one} TO other",
                f"RENAME COLUMN {other} TO {one}",
                f"RENAME COLUMN other TO {other}",
            ]
        if kind == "add" and free:
            self.columns.append(new)
            return [f"ADD COLUMN {new} INT"]
        self.columns.remove(old)
        if kind == "rename" and free:
            self.columns.append(new)
            return [f"RENAME COLUMN {old} TO {new}"]
        self.columns.append(old)
        return [f"DROP COLUMN {old}", f"ADD COLUMN {old} INT"]

    def value(self) -> int:
        self.values.append(1000 * next(self.numbers))
        return self.values[-1]

    def insert(self) -> str:
        rows = self.random.choice((2, 20, 20))
        parts = [f"CAST({self.value()} + id AS INT) AS {name}" for name in self.columns]
        shown = [self.random.choice((part, part, f"NULL AS {n}")) for part, n in zip(parts, self.columns, strict=True)]  # fmt: skip
        into = ", ".join(["k", *self.columns])
        return (
            f"INSERT INTO t ({into}) SELECT id AS k, {', '.join(shown)} FROM range({rows}) AS r(id)"
        )

    def condition(self) -> str:
        column, value = self.random.choice(self.columns), self.random.choice(self.values)
        tests = ("IS NULL", "IS NOT NULL", f"= {value + 1}", f">= {value}", f"< {value}")
        return f"{column} {self.random.choice(tests)}"

    def check(self) -> list[str]:
        """The conditions, of now and of earlier versions, that Spark does not judge as DuckDB does."""
        version = self.lake.version
        earlier = self.random.sample(self.asked, min(4, len(self.asked)))
        for where in {self.condition() for _ in range(6)}:
            rows = self.duck.execute(f"SELECT count(*) FROM t WHERE {where}").fetchone()
            assert rows is not None
            self.asked.append((version, where, rows[0]))
        asked = [*earlier, *(one for one in self.asked if one[0] == version)]
        parts = [
            f"SELECT {i} i, count(*) n FROM t{'' if v == version else f' VERSION AS OF {v}'} WHERE {where}"
            for i, (v, where, _) in enumerate(asked)
        ]
        found = {row.i: row.n for row in self.lake.sql(" UNION ALL ".join(parts)).collect()}
        return [f"{one}: {found[i]}" for i, one in enumerate(asked) if found[i] != one[2]]


def walked(folder: Path, spark: Any, seed: int, steps: int) -> list[str]:
    """What differed first."""
    with connect(folder, spark=spark, settings=SETTINGS) as lake, duckdb.connect() as duck:
        walk = Walk(lake, duck, Random(seed))
        for one in (lake.sql, duck.execute):
            one("CREATE TABLE t (k BIGINT, a INT, b INT)")
        walk.both(lake, walk.insert())
        for _ in range(steps):
            try:
                walk.step()
                different = walk.check()
            except AssertionError as wrong:
                return [str(wrong)]
            if different:
                return different
        order = ", ".join(["k", *walk.columns])
        (seen,) = outside.read(folder / "catalog.sqlite", [f"SELECT {order} FROM t"])
        expected = duck.execute(f"SELECT {order} FROM t").fetchall()
        as_text = Counter(tuple(None if v is None else str(v) for v in row) for row in expected)
        assert Counter(map(tuple, seen)) == as_text
        return []


@pytest.mark.parametrize("seed", SEEDS)
def test_same_as_duckdb(tmp_path, spark, seed):
    assert walked(tmp_path / "lake", spark, seed, STEPS) == []


def test_without_a_doubt_rows_are_lost(tmp_path, spark, monkeypatch):
    """The control: what this walk does is seen where files are read by the names of now."""
    for module in (names, file_list, planning):
        monkeypatch.setattr(module, "in_doubt", lambda *_: frozenset())
    monkeypatch.setattr(staging, "_doubtful", lambda *_: frozenset())
    assert any(walked(tmp_path / str(seed), spark, seed, STEPS) for seed in SEEDS)
