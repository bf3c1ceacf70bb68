"""The eight tables, their keys and how many rows they have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TpchTable:
    """One table; all columns are NOT NULL, rows are stored in the order of the primary key."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and Spark types."""
    key: tuple[str, ...]
    rows_at_one: int
    """Rows at scale 1; lineitem has about as many."""
    fixed: bool = False
    """Whether the table has the same rows at every scale."""

    @property
    def create_statement(self) -> str:
        columns = ", ".join(f"{name} {type} NOT NULL" for name, type in self.columns)
        key = ", ".join(self.key)
        return f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({key})) CLUSTER BY ({key})"

    def rows(self, scale: float) -> int:
        """Rows at a scale; for lineitem an estimate."""
        return self.rows_at_one if self.fixed else int(self.rows_at_one * scale)


def _columns(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (part.split() for part in text.split(";"))
    return tuple((name, type) for name, type in pairs)


_MONEY = "DECIMAL(15,2)"

REGION = TpchTable(
    "region",
    _columns("r_regionkey BIGINT; r_name STRING; r_comment STRING"),
    ("r_regionkey",),
    5,
    fixed=True,
)
NATION = TpchTable(
    "nation",
    _columns("n_nationkey BIGINT; n_name STRING; n_regionkey BIGINT; n_comment STRING"),
    ("n_nationkey",),
    25,
    fixed=True,
)
SUPPLIER = TpchTable(
    "supplier",
    _columns(
        "s_suppkey BIGINT; s_name STRING; s_address STRING; s_nationkey BIGINT; s_phone STRING; "
        f"s_acctbal {_MONEY}; s_comment STRING"
    ),
    ("s_suppkey",),
    10_000,
)
CUSTOMER = TpchTable(
    "customer",
    _columns(
        "c_custkey BIGINT; c_name STRING; c_address STRING; c_nationkey BIGINT; c_phone STRING; "
        f"c_acctbal {_MONEY}; c_mktsegment STRING; c_comment STRING"
    ),
    ("c_custkey",),
    150_000,
)
PART = TpchTable(
    "part",
    _columns(
        "p_partkey BIGINT; p_name STRING; p_mfgr STRING; p_brand STRING; p_type STRING; "
        f"p_size INT; p_container STRING; p_retailprice {_MONEY}; p_comment STRING"
    ),
    ("p_partkey",),
    200_000,
)
PARTSUPP = TpchTable(
    "partsupp",
    _columns(
        f"ps_partkey BIGINT; ps_suppkey BIGINT; ps_availqty INT; ps_supplycost {_MONEY}; "
        "ps_comment STRING"
    ),
    ("ps_partkey", "ps_suppkey"),
    800_000,
)
ORDERS = TpchTable(
    "orders",
    _columns(
        f"o_orderkey BIGINT; o_custkey BIGINT; o_orderstatus STRING; o_totalprice {_MONEY}; "
        "o_orderdate DATE; o_orderpriority STRING; o_clerk STRING; o_shippriority INT; "
        "o_comment STRING"
    ),
    ("o_orderkey",),
    1_500_000,
)
LINEITEM = TpchTable(
    "lineitem",
    _columns(
        "l_orderkey BIGINT; l_partkey BIGINT; l_suppkey BIGINT; l_linenumber INT; "
        f"l_quantity {_MONEY}; l_extendedprice {_MONEY}; l_discount {_MONEY}; l_tax {_MONEY}; "
        "l_returnflag STRING; l_linestatus STRING; l_shipdate DATE; l_commitdate DATE; "
        "l_receiptdate DATE; l_shipinstruct STRING; l_shipmode STRING; l_comment STRING"
    ),
    ("l_orderkey", "l_linenumber"),
    6_000_000,
)

TABLES = (REGION, NATION, SUPPLIER, CUSTOMER, PART, PARTSUPP, ORDERS, LINEITEM)
"""In the order in which they are made: what is referred to comes first."""
