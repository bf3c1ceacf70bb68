"""Settings of Spark under which a text may be read in another way than ours.

Our parser and binder read a text by Spark's defaults. What the settings below make of names,
quotes, numbers in ORDER BY or the order of set operations is Spark's to say: such a query has no
plan of ours, and runs by its text under the settings it was made with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from spark_trickle.ir.types import Blocker

CASE = "spark.sql.caseSensitive"
_READ = {
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.groupByAliases": "true",
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
}
"""How our binder reads a text."""
_SWITCHES = ("spark.sql.legacy.", "spark.sql.parser.")
"""Switches of Spark that are off unless somebody asks for an older or another reading."""
_AT_WORK = frozenset({"spark.sql.legacy.timeParserPolicy"})
"""What only expressions at work look at: they run under the settings of the definition."""


def read_otherwise(settings: Mapping[str, str]) -> Blocker | None:
    """Why a text may mean something else under these settings than it means by default."""
    for key, value in sorted(settings.items()):
        usual = _READ.get(key, "false" if key.startswith(_SWITCHES) else None)
        if usual is not None and key not in _AT_WORK and value.lower() != usual:
            return Blocker(
                "SETTING",
                f"under {key} = {value} Spark reads a query in another way than by default",
                hint=f"make the stream table in a session with {key} = {usual}, "
                "or use refresh mode FULL",
            )
    return None


def told_apart_by_case(
    settings: Mapping[str, str], tree: exp.Expr, columns: Iterable[str]
) -> Blocker | None:
    """Why names may mean something else than without case: two of them differ in nothing else.

    Where no two do, looking them up with and without case is the same.
    """
    if settings.get(CASE, "false").lower() != "true":
        return None
    spelled: dict[str, str] = {}
    for name in (*(found.name for found in tree.find_all(exp.Identifier)), *columns):
        if spelled.setdefault(name.lower(), name) != name:
            return Blocker(
                "CASE_SENSITIVE",
                f"{spelled[name.lower()]} and {name} are two names under {CASE} = true",
                hint="spell each name in one way and as the table does, or use refresh mode FULL",
            )
    return None
