"""``information_schema``: the catalog as tables, in the names of the SQL standard."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from spark_trickle.errors import TrickleError
from spark_trickle.execute.show import definitions, listing
from spark_trickle.execute.show.listing import Streams
from spark_trickle.execute.states import StatementState
from spark_trickle.storage.records import Table, View

SCHEMA = "information_schema"
CATALOG = "lake"
_TEXT, _NUMBER = pa.string(), pa.int64()
_NAME = (("table_catalog", _TEXT), ("table_schema", _TEXT), ("table_name", _TEXT))


def relation(name: str, state: StatementState, streams: Streams) -> pa.Table | None:
    """The relation of that name, or None."""
    found = _RELATIONS.get(name.lower())
    if found is None:
        return None
    schema, rows = found
    return pa.Table.from_pylist(rows(state, streams), schema)


def _schemata(state: StatementState, _: Streams) -> list[dict[str, Any]]:
    names = [*listing.schemas(state), "trickle", SCHEMA]
    return [{"catalog_name": CATALOG, "schema_name": name} for name in names]


def _named(thing: Table | View) -> dict[str, Any]:
    return {"table_catalog": CATALOG, "table_schema": thing.schema, "table_name": thing.name}


def _things(state: StatementState) -> list[Table | View]:
    found: list[Table | View] = [*listing.visible(state), *listing.views(state)]
    return sorted(found, key=lambda thing: thing.full_name.key)


def _tables(state: StatementState, streams: Streams) -> list[dict[str, Any]]:
    kinds = streams.kinds()
    words = {listing.TABLE: "BASE TABLE"}
    return [
        {
            **_named(thing),
            "table_type": words.get(listing.kind_of(thing, kinds), listing.kind_of(thing, kinds)),
            "is_insertable_into": "YES" if listing.kind_of(thing, kinds) == "TABLE" else "NO",
            "comment": thing.comment,
        }
        for thing in _things(state)
    ]


def _columns(state: StatementState, _: Streams) -> list[dict[str, Any]]:
    return [row for thing in _things(state) for row in _columns_of(thing, state)]


def _columns_of(thing: Table | View, state: StatementState) -> list[dict[str, Any]]:
    if isinstance(thing, View):
        try:
            known = definitions.columns_of_view(thing, state)
        except TrickleError:  # of a view that no longer works nothing is known
            known = []
        rows = [
            {"column_name": name, "is_nullable": "YES", **_typed(kind, None)}
            for name, kind in known
        ]
    else:
        rows = [
            {
                "column_name": column.name,
                "column_default": column.default,
                "is_nullable": "YES" if column.nullable else "NO",
                "comment": column.comment,
                **_typed(column.type, column.length),
            }
            for column in thing.columns
        ]
    return [{**_named(thing), "ordinal_position": i, **row} for i, row in enumerate(rows, 1)]


_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "float": 24, "double": 53}


def _typed(kind: str | None, length: int | None) -> dict[str, Any]:
    decimal = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", kind or "")
    precision = int(decimal[1]) if decimal else _BITS.get(kind or "")
    exact = decimal is not None
    return {
        "data_type": None if kind is None else re.split(r"[(<]", kind)[0].upper(),
        "full_data_type": kind if length is None else f"varchar({length})",
        "character_maximum_length": length,
        "numeric_precision": precision,
        "numeric_precision_radix": None if precision is None else 10 if exact else 2,
        "numeric_scale": int(decimal[2])
        if decimal
        else 0
        if (kind or "").endswith("int")
        else None,
    }


def _views(state: StatementState, _: Streams) -> list[dict[str, Any]]:
    return [
        {**_named(view), "view_definition": view.sql, "is_updatable": "NO"}
        for view in listing.views(state)
    ]


RowsOf = Callable[[StatementState, Streams], list[dict[str, Any]]]
_RELATIONS: Mapping[str, tuple[pa.Schema, RowsOf]] = {
    "schemata": (pa.schema([("catalog_name", _TEXT), ("schema_name", _TEXT)]), _schemata),
    "tables": (
        pa.schema(
            [
                *_NAME,
                ("table_type", _TEXT),
                ("is_insertable_into", _TEXT),
                ("comment", _TEXT),
            ]
        ),
        _tables,
    ),
    "columns": (
        pa.schema(
            [
                *_NAME,
                ("column_name", _TEXT),
                ("ordinal_position", _NUMBER),
                ("column_default", _TEXT),
                ("is_nullable", _TEXT),
                ("data_type", _TEXT),
                ("full_data_type", _TEXT),
                ("character_maximum_length", _NUMBER),
                ("numeric_precision", _NUMBER),
                ("numeric_precision_radix", _NUMBER),
                ("numeric_scale", _NUMBER),
                ("comment", _TEXT),
            ]
        ),
        _columns,
    ),
    "views": (
        pa.schema([*_NAME, ("view_definition", _TEXT), ("is_updatable", _TEXT)]),
        _views,
    ),
}
