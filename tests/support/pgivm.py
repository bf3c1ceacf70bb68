"""Runs a .sql file of PostgreSQL's own SQL in a lake and on a real server, and compares after each step.

The server has no pg_ivm: there ``pgivm.create_immv`` makes a plain view of the query, which is what an
IMMV must equal. Comments steer the next statement: ``-- refused: text`` (the lake refuses it, with this
text in the message; the server does not see it) and ``-- lake only``. ``-- strict`` anywhere opens the
lake with pg_ivm's own refusals.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from spark_trickle import Lake, TrickleError
from spark_trickle.compat.calls import _call_of
from spark_trickle.compat.names import name_and_columns, table_name
from spark_trickle.statements.foreign import foreign_query
from spark_trickle.statements.text.tokens import statement_spans
from support.values import shown

_DIRECTIVE = re.compile(r"^\s*--\s*(refused|lake only)\s*:?\s*(.*)$", re.MULTILINE)


def is_strict(path: Path) -> bool:
    return re.search(r"^--\s*strict\s*$", path.read_text(), re.MULTILINE) is not None


@dataclass
class Twins:
    """One lake and one connection that get the same statements."""

    lake: Lake
    server: Any
    immvs: dict[str, bool] = field(default_factory=dict)
    """By name: whether it is populated."""
    steps: int = 0

    def run_file(self, path: Path) -> None:
        self._session = self.lake.session("postgres")
        schema = f"s_{re.sub(r'[^a-z0-9]', '_', path.stem.lower())}"
        self.server.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        self.server.execute(f"CREATE SCHEMA {schema}")
        self.server.execute(f"SET search_path = {schema}; SET TimeZone = 'UTC'")
        script, last = path.read_text(), 0
        for start, end in statement_spans(script, "postgres"):
            text, notes, last = script[start:end], script[last:start], end
            try:
                self._step(text, notes)
            except (AssertionError, TrickleError) as error:
                raise AssertionError(f"{path.name}: {text}\n{error}") from error
        self._session.end()

    def _step(self, text: str, notes: str) -> None:
        self.steps += 1
        directive = _DIRECTIVE.search(notes)
        if directive is not None and directive[1] == "refused":
            with pytest.raises(TrickleError, match=re.escape(directive[2].strip())):
                self._session.statement(text)
            return
        call = foreign_query(text)
        if call is not None:
            self._call(text, call)
        elif directive is not None:
            self._session.statement(text)
        else:
            self._both(text)
        self.check()

    def _both(self, text: str) -> None:
        ours = self._session.statement(text)
        found = self.server.execute(self._for_views(text))
        if found.description is not None and ours is not None:
            assert bag(ours.collect()) == bag(found.fetchall())
        elif (
            isinstance(ours, int)
            and found.rowcount >= 0
            and not text.upper().lstrip().startswith("TRUNCATE")
        ):
            assert ours == found.rowcount, f"{ours} rows here, {found.rowcount} there"

    def _for_views(self, text: str) -> str:
        """The server knows an IMMV as a view."""
        for name in list(self.immvs):
            renamed = re.search(
                rf"ALTER\s+TABLE\s+{name}\s+RENAME\s+TO\s+(\w+)", text, re.IGNORECASE
            )
            if renamed:
                self.immvs[renamed[1].lower()] = self.immvs.pop(name)
                return re.sub("ALTER TABLE", "ALTER VIEW", text, flags=re.IGNORECASE)
            if re.search(rf"DROP\s+TABLE\s+(IF\s+EXISTS\s+)?{name}\b", text, re.IGNORECASE):
                del self.immvs[name]
                return re.sub("DROP TABLE", "DROP VIEW", text, flags=re.IGNORECASE)
        dropped = re.search(r"DROP\s+TABLE\s+.*CASCADE", text, re.IGNORECASE)
        if dropped:
            kept = {name.name for name in self.lake.stream_tables()}
            self.immvs = {name: full for name, full in self.immvs.items() if name in kept}
        return text

    def _call(self, text: str, tree: Any) -> None:
        ours = self._session.statement(text).collect()
        called = [_call_of(item.unalias()) for item in tree.expressions]
        for call in called:
            if call is None:
                continue
            if call.name == "create_immv":
                given = [*call.positional, *call.named.values()]
                name, columns = name_and_columns(given[0])
                listed = f" ({', '.join(columns)})" if columns else ""
                self.server.execute(f"CREATE VIEW {name}{listed} AS {given[1]}")
                self.immvs[str(name)] = True
                count = self.server.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
                assert ours[0][0] == count
            elif call.name == "refresh_immv":
                self.immvs[str(table_name(call.positional[0]))] = bool(call.positional[1])

    def check(self) -> None:
        """Every IMMV equals its query."""
        for name, populated in self.immvs.items():
            ours = self._session.statement(f"SELECT * FROM {name}").collect()
            theirs = self.server.execute(f"SELECT * FROM {name}").fetchall() if populated else []
            assert bag(ours) == bag(theirs), (
                f"{name}: {bag(ours) - bag(theirs)} | {bag(theirs) - bag(ours)}"
            )


def bag(rows: Any) -> Counter[Any]:
    return Counter(repr(tuple(shown(value) for value in row)) for row in rows)
