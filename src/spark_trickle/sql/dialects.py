"""The SQL we read and write: Spark's, with function calls kept exactly as they were written.

sqlglot knows several hundred functions as node classes of its own and prints them back in its own
words; not every such round trip keeps Spark's meaning. So only calls that the compiler must
understand become nodes, every other call stays a name with arguments.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp, parser
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from spark_trickle.errors import UserError
from spark_trickle.ir.scalars import whole_number
from spark_trickle.sql.pipes import piped

if not parser.__file__.endswith(".py"):
    raise UserError(
        "sqlglot is installed in its compiled form, whose parser cannot be extended",
        hint="run: pip uninstall sqlglotc",
    )

UNDERSTOOD = frozenset(
    {
        "ARRAY",
        "AVG",
        "BOOL_AND",
        "BOOL_OR",
        "COALESCE",
        "COUNT",
        "COUNT_IF",
        "EXPLODE",
        "EXPLODE_OUTER",
        "GROUPING",
        "GROUPING_ID",
        "IF",
        "IFNULL",
        "INLINE",
        "MAX",
        "MIN",
        "NULLIF",
        "NVL",
        "POSEXPLODE",
        "POSEXPLODE_OUTER",
        "SUM",
    }
)
"""Functions that become nodes; their round trip is proven against Spark by a test."""

SYNTAX = frozenset(
    {"CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST"}
)
"""Functions with a grammar of their own (``FROM``, ``AS``, ``IN`` between the arguments)."""

SELECT_RULES = {exp.Select, exp.Table}
SUFFIX = "suffix"
"""What a number of another type than its digits say ends with."""


def _joined(tokens: list[Token]) -> list[Token]:
    """sqlglot reads ``1L`` as ``1 :: BIGINT``, but for the text of the last token."""
    found: list[Token] = []
    for token in tokens:
        if token.text.upper() in _SUFFIXES and [t.token_type for t in found[-2:]] == [
            TokenType.NUMBER,
            TokenType.DCOLON,
        ]:
            found.pop()
            found[-1].text += token.text
        else:
            found.append(token)
    return found


def _positioned(kind: type[exp.Expr], **fixed: Any) -> Any:
    def build(_: SparkParser, token: Token) -> exp.Expr:
        return kind(this=token.text, **fixed).update_positions(token)

    return build


_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT"}


def _number(_: SparkParser, token: Token) -> exp.Expr:
    """A number; ``1L`` is one as well, though its type is not that of ``1``."""
    suffix = token.text[-1].upper()
    if suffix not in _SUFFIXES:
        return exp.Literal(this=token.text, is_string=False).update_positions(token)
    digits = exp.Literal(this=token.text[:-1], is_string=False).update_positions(token)
    number = exp.Cast(this=digits, to=exp.DataType.build(_SUFFIXES[suffix]))
    number.meta[SUFFIX] = suffix
    return number


def _negative(parser: SparkParser) -> exp.Expr:
    """``-x``; the sign belongs to a number that follows at once, and not to one in parentheses."""
    operand = parser._parse_unary()
    if isinstance(operand, exp.Paren) and whole_number(operand) is not None:
        return exp.Anonymous(this="negative", expressions=[operand.unnest()])
    return exp.Neg(this=operand)


_BITS = (
    (TokenType.AMP, exp.BitwiseAnd),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.PIPE, exp.BitwiseOr),
)


class TrickleSparkParser(SparkParser):
    """Spark's parser, with fewer functions it thinks it knows and with positions for literals."""

    STRICT_CAST = True
    SUPPORTS_TABLE_QUERY = True
    # Spark has no ARRAY[…]: there it is the element of a column of that name.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
    FUNCTIONS: ClassVar[dict[str, Any]] = {
        name: build for name, build in SparkParser.FUNCTIONS.items() if name in UNDERSTOOD
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: build for name, build in SparkParser.FUNCTION_PARSERS.items() if name in SYNTAX
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: build
        for name, build in SparkParser.NO_PAREN_FUNCTION_PARSERS.items()
        if name in ("ANY", "CASE", "IF")
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **SparkParser.PRIMARY_PARSERS,
        TokenType.STRING: _positioned(exp.Literal, is_string=True),
        TokenType.NUMBER: _number,
    }
    TERM: ClassVar[dict[TokenType, Any]] = {**SparkParser.TERM, TokenType.DPIPE: exp.DPipe}
    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **SparkParser.UNARY_PARSERS,
        # Not the number itself: beside a decimal, +1 has the ten digits of an INT, and 1 has one.
        TokenType.DASH: _negative,
        TokenType.PLUS: lambda self: exp.Anonymous(
            this="positive", expressions=[self._parse_unary()]
        ),
    }

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._bits(len(_BITS))

    def _bits(self, level: int) -> exp.Expr | None:
        """``|``, ``^``, ``&`` and shifts: each binds tighter than the ones before it, as in Spark."""
        if level == 0:
            return self._shifted()
        this = self._bits(level - 1)
        token, kind = _BITS[level - 1]
        while self._match(token):
            this = self.expression(kind(this=this, expression=self._bits(level - 1)))
        return this

    def _shifted(self) -> exp.Expr | None:
        this = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                kind: type[exp.Expr] = exp.BitwiseLeftShift
            elif not self._match_pair(TokenType.GT, TokenType.GT):
                return this
            elif self._match(TokenType.GT):
                this = exp.Anonymous(
                    this="shiftrightunsigned", expressions=[this, self._parse_term()]
                )
                continue
            else:
                kind = exp.BitwiseRightShift
            this = self.expression(kind(this=this, expression=self._parse_term()))

    def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query:
        return piped(self, query)

    def _parse_interval(self, *args: Any, **options: Any) -> Any:
        """``d - INTERVAL 1 DAY 2 HOURS``: the sum of both units is what is subtracted."""
        result = super()._parse_interval(*args, **options)
        return exp.Paren(this=result) if isinstance(result, exp.Add) else result

    def _parse_function_call(self, *args: Any, **options: Any) -> exp.Expr | None:
        token = self._curr
        result: exp.Expr | None = super()._parse_function_call(*args, **options)
        if result is not None and token is not None and "start" not in result.meta:
            result.update_positions(token)
        return result


class TrickleSparkGenerator(SparkGenerator):
    """Spark's generator without the rewrites of whole SELECTs: QUALIFY and DISTINCT ON stay."""

    TYPE_MAPPING: ClassVar[dict[Any, str]] = {**SparkGenerator.TYPE_MAPPING, exp.DType.TIME: "TIME"}

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        suffix = expression.meta.get(SUFFIX)
        if suffix is None:
            return super().cast_sql(expression, safe_prefix)
        return f"{expression.this.name}{suffix}"

    def select_sql(self, expression: exp.Select) -> str:
        """Spark replaces columns of ``*`` by a step only."""
        replaced = [
            part for star in expression.expressions for part in star.args.get("replace") or []
        ]
        if not replaced:
            return super().select_sql(expression)
        plain = expression.copy()
        plain.set("expressions", [exp.Star()])
        sets = [f"{self.sql(each, 'alias')} = {self.sql(each, 'this')}" for each in replaced]
        return f"{super().select_sql(plain)} |> SET {', '.join(sets)}"

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        kind: rule for kind, rule in SparkGenerator.TRANSFORMS.items() if kind not in SELECT_RULES
    }


class TrickleSpark(Spark):
    """The dialect of every query inside the compiler."""

    class Tokenizer(Spark.Tokenizer):
        # A doubled quote is a quote, since Spark 4; a backslash still escapes.
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    Parser = TrickleSparkParser
    Generator = TrickleSparkGenerator

    def tokenize(self, sql: str, dialect: Any = None) -> list[Token]:
        """Tokens in which ``window(…)`` is a function and not the clause of that name, and a number
        with a suffix is one token."""
        tokens = _joined(super().tokenize(sql, dialect))
        for token, after in zip(tokens, tokens[1:], strict=False):
            if token.token_type == TokenType.WINDOW and after.token_type == TokenType.L_PAREN:
                token.token_type = TokenType.VAR
        return tokens
