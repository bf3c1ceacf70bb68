"""Records that were read before are not read again, and are never those of another state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.storage.catalog.database import Connection
from support.served import make


class Counting:
    """A connection that remembers what it was asked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, sql: str, parameters: tuple[object, ...] = ()) -> object:
        self.asked.append(sql)
        return self._connection.execute(sql, parameters)


def load(lake: Lake) -> tuple[list[StreamTable], int]:
    """All records, and how many statements read them; they are what the tables hold."""
    with lake._catalog.reading() as connection:
        counting = Counting(connection)
        found = records.load(counting)  # type: ignore[arg-type]
        assert found == records._read(connection, None)
        assert records.load(connection, found[-1].uuid) == found[-1:]
    return found, len(counting.asked)


def test_nothing_is_read_again_but_frontiers(dry_lake: Lake) -> None:
    streams = make(dry_lake, [f"s{n}" for n in range(5)])
    first, many = load(dry_lake)
    again, few = load(dry_lake)
    assert first == again == streams
    assert few == 2, "the stamp and the frontiers"
    assert few < many
    with dry_lake._catalog.writing() as connection:
        records.move(connection, first[0], first[0].at(99))
    moved, few = load(dry_lake)
    assert moved[0] == first[0].at(99)
    assert moved[1:] == first[1:]
    assert few == 2


def test_the_clock_is_part_of_the_frontier(dry_lake: Lake) -> None:
    (stream, _) = make(dry_lake, ["s", "t"])
    with dry_lake._catalog.writing() as connection:
        records.move(connection, stream, replace(stream, clock=5))
    assert [each.clock for each in load(dry_lake)[0]] == [5, None]
    with dry_lake._catalog.writing() as connection:
        records.move(connection, replace(stream, clock=5), replace(stream, clock=7))
    again, few = load(dry_lake)
    assert [each.clock for each in again] == [7, None]
    assert few == 3


def test_who_else_writes_is_noticed(dry_lake: Lake, tmp_path: Path) -> None:
    (stream,) = make(dry_lake, ["s"])
    load(dry_lake)
    other = spark_trickle.connect(tmp_path / "dry")
    with other, other._catalog.writing() as connection:
        records.save(connection, replace(stream, schedule="9m"))
    assert load(dry_lake)[0][0].schedule == "9m"
    with dry_lake._catalog.writing() as connection:
        records.forget(connection, stream.uuid)
        assert records.load(connection) == []


def test_what_was_rolled_back_is_not_remembered(dry_lake: Lake) -> None:
    (stream,) = make(dry_lake, ["s"])
    load(dry_lake)

    def write() -> None:
        with dry_lake._catalog.writing() as connection:
            records.save(connection, replace(stream, schedule="9m"))
            assert records.load(connection)[0].schedule == "9m"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write()
    assert load(dry_lake)[0] == [stream]


def test_only_a_few_states_are_kept(dry_lake: Lake) -> None:
    (stream,) = make(dry_lake, ["s"])
    for number in range(2 * records._LAKES):
        with dry_lake._catalog.writing() as connection:
            records.save(connection, replace(stream, generation=number))
        load(dry_lake)
    assert len(records._states) <= records._LAKES
