"""Values of every flat type survive, inlined and in files, for us and for DuckDB."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import BindError, InvalidDataError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files.types import arrow_type, parse_spark
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn
from support import duck

INF = float("inf")
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False, None],
    "tinyint": [-128, 127, 0, None],
    "smallint": [-(2**15), 2**15 - 1, None],
    "int": [-(2**31), 2**31 - 1, None],
    "bigint": [-(2**63), 2**63 - 1, None],
    "float": [
        1.5,
        -0.0,
        3.4028234663852886e38,
        1.401298464324817e-45,
        INF,
        -INF,
        float("nan"),
        None,
    ],
    "double": [0.1, -0.0, 5e-324, 1.7976931348623157e308, INF, -INF, float("nan"), None],
    "decimal(5,2)": [Decimal("999.99"), Decimal("-0.01"), Decimal("0.00"), None],
    "decimal(18,0)": [Decimal(10**18 - 1), Decimal(-(10**18) + 1), None],
    "decimal(38,10)": [
        Decimal("9999999999999999999999999999.9999999999"),
        Decimal("-0.0000000001"),
        None,
    ],
    "string": ["", "it's", 'say "x"', "two\nlines", "ünï 🦆", "NULL", "\\x41", "a\0b", "  ", None],
    "binary": [b"", b"\x00\xff", b"'\\x", None],
    "date": [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(1970, 1, 1), None],
    "timestamp": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        None,
    ],
    "timestamp_ntz": [
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime(2024, 2, 29, 12, 30, 0, 500000),
        None,
    ],
}


def _columns() -> list[NewColumn]:
    return [NewColumn("n", "int"), *(NewColumn(f"c{i}", t) for i, t in enumerate(VALUES))]


def _rows(catalog: Catalog, *, stored: bool = False) -> pa.Table:
    """Every value of every type at least once; as it is ``stored``, where -0.0 is 0.0."""
    columns = catalog.table("t").columns
    count = max(len(v) for v in VALUES.values())
    data: dict[str, Any] = {"n": pa.array(range(count), pa.int32())}
    for i, values in enumerate(VALUES.values()):
        cycled = [values[j % len(values)] for j in range(count)]
        if stored:
            cycled = [0.0 if isinstance(v, float) and v == 0 else v for v in cycled]
        data[f"c{i}"] = pa.array(cycled, arrow_type(columns[i + 1]))
    return pa.table(data)


@pytest.mark.parametrize("limit", [1000, 0], ids=["inlined", "in a file"])
def test_all_values_survive(open_lake: Any, limit: int) -> None:
    catalog = open_lake(inline_row_limit=limit)
    with catalog.begin() as tx:
        tx.create_table("t", _columns())
    rows = _rows(catalog)
    with catalog.begin() as tx:
        tx.insert_rows("t", rows)
    rows = _rows(catalog, stored=True)
    plan = catalog.scan("t")
    assert bool(plan.files) == (limit == 0)
    _equal(read_scan(plan).sort_by("n"), rows)
    fresh = open_lake()
    _equal(read_scan(fresh.scan("t")).sort_by("n"), rows)


def _equal(found: pa.Table, wanted: pa.Table) -> None:
    assert found.schema.names == wanted.schema.names
    for name in wanted.schema.names:
        left, right = found[name].to_pylist(), wanted[name].to_pylist()
        assert [repr(v) for v in left] == [repr(v) for v in right], name


@pytest.mark.parametrize("limit", [1000, 0], ids=["inlined", "in a file"])
def test_duckdb_reads_all_values(location: tuple[str, str], limit: int) -> None:
    with Catalog.open(*location, settings=Settings(inline_row_limit=limit)) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", _columns())
        rows = _rows(catalog, stored=True).to_pylist()
        with catalog.begin() as tx:
            tx.insert_rows("t", _rows(catalog))
    texts = ", ".join(f"CAST(c{i} AS VARCHAR)" for i in range(len(VALUES)))
    place = duck.catalog_of(location[0])
    (found,) = duck.read(place, [f"SELECT {texts} FROM t ORDER BY n"])
    for i, kind in enumerate(VALUES):
        theirs = [row[i] for row in found]
        ours = [row[f"c{i}"] for row in rows]
        if kind in ("float", "double"):
            cast = pa.float32() if kind == "float" else pa.float64()
            texts_back = [None if t is None else float(t) for t in theirs]
            assert repr(pa.array(texts_back, cast).to_pylist()) == repr(ours), kind
        elif kind == "binary":
            assert [None if t is None else _unblob(t) for t in theirs] == ours
        else:
            assert theirs == [None if v is None else _trimmed(v) for v in ours], kind


def _text(value: Any) -> str | None:
    """A Python value as DuckDB writes it."""
    match value:
        case bool():
            return str(value).lower()
        case Decimal():
            return format(value, "f")
        case datetime():
            return value.isoformat(" ").replace("+00:00", "+00")
        case bytes():
            return "".join(f"\\x{b:02X}" for b in value)
        case _:
            return None if value is None else str(value)


def _trimmed(value: Any) -> str | None:
    text = _text(value)
    if isinstance(value, datetime) and text is not None and "." in text:
        head, tail = text.split(".")
        return head + "." + tail[:6].rstrip("0") + tail[6:]
    return text


def _unblob(text: str) -> bytes:
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def test_filters_of_duckdb_agree_with_our_statistics(location: tuple[str, str]) -> None:
    """A bound that is too narrow would make DuckDB lose rows."""
    with Catalog.open(*location, settings=Settings(inline_row_limit=3)) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", _columns())
        rows = _rows(catalog)
        for start in range(0, rows.num_rows, 5):
            with catalog.begin() as tx:
                tx.insert_rows("t", rows.slice(start, 5))
                tx.insert_rows("t", rows.slice(start, 1))
    queries, wanted = [], []
    for i, (kind, values) in enumerate(VALUES.items()):
        for value in values:
            if value is None:
                condition = f"c{i} IS NULL"
            elif kind == "binary" or "\0" in str(value):
                continue  # DuckDB 1.5.5 cannot push such literals into its catalog query
            else:
                condition = f"c{i} = {_sql(value, kind)}"
            queries.append(f"SELECT count(*) FROM t WHERE {condition}")
            held = rows[f"c{i}"].to_pylist()
            same = sum(1 for v in held if v == value or repr(v) == repr(value))
            wanted.append(same)
    found = [int(a[0][0]) for a in duck.read(duck.catalog_of(location[0]), queries)]
    for query, n, least in zip(queries, found, wanted, strict=True):
        assert n >= least > 0, query


def _sql(value: Any, kind: str) -> str:
    names = {"timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP", "string": "VARCHAR"}
    text = (_text(value) or "").replace("'", "''")
    return f"CAST('{text}' AS {names.get(kind, kind)})"


ODD_NAMES = [
    "select", "a b", 'a"b', "a`b", "ünï", "a.b", "50%?", "row_id", "begin_snapshot", "end_snapshot",
    "x" * 90, "new\nline",
]  # fmt: skip


def test_odd_column_names(catalog: Catalog, folder: Path) -> None:
    for i, name in enumerate(ODD_NAMES):
        with catalog.begin() as tx:
            tx.create_table(f"t{i}", [NewColumn("id", "int"), NewColumn(name, "string")])
        with catalog.begin() as tx:
            tx.insert_rows(f"t{i}", pa.table({"id": pa.array([1], pa.int32()), name: ["x"]}))
        assert read_scan(catalog.scan(f"t{i}")).to_pylist() == [{"id": 1, name: "x"}]
    quoted = ['"' + name.replace('"', '""') + '"' for name in ODD_NAMES]
    queries = [f"SELECT {q} FROM t{i}" for i, q in enumerate(quoted)]
    assert duck.read(folder / "catalog.sqlite", queries) == [[["x"]]] * len(ODD_NAMES)


@pytest.mark.parametrize("name", ["__row_id", "__weight", "_ducklake_internal_row_id"])
def test_our_own_column_names_are_refused(catalog: Catalog, name: str) -> None:
    with catalog.begin() as tx, pytest.raises(BindError, match="is reserved"):
        tx.create_table("t", [NewColumn(name.upper(), "int")])


def test_nested_values_go_to_files_and_back(catalog: Catalog, folder: Path) -> None:
    with catalog.begin() as tx:
        tx.create_table(
            "t",
            [
                NewColumn("id", "int"),
                NewColumn("l", "array<int>"),
                NewColumn("s", "struct<a:int,b:array<string>>"),
                NewColumn("m", "map<string,decimal(5,2)>"),
            ],
        )
    columns = catalog.table("t").columns
    assert [c.type for c in columns] == [
        "int",
        "array<int>",
        "struct<a:int,b:array<string>>",
        "map<string,decimal(5,2)>",
    ]
    data = {
        "id": pa.array([1, 2], pa.int32()),
        "l": pa.array([[1, None], None], arrow_type(columns[1])),
        "s": pa.array([{"a": 1, "b": ["x"]}, None], arrow_type(columns[2])),
        "m": pa.array([[("k", Decimal("1.50"))], []], arrow_type(columns[3])),
    }
    with catalog.begin() as tx:
        tx.insert_rows("t", pa.table(data))
    plan = catalog.scan("t")
    assert len(plan.files) == 1
    assert read_scan(plan).to_pylist() == pa.table(data).to_pylist()
    queries = ["SELECT id, l[1], s.a, s.b[1], m['k'] FROM t ORDER BY id"]
    (found,) = duck.read(folder / "catalog.sqlite", queries)
    assert found == [["1", "1", "1", "x", "1.50"], ["2", None, None, None, None]]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("tinyint", pa.array([300])),
        ("int", pa.array([2**40])),
        ("int", pa.array([1.5])),
        ("int", pa.array(["1"])),
        ("string", pa.array([1])),
        ("decimal(5,2)", pa.array([Decimal("1.234")])),
        ("decimal(5,2)", pa.array([Decimal("12345.00")])),
        ("date", pa.array(["2024-01-01"])),
        ("boolean", pa.array([1])),
        ("timestamp", pa.array([datetime(2024, 1, 1)])),
        ("array<int>", pa.array([["x"]])),
    ],
)
def test_wrong_types_are_refused(catalog: Catalog, kind: str, values: pa.Array) -> None:
    with catalog.begin() as tx:
        tx.create_table("things", [NewColumn("c", kind)])
        with pytest.raises(InvalidDataError, match=r"column c .* of table things"):
            tx.insert_rows("things", pa.table({"c": values}))


def test_null_and_unknown_columns_are_refused(catalog: Catalog) -> None:
    with catalog.begin() as tx:
        tx.create_table("t", [NewColumn("a", "int", nullable=False), NewColumn("b", "int")])
        with pytest.raises(InvalidDataError, match="NULL in column a of table t"):
            tx.insert_rows("t", pa.table({"a": pa.array([None], pa.int32())}))
        with pytest.raises(BindError, match="table t has no column z") as caught:
            tx.insert_rows("t", pa.table({"a": [1], "z": [2]}))
        assert caught.value.hint == "columns: a, b"
        assert tx.insert_rows("t", pa.table({"A": [1]})) == 1


@pytest.mark.parametrize(
    "text",
    ["interval", "void", "variant", "decimal(39,0)", "decimal(5,6)", "array<>", "map<int>", "int int",
     "struct<a>", "time(6)"],
)  # fmt: skip
def test_types_we_cannot_keep(text: str) -> None:
    with pytest.raises(InvalidDataError, match="cannot be a column"):
        parse_spark(text)
