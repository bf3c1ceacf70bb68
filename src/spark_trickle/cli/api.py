"""docs/api.md: every public name, from its signature and its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import spark_trickle

HEAD = """# Python

Written from the docstrings (`make docs`); the examples are run by a test. Every error is a `TrickleError` with a message, and a
hint where there is one.
"""


def page() -> str:
    """The whole page."""
    public = {name: getattr(spark_trickle, name) for name in spark_trickle.__all__}
    kinds = {n: v for n, v in public.items() if inspect.isclass(v)}
    problems = {n: v for n, v in kinds.items() if issubclass(v, BaseException)}
    parts = [HEAD, *_function("connect", spark_trickle.connect)]
    for name in ("Lake", "LakeTransaction"):
        parts += _class(name, kinds[name])
    for name in sorted(kinds.keys() - problems.keys() - {"Lake", "LakeTransaction"}):
        parts += _record(name, kinds[name])
    parts.append("## Errors\n")
    parts += [f"- `{name}`: {_first(problems[name])}" for name in sorted(problems)]
    return "\n".join(parts) + "\n"


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, in the order of the file."""
    for name, value in vars(kind).items():
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield name, value


def _class(name: str, kind: type) -> Iterator[str]:
    yield f"## {name}\n"
    yield _words(inspect.getdoc(kind) or "") + "\n"
    for member, value in members(kind):
        yield from _function(f"{name}.{member}", value)


def _function(name: str, value: Any) -> Iterator[str]:
    signature = ""
    if not isinstance(value, property):
        found = inspect.signature(value)
        given = [p for p in found.parameters.values() if p.name != "self"]
        # Annotations are texts here, and would be shown as such.
        signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(found.replace(parameters=given)))
    yield f"### `{name}{signature}`\n"
    words, _, example = (inspect.getdoc(value) or "").partition("\n>>> ")
    yield _words(words) + "\n"
    if example:
        yield f"```python\n>>> {example.strip()}\n```\n"


def _record(name: str, kind: type) -> Iterator[str]:
    yield f"## {name}\n"
    yield _words(inspect.getdoc(kind) or "") + "\n"
    fields = getattr(kind, "__dataclass_fields__", {})
    if fields:
        yield "Fields: " + ", ".join(f"`{field}`" for field in fields) + ".\n"


def _first(kind: type) -> str:
    return _words(inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")


def _words(text: str) -> str:
    return text.strip().replace("``", "`")


if __name__ == "__main__":
    print(page(), end="")
