"""docs/api.md is what the docstrings say, every public name has an example, and the examples run."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle import Lake, LakeTransaction, connect
from spark_trickle.cli import api

ORDER = {"create_table": -2, "create_stream_table": -1, "drop_stream_table": 1, "close": 2}
"""What makes and what takes away what the others need."""
PARSER = doctest.DocTestParser()


def examples(value: Any) -> list[str]:
    return [each.source for each in PARSER.get_examples(inspect.getdoc(value) or "")]


def members(kind: type) -> Iterator[tuple[str, list[str]]]:
    for name, value in sorted(api.members(kind), key=lambda each: ORDER.get(each[0], 0)):
        yield name, examples(value)


def test_the_page_is_up_to_date() -> None:
    written = (Path(__file__).parent.parent / "docs" / "api.md").read_text()
    assert written == api.page(), "run make docs"


def test_every_public_name_has_words() -> None:
    for name in spark_trickle.__all__:
        assert inspect.getdoc(getattr(spark_trickle, name)), name


@pytest.mark.spark
def test_every_method_has_an_example_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object
) -> None:
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {"connect": connect}
    (opening,) = examples(connect)
    exec(opening, known)
    lake = known["lake"]
    assert isinstance(lake, Lake)
    ran = set()
    for name, given in members(Lake):
        assert given, f"Lake.{name} has no example"
        if name == "close":
            break
        for example in given:
            exec(compile(example, name, "single"), known)
        ran.add(name)
        if name == "create_table":
            for number in range(4):
                lake.sql(f"INSERT INTO orders VALUES ({number}, 'eve')")
    for name, given in members(LakeTransaction):
        assert given, f"LakeTransaction.{name} has no example"
        known["tx"] = lake.transaction()
        for example in given:
            exec(compile(example, name, "single"), known)
        if name not in ("commit", "rollback"):
            known["tx"].rollback()
    for example in examples(Lake.close):
        exec(example, known)
    assert len(ran) > 30
