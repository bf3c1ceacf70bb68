"""Functions that somebody registered: whether Spark takes them for deterministic, and what they are.

Their identity is a hash of what they do: the code of a Python function with the values it carries,
the text of an SQL function, the class of a Java one. On Spark Connect, where the code is out of
reach, it is the server's own hash of the call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.errors import NotFoundError, SourceChangedError, TrickleError
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.sessions import classic
from spark_trickle.spark.sessions.facts import UserFunction

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def registered(session: SparkSession, called: Mapping[str, int]) -> dict[str, UserFunction]:
    """Those of the functions, given with the number of their arguments, that the session has."""
    found = {}
    for name, arguments in called.items():
        call = f"{name}({', '.join(['NULL'] * arguments)})"
        with suppress(TrickleError), spark_errors():
            frame = session.sql(f"SELECT {call} AS x")
            text = _sql_text(session, name)
            reads = any(line.startswith("Data Access:") and "READS" in line for line in text)
            identity = _hash(text) if text else _identity(frame)
            found[name] = UserFunction(identity, not reads and _deterministic(session, call))
    return found


def check(
    session: SparkSession, known: Mapping[str, UserFunction], called: Mapping[str, int]
) -> None:
    """TrickleError that names a function which is not there or is another one now."""
    there = registered(session, called)
    for name, function in known.items():
        if name not in there:
            raise NotFoundError(
                f"the query calls the function {name}, which this session does not have",
                hint=f"register it first: spark.udf.register({name!r}, …)",
            )
        if there[name].identity != function.identity:
            raise SourceChangedError(
                f"the function {name} is not the one that the query was made with",
                hint=f"register that one again; or give the stream table its query anew, with "
                f"ALTER STREAM TABLE … AS SELECT …, to have it computed with this {name}",
            )


def _deterministic(session: SparkSession, call: str) -> bool:
    """A condition of a join is where Spark refuses whatever is not deterministic."""
    text = f"SELECT 1 FROM (VALUES (1)) AS a JOIN (VALUES (1)) AS b ON {call} IS NULL"
    try:
        with spark_errors():
            return len(session.sql(text).schema) == 1
    except TrickleError:
        return False


def _sql_text(session: SparkSession, name: str) -> list[str]:
    """An SQL function as Spark describes it, empty for others."""
    rows = session.sql(f"DESCRIBE FUNCTION EXTENDED {name}").collect()
    lines = [str(row[0]) for row in rows]
    if not any(line.startswith("Body:") for line in lines):
        return []
    return [line for line in lines if not line.startswith("Create Time:")]


def _identity(frame: DataFrame) -> str:
    known = classic.definition(frame)
    if known is None:
        return f"plan {frame.semanticHash()}"
    return _hash(cloudpickle.loads(known) if isinstance(known, bytes) else known)


def _hash(value: object) -> str:
    return hashlib.sha256(repr(_content(value, ())).encode()).hexdigest()[:32]


def _content(value: Any, around: tuple[int, ...]) -> object:
    """What a value is, told by plain values, without names of files and places in memory."""
    if id(value) in around:
        return "itself"
    inner = (*around, id(value))
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        return [_content(item, inner) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(_content(item, inner)) for item in value)
    if isinstance(value, dict):
        return sorted((repr(_content(k, inner)), _content(v, inner)) for k, v in value.items())
    if isinstance(value, CodeType):
        parts = value.co_code, value.co_names, value.co_argcount, value.co_kwonlyargcount
        return [*map(repr, parts), _content(value.co_consts, inner)]
    if isinstance(value, FunctionType):
        return _function(value, inner)
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type | BuiltinFunctionType) and value.__module__ != "__main__":
        return f"{value.__module__}.{value.__qualname__}"
    pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return hashlib.sha256(pickled).hexdigest()


def _function(value: FunctionType, around: tuple[int, ...]) -> object:
    named = {name: value.__globals__[name] for name in _names(value.__code__, value.__globals__)}
    held = [cell.cell_contents for cell in value.__closure__ or ()]
    parts = (value.__code__, value.__defaults__, value.__kwdefaults__, held, named)
    return [_content(part, around) for part in parts]


def _names(code: CodeType, known: Mapping[str, object]) -> set[str]:
    """The names around a function that it reads, in functions inside it too."""
    found = {name for name in code.co_names if name in known}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant, known)
    return found
