"""Random queries as SQL text, in words that Spark and DuckDB understand alike.

Columns hold values of tiny domains, or NULL, so that duplicates, NULL keys, vanishing groups and
empty inputs happen all the time. Every generated query names its outputs ``c0, c1, …``, which all
are integers; columns of texts and dates are tested, joined on, grouped by and measured.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from support.predicates import COMPARISONS, DATE, NUMBER, TEXT, Kind, PredicateMaker

TABLES: dict[str, dict[str, Kind]] = {
    "t": {"a": NUMBER, "b": NUMBER, "c": NUMBER, "x": TEXT},
    "s": {"a": NUMBER, "d": NUMBER, "y": TEXT},
    "u": {"e": NUMBER, "f": NUMBER, "g": NUMBER, "h": DATE},
}

Row = tuple[object, ...]


@dataclass(frozen=True)
class Data:
    """Tables before, and what changes: a multiset of rows each, a delta with weights."""

    before: dict[str, Counter[Row]]
    delta: dict[str, Counter[Row]]

    def after(self) -> dict[str, Counter[Row]]:
        """``before + delta``"""
        result = {}
        for name, rows in self.before.items():
            total = Counter(rows)
            total.update(self.delta.get(name, Counter()))
            result[name] = +total
        return result


def random_data(random: Random, *, rows: int = 9) -> Data:
    """Small tables; most of them change, by inserts, deletes and updates of one batch."""
    kinds = {name: tuple(columns.values()) for name, columns in TABLES.items()}
    before = {n: _rows(random, k, random.choice((0, 2, rows, rows))) for n, k in kinds.items()}
    delta: dict[str, Counter[Row]] = {}
    for name, columns in kinds.items():
        if random.random() < 0.15:
            continue
        after = Counter(before[name])
        for row in list(before[name].elements()):
            if random.random() < 0.3:
                after[row] -= 1
                if random.random() < 0.5:
                    changed = list(row)
                    place = random.randrange(len(row))
                    changed[place] = random.choice(columns[place].domain)
                    after[tuple(changed)] += 1
        after.update(_rows(random, columns, random.choice((0, 1, 2, 3, 4))))
        after.subtract(before[name])
        delta[name] = Counter({row: weight for row, weight in after.items() if weight})
    return Data(before, delta)


def _rows(random: Random, kinds: tuple[Kind, ...], count: int) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for _ in range(count):
        row = tuple(random.choice(kind.domain) for kind in kinds)
        rows[row] += random.choice((1, 1, 1, 2))
    return rows


def _first(table: str) -> str:
    return next(iter(TABLES[table]))


@dataclass
class QueryMaker:
    """Makes one query; ``features`` counts which constructs went into it."""

    random: Random
    features: Counter[str] = field(default_factory=Counter)
    _names: int = 0
    _others: dict[str, list[tuple[str, Kind]]] = field(default_factory=dict)
    """By alias of a table: its columns that are no integers."""

    def query(self, depth: int, width: int | None = None) -> str:
        """A query with ``width`` columns."""
        width = width or self.random.randint(1, 3)
        kinds = ["select"] * 4 + ["grouped"] * 3 + ["distinct", "set", "window", "rollup"]
        kinds += ["with", "top", "ranked", "total"]
        kind = self.random.choice(kinds)
        if depth <= 0:
            kind = "select"
        self.features[kind] += 1
        maker = getattr(self, f"_{kind}")
        return str(maker(depth, width))

    def tested_join(self) -> str:
        """Two tables joined by an equality, and plain tests of their columns."""
        left, columns = self._item(0)
        right, more = self._item(0)
        kind = self.random.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN"))
        on = f"{self.random.choice(columns)} = {self.random.choice(more)}"
        both = columns + more
        tests = " AND ".join(self._predicate(both, 0) for _ in range(self.random.randint(1, 2)))
        source = f"FROM {left} {kind} {right} ON {on} WHERE {tests}"
        key = self.random.choice(both)
        if self.random.random() < 0.3:
            return f"SELECT {key} AS c0, {self._aggregate(both)} AS c1 {source} GROUP BY {key}"
        return f"SELECT {key} AS c0, {self.random.choice(both)} AS c1 {source}"

    def _alias(self) -> str:
        self._names += 1
        return f"q{self._names}"

    def _select(self, depth: int, width: int) -> str:
        source, columns = self._from(depth)
        outputs = ", ".join(f"{self._scalar(columns, depth)} AS c{i}" for i in range(width))
        return f"SELECT {outputs} FROM {source}{self._where(columns, depth)}"

    def _distinct(self, depth: int, width: int) -> str:
        return "SELECT DISTINCT" + self._select(depth, width).removeprefix("SELECT")

    def _grouped(self, depth: int, width: int) -> str:
        source, columns = self._from(depth)
        keys = self.random.sample(columns, min(len(columns), self.random.randint(1, 2)))
        texts = [*keys, *(self._aggregate(columns) for _ in range(3))]
        chosen = self.random.sample(texts, width) if width <= len(texts) else texts
        outputs = ", ".join(f"{text} AS c{i}" for i, text in enumerate(chosen))
        others = self._no_numbers(columns)
        if others and self.random.random() < 0.3:
            self.features["by text"] += 1
            keys.append(self.random.choice(others)[0])
        having = ""
        if self.random.random() < 0.3:
            self.features["having"] += 1
            having = f" HAVING {self._aggregate(columns)} {self._compare()} {self._bound(depth)}"
        where = self._where(columns, depth)
        return f"SELECT {outputs} FROM {source}{where} GROUP BY {', '.join(keys)}{having}"

    def _total(self, depth: int, width: int) -> str:
        source, columns = self._from(depth)
        outputs = ", ".join(f"{self._aggregate(columns)} AS c{i}" for i in range(width))
        return f"SELECT {outputs} FROM {source}{self._where(columns, depth)}"

    def _rollup(self, depth: int, width: int) -> str:
        source, columns = self._from(depth)
        keys = self.random.sample(columns, min(2, len(columns)))
        texts = [*keys, self._aggregate(columns), "count(*)"]
        outputs = ", ".join(f"{texts[i % len(texts)]} AS c{i}" for i in range(width))
        sets = self.random.choice(
            (
                f"ROLLUP ({', '.join(keys)})",
                f"CUBE ({', '.join(keys)})",
                f"GROUPING SETS (({', '.join(keys)}), ({keys[0]}), ())",
            )
        )
        # Spark has no total over no rows; DuckDB has one.
        return f"SELECT {outputs} FROM {source} GROUP BY {sets} HAVING count(*) > 0"

    def _set(self, depth: int, width: int) -> str:
        operator = self.random.choice(
            ("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
        )
        self.features[operator] += 1
        left = self._operand(depth, width)
        return f"{left} {operator} {self._operand(depth, width)}"

    def _operand(self, depth: int, width: int) -> str:
        outputs = ", ".join(f"c{i}" for i in range(width))
        return f"SELECT {outputs} FROM ({self.query(depth - 1, width)}) AS {self._alias()}"

    def _window(self, depth: int, width: int) -> str:
        source, columns = self._from(depth)
        outputs = [self._scalar(columns, 0) for _ in range(width - 1)]
        outputs.append(self._over(columns))
        named = ", ".join(f"{text} AS c{i}" for i, text in enumerate(outputs))
        return f"SELECT {named} FROM {source}{self._where(columns, depth)}"

    def _over(self, columns: list[str]) -> str:
        partition = ", ".join(
            self.random.sample(columns, min(len(columns), self.random.randint(1, 2)))
        )
        column = self.random.choice(columns)
        order = f"ORDER BY {column} NULLS FIRST"
        whole = [*columns, *(c for c, _ in self._no_numbers(columns))]
        total = "ORDER BY " + ", ".join(f"{c} NULLS FIRST" for c in whole)
        call = self.random.choice(
            (
                f"count(*) OVER (PARTITION BY {partition})",
                f"sum({column}) OVER (PARTITION BY {partition})",
                f"max({column}) OVER (PARTITION BY {partition} {order})",
                f"rank() OVER (PARTITION BY {partition} {order})",
                f"dense_rank() OVER (PARTITION BY {partition} {order} )",
                f"row_number() OVER (PARTITION BY {partition} {total})",
                f"lag({column}) OVER (PARTITION BY {partition} {total})",
                f"sum({column}) OVER (PARTITION BY {partition} {total}"
                " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            )
        )
        return str(call)

    def _ranked(self, depth: int, width: int) -> str:
        """The first rows per group."""
        inner, alias = self.query(depth - 1, width), self._alias()
        columns = [f"{alias}.c{i}" for i in range(width)]
        total = ", ".join(f"{c} DESC NULLS LAST" for c in columns)
        outputs = ", ".join(f"{c} AS c{i}" for i, c in enumerate(columns))
        return (
            f"SELECT {outputs} FROM ({inner}) AS {alias} WHERE TRUE QUALIFY row_number() OVER"
            f" (PARTITION BY {columns[0]} ORDER BY {total}) <= {self.random.randint(1, 2)}"
        )

    def _top(self, depth: int, width: int) -> str:
        inner, alias = self.query(depth - 1, width), self._alias()
        outputs = ", ".join(f"{alias}.c{i} AS c{i}" for i in range(width))
        direction = self.random.choice(("ASC NULLS FIRST", "DESC NULLS LAST", "ASC NULLS LAST"))
        order = ", ".join(f"c{i} {direction}" for i in range(width))
        offset = self.random.choice(("", " OFFSET 1"))
        cut = f"ORDER BY {order} LIMIT {self.random.randint(1, 3)}{offset}"
        return f"SELECT {outputs} FROM ({inner}) AS {alias} {cut}"

    def _with(self, depth: int, width: int) -> str:
        """A common table expression that is used twice; three in each other would square too often."""
        name, left, right = self._alias(), self._alias(), self._alias()
        inner = self.query(depth - 1, 2)
        while inner.count("WITH ") > 1:
            inner = self.query(depth - 1, 2)
        columns = [f"{side}.c{i}" for side in (left, right) for i in range(2)]
        outputs = ", ".join(f"{self._scalar(columns, 0)} AS c{i}" for i in range(width))
        on = f"{left}.c0 = {right}.c{self.random.randint(0, 1)}"
        return f"WITH {name} AS ({inner}) SELECT {outputs} FROM {name} {left} JOIN {name} {right} ON {on}"

    def _from(self, depth: int) -> tuple[str, list[str]]:
        """A FROM clause and the columns it offers."""
        text, columns = self._item(depth)
        for _ in range(self.random.choice((0, 0, 1, 1, 2) if depth > 0 else (0, 0, 1))):
            kind = self.random.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
            if self.random.random() < 0.1:
                kind = "CROSS JOIN"
            self.features[kind] += 1
            other, more = self._item(depth - 1)
            on = "" if kind == "CROSS JOIN" else f" ON {self._on(columns, more)}"
            text = f"{text} {kind} {other}{on}"
            columns = columns + more
        return text, columns

    def _item(self, depth: int) -> tuple[str, list[str]]:
        alias = self._alias()
        if depth > 0 and self.random.random() < 0.5:
            width = self.random.randint(1, 3)
            return (
                f"({self.query(depth - 1, width)}) AS {alias}",
                [f"{alias}.c{i}" for i in range(width)],
            )
        name = self.random.choice(sorted(TABLES))
        kinds = {f"{alias}.{column}": kind for column, kind in TABLES[name].items()}
        self._others[alias] = [(c, kind) for c, kind in kinds.items() if kind is not NUMBER]
        return f"{name} AS {alias}", [c for c, kind in kinds.items() if kind is NUMBER]

    def _no_numbers(self, columns: list[str]) -> list[tuple[str, Kind]]:
        """The columns of other kinds beside these."""
        aliases = dict.fromkeys(column.split(".")[0] for column in columns)
        return [found for alias in aliases for found in self._others.get(alias, ())]

    def _on(self, left: list[str], right: list[str]) -> str:
        a, b = self.random.choice(left), self.random.choice(right)
        operator = self.random.choice(("=", "=", "=", "IS NOT DISTINCT FROM", "<", ">="))
        self.features[f"on {operator}"] += 1
        text = f"{a} {operator} {b}"
        if self.random.random() < 0.25:
            extra = f"{self.random.choice(left)} {self._compare()} {self.random.choice(right)}"
            text = f"{text} {self.random.choice(('AND', 'AND', 'OR'))} {extra}"
        if self.random.random() < 0.35:
            text = f"{text} AND {self._test(self.random.choice((left, right)))}"
        pairs = [
            f"{one} = {two}"
            for one, kind in self._no_numbers(left)
            for two, other in self._no_numbers(right)
            if kind is other
        ]
        if pairs and self.random.random() < 0.3:
            self.features["on text"] += 1
            return f"{self.random.choice(pairs)} AND {text}"
        return text

    def _where(self, columns: list[str], depth: int) -> str:
        if self.random.random() < 0.45:
            return ""
        return f" WHERE {self._predicate(columns, depth)}"

    def _predicate(self, columns: list[str], depth: int) -> str:
        roll = self.random.random()
        if roll < 0.15:
            left, right = self._predicate(columns, depth - 1), self._predicate(columns, depth - 1)
            return f"({left} {self.random.choice(('AND', 'OR'))} {right})"
        if roll < 0.55 and depth > 0:
            return self._subquery_test(columns, depth)
        return self._test(columns)

    def _test(self, columns: list[str]) -> str:
        """A test of a plain column."""
        maker = PredicateMaker(self.random, self.features)
        others = self._no_numbers(columns)
        if others and self.random.random() < 0.6:
            column, kind = self.random.choice(others)
            return maker.test(column, kind, [c for c, other in others if other is kind])
        return maker.test(self.random.choice(columns), NUMBER, columns)

    def _subquery_test(self, columns: list[str], depth: int) -> str:
        column = self.random.choice(columns)
        kind = self.random.choice(("exists", "not exists", "in", "not in", "scalar", "plain"))
        self.features[kind] += 1
        inner, alias = self._item(depth - 1)[0], None
        inner_name = inner.rsplit(" AS ", 1)[1]
        first = "c0" if inner.startswith("(") else _first(inner.split(" ", 1)[0])
        alias = f"{inner_name}.{first}"
        correlated = f"{alias} {self.random.choice(('=', '=', '<'))} {self.random.choice(columns)}"
        match kind:
            case "exists" | "not exists":
                return f"{kind.upper()} (SELECT 1 FROM {inner} WHERE {correlated})"
            case "in" | "not in":
                where = f" WHERE {correlated}" if self.random.random() < 0.3 else ""
                return f"{column} {kind.upper()} (SELECT {alias} FROM {inner}{where})"
            case "scalar":
                # Only equalities: other correlated aggregates are not legal Spark.
                equal = f"{alias} = {self.random.choice(columns)}"
                call = self.random.choice(("max", "min", "sum", "count"))
                return f"{column} {self._compare()} (SELECT {call}({alias}) FROM {inner} WHERE {equal})"
            case _:
                call = self.random.choice(("max", "min", "sum", "count"))
                return f"{column} {self._compare()} (SELECT {call}({alias}) FROM {inner})"

    def _bound(self, depth: int) -> str:
        if depth > 0 and self.random.random() < 0.4:
            self.features["having subquery"] += 1
            name = self.random.choice(sorted(TABLES))
            return f"(SELECT count(*) FROM {name})"
        return str(self.random.randint(0, 3))

    def _compare(self) -> str:
        return self.random.choice(COMPARISONS)

    def _aggregate(self, columns: list[str]) -> str:
        column = self.random.choice(columns)
        others = [c for c, kind in self._no_numbers(columns) if kind is TEXT]
        if others and self.random.random() < 0.2:
            self.features["of text"] += 1
            call = self.random.choice(("length(max({}))", "length(min({}))", "count(DISTINCT {})"))
            return call.format(self.random.choice(others))
        if self.random.random() < 0.1:
            return f"count(*) FILTER (WHERE {self._test(columns)})"
        call = self.random.choice(
            (
                "count(*)",
                f"count({column})",
                f"sum({column})",
                f"sum({column})",
                f"min({column})",
                f"max({column})",
                f"floor(avg({column}) * 60)",
                f"count(DISTINCT {column})",
                f"sum(DISTINCT {column})",
                f"count(*) FILTER (WHERE {column} > 1)",
                f"sum({column}) FILTER (WHERE {self.random.choice(columns)} > 0)",
                f"sum(CASE WHEN {column} = 1 THEN 1 ELSE 0 END)",
                f"CASE bool_and({column} > 0) WHEN TRUE THEN 1 WHEN FALSE THEN 0 END",
                f"CASE bool_or({column} > 2) WHEN TRUE THEN 1 WHEN FALSE THEN 0 END",
            )
        )
        return str(call)

    def _scalar(self, columns: list[str], depth: int) -> str:
        column = self.random.choice(columns)
        if depth > 1 and self.random.random() < 0.1:
            self.features["scalar in select"] += 1
            name = self.random.choice(sorted(TABLES))
            inner, first = self._alias(), _first(name)
            equal = f"{inner}.{first} = {column}"
            return f"(SELECT max({inner}.{first}) FROM {name} AS {inner} WHERE {equal})"
        if self.random.random() < 0.1:
            return f"CASE WHEN {self._test(columns)} THEN {column} ELSE 0 END"
        return str(
            self.random.choice(
                (
                    column,
                    column,
                    column,
                    f"{column} + 1",
                    f"COALESCE({column}, 7)",
                    f"CASE WHEN {column} > 1 THEN {column} ELSE 0 END",
                    "5",
                )
            )
        )
