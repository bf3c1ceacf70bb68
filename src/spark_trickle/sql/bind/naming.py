"""What a column is called when the query gives it no name; close to what Spark would say."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.ir.trees import duplicate, holds


def output_name(node: exp.Expr) -> str:
    """The name of a select item."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Column | exp.Dot):
        return str(node.name)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column | exp.Dot):
        return str(node.this.name)
    if isinstance(node, exp.Paren):
        return output_name(node.this)
    return _spelled(node)


def _spelled(node: exp.Expr) -> str:
    def changed(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Count) and isinstance(part.this, exp.Star):
            return exp.Count(this=exp.Literal.number(1))
        if isinstance(part, exp.Column):
            return exp.Var(this=part.name)
        if isinstance(part, exp.Literal) and part.is_string:
            return exp.Var(this=part.name)
        if isinstance(part, exp.Binary) and not isinstance(part, exp.Dot):
            outer = part.parent
            if not isinstance(outer, exp.Paren):
                return exp.Paren(this=duplicate(part))
        return part

    if isinstance(node, exp.Binary) and not isinstance(node, exp.Dot):
        return f"({node.sql(dialect='spark', normalize_functions='lower')})"
    simple = node.transform(changed) if not holds(node, exp.Binary) else node
    return simple.sql(dialect="spark", normalize_functions="lower")
