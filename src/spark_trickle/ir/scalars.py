"""The only place that makes or edits scalar expressions (sqlglot trees)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from spark_trickle.ir.types import Column


def ref(column: Column) -> exp.Column:
    """A reference to a column of the plan: the quoted identifier ``name#id``, with its type."""
    reference = exp.Column(this=exp.Identifier(this=str(column), quoted=True))
    reference.type = column.type
    return reference


def column_id(reference: exp.Column) -> int:
    """The id of the column that ``ref`` was made from."""
    return int(reference.name.rpartition("#")[2])


def column_ids(expression: exp.Expression) -> frozenset[int]:
    """The ids of all columns an expression reads."""
    return frozenset(column_id(column) for column in expression.find_all(exp.Column))


def substitute(
    expression: exp.Expression, replacements: Mapping[int, exp.Expression]
) -> exp.Expression:
    """A copy in which columns are replaced by id; columns that are not in the map stay."""

    def replace(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column):
            replacement = replacements.get(column_id(node))
            return node if replacement is None else replacement.copy()
        return node

    return expression.transform(replace)
