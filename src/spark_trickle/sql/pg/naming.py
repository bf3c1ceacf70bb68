"""The names that PostgreSQL gives to columns without an alias."""

from __future__ import annotations

from sqlglot import exp

_TYPES = {
    "INT": "int4",
    "BIGINT": "int8",
    "SMALLINT": "int2",
    "DECIMAL": "numeric",
    "DOUBLE": "float8",
    "FLOAT": "float4",
    "BOOLEAN": "bool",
    "TEXT": "text",
    "VARCHAR": "varchar",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamptz",
}
_WORDS = {
    exp.Case: "case",
    exp.Exists: "exists",
    exp.Extract: "extract",
    exp.Substring: "substring",
    exp.StrPosition: "position",
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.Array: "array",
    exp.Interval: "interval",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}
NAMELESS = "?column?"


def output_name(item: exp.Expr) -> str:
    """An alias, a column's or a function's name, a type's, or ``?column?``."""
    if item.alias:
        return str(item.alias)
    name = _figured(item)
    if name == "case" and isinstance(item, exp.Case):
        default = item.args.get("default")
        return (_figured(default) if default is not None else None) or "case"
    return name or NAMELESS


def _figured(node: exp.Expr) -> str | None:
    while isinstance(node, exp.Paren | exp.Filter | exp.Window):
        node = node.this
    if isinstance(node, exp.Column):
        return node.name if node.args["this"].args.get("quoted") else node.name.lower()
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if isinstance(node, exp.Cast):
        inner = _figured(node.this)
        return inner or _TYPES.get(node.to.this.value)
    if isinstance(node, exp.Trim):
        return _TRIMS.get(str(node.args.get("position") or ""), "btrim")
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        return output_name(node.this.selects[0])
    if isinstance(node, exp.Boolean):
        return "bool"
    return _WORDS.get(type(node))
