"""Random DML on a lake beside the same DML on tables in DuckDB's memory."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import maintenance
from support import lakes

KEYS = st.integers(0, 6)
TUNED = Settings(inline_row_limit=4, inline_delete_limit=6, retention_seconds=0.0)


class LakeBesideDuckDB(RuleBasedStateMachine):
    """Both get the same statements; contents and changes are compared at every version."""

    @initialize(keyed=st.booleans())
    def open(self, keyed: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lake-"))
        self.catalog = Catalog.open(str(self.folder), settings=TUNED)
        self.model = duckdb.connect()
        self.model.execute("CREATE TABLE t (k INT, v BIGINT, s VARCHAR)")
        self.columns = 3
        with self.catalog.begin() as tx:
            columns = [NewColumn("k", "int"), NewColumn("v", "bigint"), NewColumn("s", "string")]
            tx.create_table("t", columns, cluster_by=["k"] if keyed else [])
        self.expected: dict[int, Counter[Any]] = {}
        self.shapes: dict[int, int] = {}
        self.note()

    def note(self) -> None:
        version = self.catalog.version()
        rows = self.model.execute("SELECT * FROM t").fetchall()
        self.expected[version] = lakes.bag(rows)
        self.shapes[version] = self.columns

    def both(self, tx: Any, kind: str, key: int, count: int) -> None:
        if kind == "insert":
            rows = [(key + i % 3, i, None if i % 4 == 0 else f"s{i}") for i in range(count)]
            table = {
                "k": [r[0] for r in rows],
                "v": [r[1] for r in rows],
                "s": [r[2] for r in rows],
            }
            tx.insert_rows("t", pa.table(table, schema=_SCHEMA))
            for row in rows:
                self.model.execute("INSERT INTO t (k, v, s) VALUES (?, ?, ?)", row)
            return
        changed: Any = (lambda r: r | {"v": r["v"] + 1}) if kind == "update" else None
        hits = lakes.modify(tx, "t", lambda r: r["k"] == key, changed)
        where = "WHERE k = ?"
        if kind == "update":
            found = self.model.execute(f"UPDATE t SET v = v + 1 {where}", (key,)).fetchone()
        else:
            found = self.model.execute(f"DELETE FROM t {where}", (key,)).fetchone()
        assert found == (hits,)

    @rule(
        steps=st.lists(
            st.tuples(
                st.sampled_from(["insert", "insert", "update", "delete"]), KEYS, st.integers(1, 9)
            ),
            min_size=1,
            max_size=3,
        )
    )
    def transaction(self, steps: list[tuple[str, int, int]]) -> None:
        with self.catalog.begin() as tx:
            for kind, key, count in steps:
                self.both(tx, kind, key, count)
            own = lakes.bag(r.values() for r in _plain(tx))
            assert own == lakes.bag(self.model.execute("SELECT * FROM t").fetchall())
        self.note()

    @rule(key=KEYS, count=st.integers(1, 9))
    def savepoint(self, key: int, count: int) -> None:
        with self.catalog.begin() as tx:
            self.both(tx, "insert", key, 2)
            mark = tx.savepoint()
            rows = {"k": [key] * count, "v": [0] * count, "s": ["gone"] * count}
            tx.insert_rows("t", pa.table(rows, schema=_SCHEMA))
            lakes.modify(tx, "t", lambda r: r["k"] == key, None)
            tx.rollback_to(mark)
            self.both(tx, "update", key, 0)
        self.note()

    @rule()
    def truncate(self) -> None:
        with self.catalog.begin() as tx:
            tx.truncate("t")
            self.model.execute("DELETE FROM t")
            self.both(tx, "insert", 1, 2)
        self.note()

    @rule()
    def add_column(self) -> None:
        if self.columns < 6:
            name = f"c{self.columns}"
            with self.catalog.begin() as tx:
                tx.add_column("t", NewColumn(name, "int", initial=7))
            self.model.execute(f"ALTER TABLE t ADD COLUMN {name} INT DEFAULT 7")
            self.model.execute(f"ALTER TABLE t ALTER COLUMN {name} DROP DEFAULT")
            self.columns += 1
            self.note()

    @rule()
    def compact(self) -> None:
        before = self.catalog.version()
        maintenance.compact(self.catalog, "t")
        assert self.catalog.changes("t", before).empty
        self.note()

    @rule(share=st.floats(0, 1))
    def expire(self, share: float) -> None:
        oldest, newest = min(self.expected), max(self.expected)
        keep = oldest + int((newest - oldest) * share)
        left = maintenance.expire(self.catalog, keep_from=keep)
        assert left == keep
        self.expected = {v: rows for v, rows in self.expected.items() if v >= keep}
        maintenance.remove_orphans(self.catalog, grace_seconds=-60)

    @invariant()
    def newest_agrees(self) -> None:
        if hasattr(self, "expected"):
            version = self.catalog.version()
            assert lakes.contents(self.catalog, "t", version) == self.expected[version]

    def teardown(self) -> None:
        if not hasattr(self, "expected"):
            return
        with Catalog.open(str(self.folder)) as fresh:
            for version, rows in self.expected.items():
                assert lakes.contents(fresh, "t", version) == rows, version
            for before in self.expected:
                for after in (v for v in self.expected if v >= before):
                    if self.shapes[before] == self.shapes[after]:
                        wanted = lakes.difference(self.expected[before], self.expected[after])
                        assert lakes.net(fresh, "t", before, after) == wanted, (before, after)
            if len(self.expected) > 4:
                lakes.agrees_with_duckdb(fresh, self.folder, "t", feed=False)
        self.catalog.close()
        shutil.rmtree(self.folder)


_SCHEMA = pa.schema({"k": pa.int32(), "v": pa.int64(), "s": pa.string()})


def _plain(tx: Any) -> list[dict[str, Any]]:
    from spark_trickle.storage.read.reader import read_scan

    return list(read_scan(tx.scan("t")).to_pylist())


LakeBesideDuckDB.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
TestLakeBesideDuckDB = LakeBesideDuckDB.TestCase
