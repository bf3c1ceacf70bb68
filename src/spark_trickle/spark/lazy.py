"""DataFrames whose actions raise our errors: what a query meets when it runs, it meets in ``collect``.

The frame keeps its class as its base, so it is what Spark's own functions, Classic and Connect,
expect; frames, groups and writers that are made from it are treated alike.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from spark_trickle.calls import interruptible
from spark_trickle.spark.failures import spark_errors
from spark_trickle.statements.text.splices import Spliced

LazyText = tuple[str, Spliced | None]
"""The user's text and the one that Spark was sent."""
_KINDS = (
    "DataFrame",
    "GroupedData",
    "DataFrameWriter",
    "DataFrameWriterV2",
    "DataFrameNaFunctions",
    "DataFrameStatFunctions",
)
_SPECIAL = ("__getitem__",)
_TEXT = "_trickle_text"


def translated(frame: DataFrame, text: LazyText = ("", None)) -> DataFrame:
    """The same frame with our errors; the one given is left as it is, it may be in use."""
    copied = object.__new__(type(frame))
    copied.__dict__.update(frame.__dict__)
    return _ours(copied, text)  # type: ignore[no-any-return]


def _ours(made: Any, text: LazyText) -> Any:
    kind = type(made)
    if kind.__name__ in _KINDS and kind.__module__.split(".")[0] == "pyspark":
        made.__class__ = _class(kind)  # type: ignore[arg-type]
        made.__dict__[_TEXT] = text
    return made


@functools.cache
def _class(base: type) -> type:
    if hasattr(base, _TEXT):
        return base
    members: dict[str, Any] = {_TEXT: ("", None), "__module__": base.__module__}
    for name in dir(base):
        member = inspect.getattr_static(base, name)
        if name.startswith("_") and name not in _SPECIAL:
            continue
        if isinstance(member, property):
            members[name] = property(_method(name, member.fget), doc=member.__doc__)
        elif inspect.isfunction(member):
            members[name] = _method(name, member)
    return type(base.__name__, (base,), members)


def _method(name: str, function: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        text = getattr(self, _TEXT)
        with interruptible(), spark_errors(*text):
            found = function(self, *args, **kwargs)
        return _rows(found, text) if name == "toLocalIterator" else _ours(found, text)

    return called


def _rows(rows: Iterator[Any], text: LazyText) -> Iterator[Any]:
    with spark_errors(*text):
        yield from rows
