"""The tables and queries of TPC-H."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.ir.types import Column, TableSchema
from spark_trickle.tpch import queries
from spark_trickle.tpch.schema import TABLES

_TABLES = {
    "part": "p_partkey bigint, p_name string, p_mfgr string, p_brand string, p_type string, "
    "p_size int, p_container string, p_retailprice decimal(15,2), p_comment string",
    "supplier": "s_suppkey bigint, s_name string, s_address string, s_nationkey bigint, "
    "s_phone string, s_acctbal decimal(15,2), s_comment string",
    "partsupp": "ps_partkey bigint, ps_suppkey bigint, ps_availqty bigint, "
    "ps_supplycost decimal(15,2), ps_comment string",
    "customer": "c_custkey bigint, c_name string, c_address string, c_nationkey bigint, "
    "c_phone string, c_acctbal decimal(15,2), c_mktsegment string, c_comment string",
    "orders": "o_orderkey bigint, o_custkey bigint, o_orderstatus string, "
    "o_totalprice decimal(15,2), o_orderdate date, o_orderpriority string, o_clerk string, "
    "o_shippriority int, o_comment string",
    "lineitem": "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, "
    "l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), "
    "l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date, "
    "l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, "
    "l_comment string",
    "nation": "n_nationkey bigint, n_name string, n_regionkey bigint, n_comment string",
    "region": "r_regionkey bigint, r_name string, r_comment string",
}


def source(name: str, columns: str, not_null: bool = False) -> TableSchema:
    """A source from ``name type, name type NOT NULL, …``."""
    parsed = exp.DataType.build(f"struct<{_struct(columns)}>", dialect="spark")
    fields = []
    for position, part in enumerate(parsed.expressions):
        required = not_null or f"{part.name} {_NOT_NULL}" in columns
        fields.append(Column(position, part.name, part.args["kind"], nullable=not required))
    return TableSchema(name, tuple(fields))


_NOT_NULL = "!"


def _struct(columns: str) -> str:
    parts = []
    depth = 0
    current = ""
    for letter in columns:
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    parts.append(current)
    pairs = (part.replace(_NOT_NULL, "").strip().split(None, 1) for part in parts)
    return ", ".join(f"{name}: {type}" for name, type in pairs)


def sources() -> dict[str, TableSchema]:
    """The eight tables; TPC-H has no NULLs. Rows are stored in the order of the primary key."""
    keys = {table.name: table.key for table in TABLES}
    return {
        name: replace(source(name, columns, not_null=True), primary_key=keys[name])
        for name, columns in _TABLES.items()
    }


def query(number: int) -> str:
    """The text of a query."""
    return queries.text(number)
