"""Files in the place of a table: ``read_csv('folder/*.csv', header => true)``, in DuckDB's and Databricks' words."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_trickle.errors import ParseError
from spark_trickle.statements.text.cursor import Cursor
from spark_trickle.statements.text.tokens import TokenKind

_FORMATS = {
    "read_parquet": "parquet",
    "read_csv": "csv",
    "read_csv_auto": "csv",
    "read_json": "json",
    "read_json_auto": "json",
    "read_files": "",
}
_USUAL = {"csv": {"header": "true", "inferSchema": "true"}}
_SPARKS = {"delim": "sep", "delimiter": "sep", "nullstr": "nullValue"}
_ENDINGS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


@dataclass(frozen=True)
class Files:
    """What Spark is to read, in which format and with which options."""

    path: str
    format: str
    options: dict[str, str] = field(default_factory=dict)


def reads_files(name: tuple[str, ...]) -> bool:
    return len(name) == 1 and name[0].lower() in _FORMATS


def parse_files(name: str, call: str) -> Files:
    """``call``: the arguments with their brackets."""
    cursor = Cursor(call)
    cursor.expect_symbol("(")
    path = cursor.string("the path of files")
    given: dict[str, str] = {}
    while cursor.accept_symbol(","):
        option = cursor.part("an option's name")
        cursor.expect_symbol("=")
        cursor.accept_symbol(">")
        given[_SPARKS.get(option.lower(), option)] = _value(cursor)
    cursor.expect_symbol(")")
    kind = given.pop("format", _FORMATS[name.lower()]).lower() or _by_ending(path)
    return Files(path, kind, _USUAL.get(kind, {}) | given)


def _value(cursor: Cursor) -> str:
    token = cursor.peek()
    if token is not None and token.kind is TokenKind.STRING:
        return cursor.string("a value")
    if token is None or not (token.kind is TokenKind.NUMBER or token.word in ("TRUE", "FALSE")):
        cursor.fail("a text, a number, TRUE or FALSE is expected here")
    cursor.index += 1
    return token.text.lower()


def _by_ending(path: str) -> str:
    for ending, kind in _ENDINGS.items():
        if path.lower().removesuffix(".gz").endswith(ending):
            return kind
    raise ParseError(
        f"{path} does not say what it is",
        hint="add format => 'csv', or use read_csv, read_json or read_parquet",
    )
