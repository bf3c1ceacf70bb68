"""Functions that are called in SQL by name: what they take, what they answer, and why some are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_trickle.errors import UserError, suggestion
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.service import StreamTables

REQUIRED = object()
"""The default of a parameter that must be given."""


@dataclass(frozen=True)
class FunctionContext:
    """What the functions work on."""

    engine: Engine
    streams: StreamTables
    run: Callable[[str], Any]
    """Runs one statement in PostgreSQL's dialect, and commits it."""


@dataclass(frozen=True)
class Parameter:
    name: str
    kinds: tuple[type, ...] = (str,)
    default: Any = REQUIRED
    refused: str | None = None
    """Why it has no sense on a lake: only its default may be given."""


Body = Callable[[FunctionContext, Mapping[str, Any]], pa.Table]


@dataclass(frozen=True)
class PgFunction:
    """``run`` is None for one that is not there; ``does`` then says why."""

    schema: str
    name: str
    does: str
    parameters: tuple[Parameter, ...] = ()
    run: Body | None = None
    scalar: bool = True
    """Whether the answer is one value."""
    relation: bool = False
    """Whether it is read as a table, without brackets."""

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def signature(self) -> str:
        if self.relation:
            return str(self)
        shown = [p.name for p in self.parameters if p.refused is None]
        return f"{self}({', '.join(shown)})"


@dataclass(frozen=True)
class FunctionCall:
    """One call as it stands in the text, its arguments evaluated."""

    schema: str
    name: str
    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)


def bound(function: PgFunction, call: FunctionCall) -> dict[str, Any]:
    """By parameter: the value given or its default; UserError names what is wrong."""
    if len(call.positional) > len(function.parameters):
        raise UserError(
            f"{function} takes at most {len(function.parameters)} arguments",
            hint=f"it is {function.signature}",
        )
    names = [parameter.name for parameter in function.parameters]
    given = dict(zip(names, call.positional, strict=False))
    for name, value in call.named.items():
        if name not in names:
            raise UserError(
                f"{function} has no parameter {name}",
                hint=suggestion(name, names) or f"it is {function.signature}",
            )
        if name in given:
            raise UserError(f"{function}: {name} is given twice")
        given[name] = value
    return {p.name: _value(function, p, given) for p in function.parameters}


def _value(function: PgFunction, parameter: Parameter, given: Mapping[str, Any]) -> Any:
    if parameter.name not in given:
        if parameter.default is REQUIRED:
            raise UserError(
                f"{function} needs {parameter.name}", hint=f"it is {function.signature}"
            )
        return parameter.default
    value = given[parameter.name]
    # NULL stands for "not given" in alter, and nothing else could be meant elsewhere.
    if value is None and parameter.default is not REQUIRED:
        return parameter.default
    if parameter.refused is not None and value != parameter.default:
        raise UserError(
            f"{function}: {parameter.name} has no sense on a lake: {parameter.refused}",
            hint=f"leave {parameter.name} out",
        )
    kind_fits = isinstance(value, parameter.kinds)
    if not kind_fits or (isinstance(value, bool) and bool not in parameter.kinds):
        wanted = " or ".join(_WORDS[kind] for kind in parameter.kinds)
        raise UserError(f"{function}: {parameter.name} must be {wanted}, not {value!r}")
    return value


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_WORDS |= {list: "an array", dict: "an object"}


def scalar(function: str, value: Any, type: pa.DataType) -> pa.Table:
    """The answer of a function with one value."""
    return pa.table({function: pa.array([value], type)})


def rows(columns: Sequence[tuple[str, pa.DataType]], records: Sequence[Sequence[Any]]) -> pa.Table:
    """The answer of a function with rows."""
    arrays = [
        pa.array([record[i] for record in records], type) for i, (_, type) in enumerate(columns)
    ]
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])
