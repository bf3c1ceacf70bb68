"""Functions of texts. Positions may be zero or negative in PostgreSQL; case is that of ASCII."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.rules.casts import coerced, converted
from spark_trickle.sql.pg.types import refuse
from spark_trickle.sql.pg.values import (
    PgValue,
    Rule,
    binary,
    call,
    cast,
    either,
    failing,
    let,
    number,
    text,
)

_LARGEST = 2_147_483_647


def as_text(value: PgValue, what: str) -> exp.Expr:
    """A text, or a literal that becomes one."""
    if value.type not in (t.TEXT, t.UNKNOWN):
        refuse(f"{what} of {value.type}", "CAST it to text")
    return coerced(value, t.TEXT).tree


def _int(value: PgValue, what: str) -> exp.Expr:
    if value.type == t.UNKNOWN:
        value = coerced(value, t.INT4)
    if value.type not in (t.INT2, t.INT4):
        refuse(f"{what} with {value.type}", "CAST it to integer")
    return value.tree


def plain(name: str, spark: str | None = None, *, result: t.PgType = t.TEXT) -> Rule:
    """The same function in Spark, over texts."""

    def rule(arguments: Sequence[PgValue]) -> PgValue:
        trees = [as_text(argument, name) for argument in arguments]
        return PgValue(call(spark or name, *trees), result)

    return rule


def in_ascii(content: exp.Expr, body: exp.Expr, type: t.PgType, what: str) -> exp.Expr:
    """Beyond ASCII the answer depends on the locale of the server."""
    odd = binary(exp.NEQ, call("octet_length", content.copy()), call("char_length", content.copy()))
    return failing(odd, f"{what} of letters beyond ASCII depends on the locale", body, type)


def _cased(name: str) -> Rule:
    def rule(arguments: Sequence[PgValue]) -> PgValue:
        tree = as_text(arguments[0], name)
        return PgValue(
            let([tree], lambda s: in_ascii(s, call(name, s.copy()), t.TEXT, name)), t.TEXT
        )

    return rule


def joined(left: PgValue, right: PgValue) -> PgValue:
    """``||``: what is not a text is written as its cast to text."""
    if t.TEXT not in (left.type, right.type) and t.UNKNOWN not in (left.type, right.type):
        refuse(f"|| of {left.type} and {right.type}", "CAST one of them to text")
    sides = [converted(side, t.TEXT).tree for side in (left, right)]
    return PgValue(call("concat", *sides), t.TEXT)


def _concat(arguments: Sequence[PgValue]) -> PgValue:
    """NULL is left out."""
    return PgValue(call("concat_ws", text(""), *_written(arguments, "concat")), t.TEXT)


def _concat_ws(arguments: Sequence[PgValue]) -> PgValue:
    separator = as_text(arguments[0], "concat_ws")
    return PgValue(call("concat_ws", separator, *_written(arguments[1:], "concat_ws")), t.TEXT)


def _written(arguments: Sequence[PgValue], what: str) -> list[exp.Expr]:
    for argument in arguments:
        if argument.type == t.BOOL:
            refuse(f"{what} of boolean", "CAST it to text")
    return [converted(argument, t.TEXT).tree for argument in arguments]


def substring(value: PgValue, start: PgValue | None, length: PgValue | None) -> PgValue:
    """Counts from 1; what lies before the text counts too."""
    content = as_text(value, "substring")
    begin = cast(_int(start, "substring"), t.INT8) if start is not None else cast(number(1), t.INT8)
    if start is not None and start.type == t.UNKNOWN:
        refuse("substring with a pattern")
    first = call("greatest", begin, cast(number(1), t.INT8))
    if length is None:
        return PgValue(call("substring", content, cast(first, t.INT4)), t.TEXT)

    def body(b: exp.Expr, n: exp.Expr) -> exp.Expr:
        one = cast(number(1), t.INT8)
        low = call("greatest", b.copy(), one)
        high = call("greatest", binary(exp.Add, b.copy(), n.copy()), one.copy())
        size = binary(exp.Sub, high, low.copy())
        limited = call("least", size, cast(number(_LARGEST), t.INT8))
        part = call("substring", content.copy(), cast(low, t.INT4), cast(limited, t.INT4))
        below = binary(exp.LT, n.copy(), number(0))
        return failing(below, "negative substring length not allowed", part, t.TEXT)

    # A lambda cannot see a column beside its own variable in every place: bind the text as well.
    count = cast(_int(length, "substring"), t.INT8)
    if isinstance(start, PgValue) and start.is_literal and length.is_literal:
        return PgValue(body(begin, count), t.TEXT)
    return PgValue(
        let([content, begin, count], lambda c, b, n: _with(body(b, n), content, c)), t.TEXT
    )


def _with(tree: exp.Expr, old: exp.Expr, new: exp.Expr) -> exp.Expr:
    return tree.transform(lambda node: new.copy() if node == old else node)


def _substr(arguments: Sequence[PgValue]) -> PgValue:
    return substring(arguments[0], arguments[1], arguments[2] if len(arguments) > 2 else None)


def _end(name: str) -> Rule:
    """left and right: a negative count leaves so many characters out on the other side."""

    def rule(arguments: Sequence[PgValue]) -> PgValue:
        content, count = as_text(arguments[0], name), _int(arguments[1], name)

        def body(s: exp.Expr, n: exp.Expr) -> exp.Expr:
            rest = call(
                "greatest", binary(exp.Add, call("char_length", s.copy()), n.copy()), number(0)
            )
            kept = either(binary(exp.LT, n.copy(), number(0)), rest, n.copy())
            return call(name, s.copy(), kept)

        return PgValue(let([content, count], body), t.TEXT)

    return rule


def position(needle: PgValue, hay: PgValue) -> PgValue:
    trees = [as_text(needle, "position"), as_text(hay, "position")]
    return PgValue(call("locate", *trees), t.INT4)


def _strpos(arguments: Sequence[PgValue]) -> PgValue:
    return position(arguments[1], arguments[0])


def trimmed(value: PgValue, characters: PgValue | None, where: str) -> PgValue:
    """``where``: BOTH, LEADING or TRAILING; blanks unless characters are given."""
    content = as_text(value, "trim")
    if characters is None:
        name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[where]
        return PgValue(call(name, content), t.TEXT)
    if not characters.is_literal or characters.constant == "":
        refuse("trim of characters that are not a constant")
    tree = exp.Trim(this=content, expression=as_text(characters, "trim"), position=where)
    return PgValue(tree, t.TEXT)


def _trim(where: str) -> Rule:
    def rule(arguments: Sequence[PgValue]) -> PgValue:
        return trimmed(arguments[0], arguments[1] if len(arguments) > 1 else None, where)

    return rule


def _pad(name: str) -> Rule:
    def rule(arguments: Sequence[PgValue]) -> PgValue:
        content, count = as_text(arguments[0], name), _int(arguments[1], name)
        fill = as_text(arguments[2], name) if len(arguments) > 2 else text(" ")
        if len(arguments) > 2 and not arguments[2].constant:
            refuse(f"{name} with a filling that is not a constant text")
        return PgValue(call(name, content, call("greatest", count, number(0)), fill), t.TEXT)

    return rule


def _repeat(arguments: Sequence[PgValue]) -> PgValue:
    content, count = as_text(arguments[0], "repeat"), _int(arguments[1], "repeat")
    return PgValue(call("repeat", content, call("greatest", count, number(0))), t.TEXT)


def _split_part(arguments: Sequence[PgValue]) -> PgValue:
    content, mark = as_text(arguments[0], "split_part"), as_text(arguments[1], "split_part")
    place = arguments[2].constant
    if not arguments[1].constant or not isinstance(place, int) or place < 1:
        refuse(
            "split_part unless mark and place are constants, the mark not empty, the place above 0"
        )
    return PgValue(call("split_part", content, mark, number(place)), t.TEXT)


def _length(name: str) -> Rule:
    def rule(arguments: Sequence[PgValue]) -> PgValue:
        return PgValue(call(name, as_text(arguments[0], name)), t.INT4)

    return rule


_SAFE = re.compile(r"[A-Za-z0-9 _,:;@#%&=<>/'\"!~-]")
_CLASS = re.compile(
    r"\[\^?(?:[A-Za-z0-9 _.,:;@#%=<>/!]|(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]))+\]"
)
_REPEATED = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})(?![*+?{])")


def pattern(content: str) -> str:
    """A regular expression that both read alike, as Java spells it; everything else is refused."""
    answer, place = "(?s)", 0
    while place < len(content):
        rest = content[place:]
        if (found := _CLASS.match(rest) or _REPEATED.match(rest)) is not None:
            part = spelled = found[0]
        elif rest[:2] == "\\d":
            part, spelled = "\\d", "[0-9]"
        elif rest[0] == "\\" and len(rest) > 1 and rest[1] in ".*+?()[]{}|^$\\/-":
            part = spelled = rest[:2]
        elif rest[0] == "$":
            part, spelled = "$", "\\z"
        elif rest[0] in "^|().":
            part = spelled = rest[0]
            if rest[:2] == "(?":
                refuse(f"the regular expression {content!r}: (?…)")
        elif _SAFE.match(rest):
            part = spelled = rest[0]
        else:
            refuse(f"the regular expression {content!r}: {rest[:6]!r} has no proven translation")
        answer, place = answer + spelled, place + len(part)
    return answer


def matches(value: PgValue, by: PgValue, *, any_case: bool) -> PgValue:
    """``~`` and ``~*``."""
    if not isinstance(by.constant, str):
        refuse("~ with a pattern that is not a constant")
    content = as_text(value, "~")
    spelled = pattern(by.constant)
    if not any_case:
        return PgValue(call("rlike", content, text(spelled)), t.BOOL)
    found = let(
        [content],
        lambda s: in_ascii(s, call("rlike", s.copy(), text(f"(?i){spelled}")), t.BOOL, "~*"),
    )
    return PgValue(found, t.BOOL)


def like(value: PgValue, by: PgValue, *, any_case: bool, escape: str | None) -> PgValue:
    content, wanted = as_text(value, "LIKE"), by.constant
    if not isinstance(wanted, str):
        refuse("LIKE with a pattern that is not a constant")
    mark = "\\" if escape is None else escape
    if len(mark) > 1:
        refuse("LIKE with an ESCAPE of several characters")
    translated = _like_pattern(wanted, mark)
    if not any_case:
        return PgValue(exp.Like(this=content, expression=text(translated)), t.BOOL)
    found = let(
        [content],
        lambda s: in_ascii(
            s, exp.ILike(this=s.copy(), expression=text(translated)), t.BOOL, "ILIKE"
        ),
    )
    return PgValue(found, t.BOOL)


def _like_pattern(content: str, mark: str) -> str:
    """With a backslash as the escape, and before nothing that needs none."""
    answer, place = "", 0
    while place < len(content):
        c = content[place]
        if mark and c == mark:
            place += 1
            if place >= len(content):
                refuse("LIKE pattern must not end with escape character")
            c = content[place]
            answer += f"\\{c}" if c in "%_\\" else c
        else:
            answer += "\\\\" if c == "\\" else c
        place += 1
    return answer


RULES: dict[str, tuple[int, int, Rule]] = {
    "upper": (1, 1, _cased("upper")),
    "lower": (1, 1, _cased("lower")),
    "length": (1, 1, _length("char_length")),
    "char_length": (1, 1, _length("char_length")),
    "character_length": (1, 1, _length("char_length")),
    "octet_length": (1, 1, _length("octet_length")),
    "concat": (1, 99, _concat),
    "concat_ws": (2, 99, _concat_ws),
    "substr": (2, 3, _substr),
    "substring": (2, 3, _substr),
    "left": (2, 2, _end("left")),
    "right": (2, 2, _end("right")),
    "strpos": (2, 2, _strpos),
    "replace": (3, 3, plain("replace")),
    "translate": (3, 3, plain("translate")),
    "reverse": (1, 1, plain("reverse")),
    "md5": (1, 1, plain("md5")),
    "starts_with": (2, 2, plain("starts_with", "startswith", result=t.BOOL)),
    "btrim": (1, 2, _trim("BOTH")),
    "ltrim": (1, 2, _trim("LEADING")),
    "rtrim": (1, 2, _trim("TRAILING")),
    "lpad": (2, 3, _pad("lpad")),
    "rpad": (2, 3, _pad("rpad")),
    "repeat": (2, 2, _repeat),
    "split_part": (3, 3, _split_part),
}
