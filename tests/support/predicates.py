"""Random tests of plain columns, in words that Spark and DuckDB understand alike.

Constants come from the columns' own tiny domains, so that every test is passed and failed often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from random import Random

NUMBERS: tuple[object, ...] = (0, 1, 2, 3, None)
TEXTS: tuple[object, ...] = ("", "a", "ab", "b", "ba", "A", "a%", None)
DATES: tuple[object, ...] = (*(date(2024, 2, day) for day in (27, 28, 29)), date(2024, 3, 1), None)

PATTERNS = ("a%", "%b", "%a%", "a", "", "%", "a_", "_%", "%a%b%", "A%")

TESTS = (
    *("compared", "compared", "columns", "turned"),
    *("IS NULL", "IS NOT NULL", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
    *("IN list", "NOT IN list", "BETWEEN", "NOT BETWEEN"),
    *("NOT", "CASE", "COALESCE", "fraction"),
)
TEXT_TESTS = (
    *("LIKE", "NOT LIKE", "LIKE", "NOT LIKE", "LIKE", "NOT LIKE", "LIKE", "NOT LIKE"),
    *("ILIKE", "NOT ILIKE", "ESCAPE", "NOT LIKE ESCAPE", "length"),
)
COMPARISONS = ("=", "<", ">", "<=", ">=", "<>")


@dataclass(frozen=True)
class Kind:
    """A type of columns and the values they hold."""

    type: str
    domain: tuple[object, ...]

    def constant(self, random: Random) -> str:
        """A value that is not NULL, as SQL."""
        value = random.choice([value for value in self.domain if value is not None])
        if isinstance(value, date):
            return random.choice((f"DATE '{value}'", f"CAST('{value}' AS DATE)"))
        return f"'{value}'" if isinstance(value, str) else str(value)


NUMBER = Kind("INT", NUMBERS)
TEXT = Kind("STRING", TEXTS)
DATE = Kind("DATE", DATES)


@dataclass(frozen=True)
class PredicateMaker:
    """Makes tests of one column; ``features`` counts which ones."""

    random: Random
    features: Counter[str]

    def test(self, column: str, kind: Kind, others: Sequence[str]) -> str:
        """A test of a column; ``others`` are columns of its kind, itself perhaps among them."""
        names = TESTS + TEXT_TESTS if kind is TEXT else TESTS
        name = self.random.choice(names)
        self.features[name] += 1
        if name in TEXT_TESTS:
            return self._text_test(column, name)
        match name:
            case "columns":
                return f"{column} {self._compare()} {self.random.choice(others)}"
            case "IS NULL" | "IS NOT NULL":
                return f"{column} {name}"
            case "IS DISTINCT FROM" | "IS NOT DISTINCT FROM":
                other = self.random.choice((self.random.choice(others), kind.constant(self.random)))
                return f"{column} {name} {other}"
            case "NOT":
                return f"NOT ({self.test(column, kind, others)})"
            case "CASE":
                when, then, other = (self.test(column, kind, others) for _ in range(3))
                return f"CASE WHEN {when} THEN {then} ELSE {other} END"
            case _:
                return self._with_constants(column, kind, name)

    def _with_constants(self, column: str, kind: Kind, name: str) -> str:
        one, two, three = (kind.constant(self.random) for _ in range(3))
        match name:
            case "turned":
                return f"{one} {self._compare()} {column}"
            case "IN list" | "NOT IN list":
                last = self.random.choice((three, three, three, "NULL"))
                return f"{column} {name.removesuffix(' list')} ({one}, {two}, {last})"
            case "BETWEEN" | "NOT BETWEEN":
                # Of two orders one gives an empty range; it should not be the usual one.
                ends = [one, two]
                if self.random.random() < 0.8:
                    ends.sort(key=lambda end: end.split("'")[-2:])
                low, high = ends
                return f"{column} {name} {low} AND {high}"
            case "COALESCE":
                return f"COALESCE({column}, {one}) {self._compare()} {two}"
            case "fraction" if kind is NUMBER:
                return f"{column} {self._compare()} {one}.5"
            case _:
                return f"{column} {self._compare()} {one}"

    def _text_test(self, column: str, name: str) -> str:
        match name:
            case "ESCAPE":
                return f"{column} LIKE 'a!%' ESCAPE '!'"
            case "NOT LIKE ESCAPE":
                return f"{column} NOT LIKE '%!%' ESCAPE '!'"
            case "length":
                return f"length({column}) {self._compare()} {self.random.randint(0, 2)}"
            case _:
                return f"{column} {name} '{self.random.choice(PATTERNS)}'"

    def _compare(self) -> str:
        return self.random.choice(COMPARISONS)
