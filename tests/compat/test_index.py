"""Which index pg_ivm would make, as the columns that files are sorted by."""

from __future__ import annotations

import pytest
import sqlglot

from spark_trickle.compat.index import index_for
from spark_trickle.storage.records import Table

TABLES = [
    Table(1, "main", "a", (), ("i",)),
    Table(2, "main", "b", (), ("i", "j")),
    Table(3, "main", "n", ()),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT v, sum(i) FROM a GROUP BY v", ("v",)),
        ("SELECT v AS w, count(*) FROM a GROUP BY 1", ("w",)),
        ("SELECT sum(i) FROM a GROUP BY v", ()),
        ("SELECT DISTINCT v, i FROM a", ("v", "i")),
        ("SELECT a.i, b.i AS k, b.j FROM a JOIN b ON a.i = b.i", ("i", "k", "j")),
        ("SELECT a.i, b.j FROM a JOIN b ON a.i = b.i", ()),
        ("SELECT * FROM a", ("i",)),
        ("SELECT i FROM n", ()),
        ("SELECT q.i FROM (SELECT i FROM a) AS q", ()),
        ("SELECT a.i FROM a, (SELECT 1 AS x) AS q", ()),
        ("WITH q AS (SELECT i FROM a) SELECT i FROM q", ()),
        ("SELECT i FROM a UNION SELECT i FROM b", ()),
        ("SELECT g FROM generate_series(1, 2) AS g", ()),
        ("SELECT 1 AS one", ()),
        ("SELECT count(*) FROM a", ()),
        ("SELECT r.i FROM a AS r LEFT JOIN (b CROSS JOIN n) ON true", ()),
    ],
)
def test_index(query: str, expected: tuple[str, ...]) -> None:
    tree = sqlglot.parse_one(query, read="postgres")
    assert isinstance(tree, sqlglot.exp.Query)
    assert index_for(tree, TABLES).columns == expected
