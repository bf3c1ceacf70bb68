"""Wrong types of arguments, told in our words before anything is done."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from spark_trickle.errors import UserError

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_PLAIN: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "Path": (Path,),
    "None": (type(None),),
}
_WORDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "True or False"}


def checked_methods(cls: C) -> C:
    """Have every public method of a class check what it is given."""
    for name, member in vars(cls).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(cls, name, checked(member))
    return cls


def checked(function: F) -> F:
    """Check arguments whose annotation is made of plain types only; UserError where one is wrong.

    Annotations are read as text: names that only type checkers import are never looked up.
    """
    signature = inspect.signature(function)
    wanted = {
        name: parts
        for name, parameter in signature.parameters.items()
        if (parts := _parts(parameter.annotation))
    }

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = zip(signature.parameters, args, strict=False)
        for name, value in (*given, *kwargs.items()):
            if name in wanted and not _fits(value, wanted[name]):
                raise _wrong(function.__name__, name, wanted[name], value)
        return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def _parts(annotation: Any) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in str(annotation).split("|"))
    return parts if all(part in _PLAIN for part in parts) else ()


def _fits(value: Any, parts: tuple[str, ...]) -> bool:
    if isinstance(value, bool):  # which Python takes for an int
        return "bool" in parts
    return any(isinstance(value, _PLAIN[part]) for part in parts)


def _wrong(function: str, name: str, parts: tuple[str, ...], value: Any) -> UserError:
    words = " or ".join(_WORDS.get(part, part) for part in parts)
    return UserError(f"{function}: {name} must be {words}, not {_shown(value)}")


def _shown(value: Any) -> str:
    text = repr(value)
    kind = type(value).__name__
    return kind if value is None or len(text) > 40 or "\n" in text else f"{kind} {text}"
