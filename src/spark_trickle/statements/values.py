"""Plain literals of VALUES lists, read without Spark; whatever is more than that is Spark's to read.

Law: a value read here is the value Spark would have read. When in doubt the answer is None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from math import isinf
from typing import Any
from zoneinfo import ZoneInfo

from spark_trickle.statements.text.tokens import Token, TokenKind, tokenize


@dataclass(frozen=True)
class Literal:
    """A constant: ``kind`` is null, default, boolean, int, decimal, double, string, binary, date
    or timestamp; ``text`` is how the user wrote it."""

    kind: str
    value: Any
    text: str


_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:\+00:00)?")
_TYPE_WORDS = {"DOUBLE": "double", "FLOAT": "float", "STRING": "string", "DATE": "date"}


class Misfit(Exception):
    """A constant whose type is right but whose value the column cannot hold."""


def read_values(sql: str, start: int, end: int, width: int) -> list[tuple[Literal, ...]] | None:
    """The rows of ``VALUES (…), (…)`` in ``sql[start:end]``, if all are plain and ``width`` wide."""
    tokens = [t for t in tokenize(sql) if start <= t.start and t.end <= end]
    if not tokens or tokens[0].word != "VALUES":
        return None
    reader = _Reader(tokens[1:])
    rows = []
    while True:
        row = reader.row()
        if row is None or len(row) != width:
            return None
        rows.append(row)
        if reader.done:
            return rows
        if not reader.symbol(","):
            return None


def default_places(sql: str, start: int, end: int) -> list[tuple[int, int, int]]:
    """Where DEFAULT stands for a whole value of ``VALUES (…), (…)``: (start, end, its index)."""
    tokens = [t for t in tokenize(sql) if start <= t.start and t.end <= end]
    if not tokens or tokens[0].word != "VALUES":
        return []
    found, depth, index = [], 0, 0
    for i, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 1 and token.is_symbol("("):
            index = 0
        elif depth == 1 and token.is_symbol(","):
            index += 1
        alone = (
            depth == 1
            and token.word == "DEFAULT"
            and tokens[i - 1].text in "(,"
            and tokens[i + 1].text in "),"
        )
        if alone:
            found.append((token.start, token.end, index))
    return found


def read_literal(text: str) -> Literal | None:
    """The plain literal that ``text`` is, or None."""
    reader = _Reader(list(tokenize(text)))
    literal = reader.literal()
    return literal if reader.done else None


class _Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._i = 0

    @property
    def done(self) -> bool:
        return self._i >= len(self._tokens)

    def symbol(self, text: str) -> bool:
        if self.done or not self._tokens[self._i].is_symbol(text):
            return False
        self._i += 1
        return True

    def row(self) -> tuple[Literal, ...] | None:
        if not self.symbol("("):
            literal = self.literal()
            return None if literal is None else (literal,)
        values = []
        while True:
            literal = self.literal()
            if literal is None:
                return None
            values.append(literal)
            if self.symbol(")"):
                return tuple(values)
            if not self.symbol(","):
                return None

    def literal(self) -> Literal | None:
        if self.symbol("("):  # as negative parameters are bound
            inner = self.literal()
            return inner if inner is not None and self.symbol(")") else None
        minus = self.symbol("-")
        if not minus:
            self.symbol("+")
        token = self._next()
        if token is None:
            return None
        if token.kind is TokenKind.NUMBER:
            return _number(token.text, minus)
        if minus:
            return None
        if token.kind is TokenKind.STRING:
            return _string(token.text)
        return self._worded(token)

    def _next(self) -> Token | None:
        token = self._tokens[self._i] if self._i < len(self._tokens) else None
        self._i += 1
        return token

    def _worded(self, token: Token) -> Literal | None:
        match token.word:
            case "NULL":
                return Literal("null", None, token.text)
            case "DEFAULT":
                return Literal("default", None, token.text)
            case "TRUE" | "FALSE":
                return Literal("boolean", token.word == "TRUE", token.text)
            case "DATE" | "TIMESTAMP":
                return self._typed(token.word)
            case "CAST":
                return self._cast()
            case _:
                return None

    def _typed(self, word: str) -> Literal | None:
        if self.done or self._tokens[self._i].kind is not TokenKind.STRING:
            return None
        text = _string(self._tokens[self._i].text)
        self._i += 1
        if text is None:
            return None
        return _date(text.value) if word == "DATE" else _timestamp(text.value)

    def _cast(self) -> Literal | None:
        """CAST(literal AS type) where the type alone decides: NULL, and texts of dates."""
        if not self.symbol("("):
            return None
        inner = self.literal()
        if inner is None or self.done or self._tokens[self._i].word != "AS":
            return None
        self._i += 1
        type_tokens = []
        while not self.done and not self._tokens[self._i].is_symbol(")"):
            type_tokens.append(self._tokens[self._i])
            self._i += 1
        if not self.symbol(")") or len(type_tokens) != 1:
            return None
        return _cast(inner, type_tokens[0].word)


def _cast(inner: Literal, word: str) -> Literal | None:
    if inner.kind == "null" and word in _TYPE_WORDS:
        return inner
    match inner.kind, word:
        case "string", "STRING":
            return inner
        case "binary", "STRING":
            return _decoded(inner)
        case "string", "DATE":
            return _date(inner.value)
        case "string", "TIMESTAMP":
            return _timestamp(inner.value)
        case (("int" | "decimal" | "double"), "DOUBLE"):
            return Literal("double", float(inner.value), inner.text)
        case "int", ("INT" | "BIGINT" | "SMALLINT" | "TINYINT"):
            bits = _INTEGERS[word.lower()]
            fits = -(2 ** (bits - 1)) <= inner.value < 2 ** (bits - 1)
            return inner if fits else None
        case _:
            return None


def _number(text: str, minus: bool) -> Literal | None:
    shown = f"-{text}" if minus else text
    lowered = text.lower()
    if lowered.isdigit():
        value = -int(text) if minus else int(text)
        if abs(value) >= 10**38:
            return None
        # Spark reads whole numbers beyond BIGINT as decimals.
        kind = "int" if -(2**63) <= value < 2**63 else "decimal"
        return Literal(kind, value if kind == "int" else Decimal(value), shown)
    if re.fullmatch(r"(\d+\.\d*|\.\d+)(bd)?|\d+bd", lowered):
        number = Decimal(lowered.removesuffix("bd"))
        return Literal("decimal", number.copy_negate() if minus else number, shown)
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+|(e[+-]?\d+)?d)", lowered):
        double = float(lowered.rstrip("d"))
        if isinf(double):  # Spark refuses it
            return None
        return Literal("double", -double if minus else double, shown)
    return None


def _string(text: str) -> Literal | None:
    """A quoted text; escapes and raw or binary texts are Spark's to read."""
    quote = text[0]
    if quote in "xX":
        return _binary(text)
    if quote not in "'\"" or "\\" in text:
        return None
    return Literal("string", text[1:-1].replace(quote * 2, quote), text)


def _binary(text: str) -> Literal | None:
    try:
        return Literal("binary", bytes.fromhex(text[2:-1]), text)
    except ValueError:  # Spark has a rule for an odd number of digits
        return None


def _decoded(literal: Literal) -> Literal | None:
    try:
        return Literal("string", literal.value.decode(), literal.text)
    except UnicodeDecodeError:
        return None


def _date(text: str) -> Literal | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return Literal("date", date.fromisoformat(text), f"DATE '{text}'")
    except ValueError:
        return None


def _timestamp(text: str) -> Literal | None:
    if _DATE.fullmatch(text):
        text = f"{text} 00:00:00"
    if not _TIMESTAMP.fullmatch(text):
        return None
    try:
        return Literal("timestamp", datetime.fromisoformat(text), f"TIMESTAMP '{text}'")
    except ValueError:
        return None


def store(literal: Literal, type_text: str, time_zone: str) -> tuple[bool, Any]:
    """(True, the value a column of that type stores), or (False, …) when Spark must decide.

    Misfit when the column cannot hold the value.
    """
    value = literal.value
    if literal.kind == "null":
        return True, None
    if type_text in _INTEGERS and literal.kind == "int":
        bits = _INTEGERS[type_text]
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise Misfit
        return True, value
    if (decimal := _DECIMAL.fullmatch(type_text)) and literal.kind in ("int", "decimal"):
        return True, _round(Decimal(value), int(decimal.group(1)), int(decimal.group(2)))
    if type_text == "double" and literal.kind in ("int", "decimal", "double"):
        return True, float(value)
    if type_text == literal.kind and type_text in ("string", "boolean", "date", "binary"):
        return True, value
    if type_text == "timestamp" and literal.kind == "timestamp":
        return _in_zone(value, time_zone)
    if type_text == "timestamp_ntz" and literal.kind == "timestamp" and value.tzinfo is None:
        return True, value
    return False, None


def _round(value: Decimal, precision: int, scale: int) -> Decimal:
    with localcontext() as context:
        context.prec = 80
        rounded = value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
        if abs(rounded) >= Decimal(10) ** (precision - scale):
            raise Misfit
        return rounded


def _in_zone(value: datetime, time_zone: str) -> tuple[bool, Any]:
    if value.tzinfo is not None:
        return True, value
    if time_zone in ("UTC", "Etc/UTC", "GMT", "Z"):
        return True, value.replace(tzinfo=UTC)
    if not 1970 < value.year < 2038:  # what a zone did then, databases of zones do not agree on
        return False, None
    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        return False, None
    moment = value.replace(tzinfo=zone)
    # A time that the zone skips or has twice is left to Spark's rules.
    if moment.utcoffset() != moment.replace(fold=1).utcoffset():
        return False, None
    return True, moment.astimezone(UTC)
