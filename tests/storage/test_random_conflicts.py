"""Random transactions side by side, with compactions between: who conflicts is known beforehand.

The model knows nothing of files: a row has a name, and a counter that each UPDATE raises. A
transaction must be refused exactly if it changed a row that another one changed after the version
it read, or emptied the table while others wrote; otherwise its changes are all there.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from spark_trickle.errors import CommitConflictError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import maintenance
from spark_trickle.storage.versions.transaction import Transaction
from support import lakes

TUNED = Settings(inline_row_limit=3, inline_delete_limit=4)
SLOTS = st.integers(0, 2)
Rows = dict[int, int]


@dataclass
class Open:
    """A transaction, and what it has done as the model sees it."""

    tx: Transaction
    sees: Rows
    changed: set[int] = field(default_factory=set)
    added: bool = False
    emptied: bool = False
    others: set[int] = field(default_factory=set)
    """Rows that others changed since the version it reads."""
    moved: bool = False


class SideBySide(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lake-"))
        self.catalog = Catalog.open(str(self.folder), settings=TUNED)
        self.rows: Rows = {}
        self.names = 0
        self.open: dict[int, Open] = {}
        self.committed: dict[int, Rows] = {}
        with self.catalog.begin() as tx:
            tx.create_table("t", [NewColumn("k", "bigint"), NewColumn("n", "bigint")])
        for count in (2, 6):
            with self.catalog.begin() as tx:
                self.rows |= self._insert(tx, count)
        self.committed[self.catalog.version()] = dict(self.rows)

    def _insert(self, tx: Transaction, count: int) -> Rows:
        new = dict.fromkeys(range(self.names, self.names + count), 0)
        self.names += count
        rows = {"k": pa.array(new, pa.int64()), "n": pa.array(new.values(), pa.int64())}
        tx.insert_rows("t", pa.table(rows))
        return new

    def _at(self, slot: int) -> Open:
        if slot not in self.open:
            self.open[slot] = Open(self.catalog.begin(), dict(self.rows))
        return self.open[slot]

    @rule(slot=SLOTS, count=st.integers(1, 7))
    def insert(self, slot: int, count: int) -> None:
        at = self._at(slot)
        at.sees |= self._insert(at.tx, count)
        at.added = True

    @rule(slot=SLOTS, part=st.integers(0, 4), kind=st.sampled_from(["update", "delete"]))
    def change(self, slot: int, part: int, kind: str) -> None:
        at = self._at(slot)
        hit = {k for k in at.sees if k % 5 == part}
        update = kind == "update"
        found = lakes.modify(
            at.tx,
            "t",
            lambda r: r["k"] in hit,
            (lambda r: r | {"n": r["n"] + 1}) if update else None,
        )
        assert found == len(hit)
        at.changed |= hit
        at.sees = {k: n + (k in hit) for k, n in at.sees.items() if update or k not in hit}

    @rule(slot=SLOTS)
    def empty(self, slot: int) -> None:
        at = self._at(slot)
        if len(at.sees) < 12:
            return
        at.tx.truncate("t")
        at.emptied, at.sees = True, {}

    @rule()
    def compact(self) -> None:
        maintenance.compact(self.catalog, "t")

    @rule(slot=SLOTS)
    def rebase(self, slot: int) -> None:
        """As READ COMMITTED does before each statement."""
        at = self._at(slot)
        if self._refused(at):
            with pytest.raises(CommitConflictError):
                at.tx.rebase()
            at.tx.rollback()
            del self.open[slot]
            return
        at.sees = self._merged(at)
        at.tx.rebase()
        at.others, at.moved = set(), False

    @rule(slot=SLOTS, newest=st.booleans())
    def commit(self, slot: int, newest: bool) -> None:
        at = self._at(slot)
        if self._refused(at):
            with pytest.raises(CommitConflictError, match="table t"):
                at.tx.commit(newest=newest)
            del self.open[slot]
            return
        before, after = dict(self.rows), self._merged(at)
        at.tx.commit(newest=newest)
        del self.open[slot]
        self.rows = after
        differs = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
        for other in self.open.values():
            other.others |= {*differs, *at.changed, *(before if at.emptied else ())}
            other.moved |= bool(differs) or bool(at.changed) or at.emptied or at.added
        self.committed[self.catalog.version()] = after

    def _refused(self, at: Open) -> bool:
        return (at.emptied and at.moved) or bool(at.changed & at.others)

    def _merged(self, at: Open) -> Rows:
        """The newest rows with what the transaction did."""
        if at.emptied or not at.moved:
            return dict(at.sees)
        kept = {k: n for k, n in self.rows.items() if k not in at.changed}
        mine = {k: n for k, n in at.sees.items() if k in at.changed or k not in self._known(at)}
        return kept | mine

    def _known(self, at: Open) -> set[int]:
        """Rows that were committed in the version it reads."""
        base = max(v for v in self.committed if v <= at.tx.base)
        return set(self.committed[base])

    @invariant()
    def everybody_sees_what_he_should(self) -> None:
        if not hasattr(self, "catalog"):
            return
        assert lakes.contents(self.catalog, "t") == lakes.bag(self.rows.items())
        for at in self.open.values():
            seen = [(row["k"], row["n"]) for row, _, _ in lakes.located(at.tx.scan("t"))]
            assert lakes.bag(seen) == lakes.bag(at.sees.items())

    def teardown(self) -> None:
        if not hasattr(self, "catalog"):
            return
        for version, rows in self.committed.items():
            assert lakes.contents(self.catalog, "t", version) == lakes.bag(rows.items()), version
        self.catalog.close()
        shutil.rmtree(self.folder)


TestSideBySide = SideBySide.TestCase
TestSideBySide.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
