"""Rows as text, and back again by other programs' readers."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv as reader

from spark_trickle import formats

ROWS = pa.table(
    {
        "t": pa.array(["NULL", None, "", 'a,"b"\nc', " x "]),
        "n": pa.array([1, None, -(2**63), 2**63 - 1, 0], pa.int64()),
        "d": pa.array([Decimal("10.00"), None, Decimal("-0.01"), Decimal("1E+3"), Decimal(0)]),
        "f": pa.array([1.5, None, float("nan"), float("inf"), 0.1]),
        "at": pa.array([datetime(2024, 1, 2, tzinfo=UTC), None, None, None, None]),
        "on": pa.array([date(1, 1, 1), None, None, None, None]),
        "list": pa.array([["a|b"], None, [], [None], ["NULL"]]),
        "bytes": pa.array([b"\x00\xff", None, b"", b"a", b"b"]),
    }
)


def _written(function) -> str:
    file = io.StringIO()
    function(ROWS, file)
    return file.getvalue()


def test_csv_tells_null_from_empty_and_from_its_name() -> None:
    options = reader.ConvertOptions(
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        column_types={"t": pa.string(), "n": pa.int64(), "d": pa.decimal128(10, 2)},
    )
    parsed = reader.ParseOptions(newlines_in_values=True)
    back = reader.read_csv(
        io.BytesIO(_written(formats.csv).encode()), parse_options=parsed, convert_options=options
    )
    for name in ("t", "n", "d"):
        assert back.column(name).to_pylist() == ROWS.column(name).to_pylist(), name


def test_json_is_json() -> None:
    back = json.loads(_written(formats.json_array))
    lines = [json.loads(line) for line in _written(formats.json_lines).splitlines()]
    assert back == lines
    assert [row["t"] for row in back] == ROWS.column("t").to_pylist()
    assert [row["n"] for row in back] == ROWS.column("n").to_pylist()
    assert back[0]["d"] == "10.00"
    assert [back[2]["f"], back[3]["f"], back[4]["f"]] == ["nan", "inf", 0.1]
    assert back[0]["list"] == ["a|b"]
    assert json.loads("[]") == []


def test_people_can_tell_null_from_a_text() -> None:
    text, number = formats.cells(ROWS)[:2]
    assert text[:3] == ["'NULL'", "NULL", ""]
    assert number[1] == "NULL"


def test_a_record_is_a_line() -> None:
    assert len(_written(formats.plain).splitlines()) == 2 + ROWS.num_rows
    marked = _written(formats.markdown).splitlines()
    assert len(marked) == 2 + ROWS.num_rows
    assert "a\\|b" in marked[2]


def test_no_rows() -> None:
    file = io.StringIO()
    formats.json_array(ROWS.slice(0, 0), file)
    assert json.loads(file.getvalue()) == []
    for function in (formats.csv, formats.plain, formats.markdown, formats.json_lines):
        function(ROWS.slice(0, 0), file)
