"""Leases: one holder at a time, the dead are taken over by one's own clock, nobody waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_trickle.maintain.schedule import leases as module
from spark_trickle.maintain.schedule.leases import Leases
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from support import postgres


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


Open = Callable[[], Catalog]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def open_catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    settings = Settings(lease_seconds=15.0)
    if request.param == "sqlite":
        yield lambda: _prepared(Catalog.open(str(tmp_path / "lake"), None, settings))
    else:
        with postgres.server() as url:
            yield lambda: _prepared(Catalog.open(url, str(tmp_path / "data"), settings))


def _prepared(catalog: Catalog) -> Catalog:
    with catalog.writing() as connection:
        module.create_tables(connection)
    return catalog


def held_by(catalog: Catalog) -> dict[str, str | None]:
    with catalog.reading() as connection:
        return {uuid: lease.holder for uuid, lease in module.load(connection).items()}


def test_one_holder_at_a_time(open_catalog: Open) -> None:
    with open_catalog() as catalog:
        first, second = Leases(catalog), Leases(catalog)
        assert first.claim(["a", "b"]) == {"a", "b"}
        assert second.claim(["a", "b", "c"]) == {"c"}
        assert second.claim(["a", "c", "d"], in_order=True) == set(), "a comes first"
        first.release("a")
        assert second.claim(["a", "b", "d"], in_order=True) == {"a"}
        assert held_by(catalog) == {"a": second.holder, "b": first.holder, "c": second.holder}
        first.leave()
        second.leave()
        assert set(held_by(catalog).values()) == {None}


def test_a_silent_holder_is_taken_over_by_the_clock_of_the_one_who_waits(
    open_catalog: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks a year apart: only the seconds that somebody waited himself count."""
    with open_catalog() as catalog:
        ahead, behind = Clock(3.2e7), Clock(-3.2e7)
        silent, waiting = Leases(catalog, clock=ahead), Leases(catalog, clock=behind)
        silent.claim(["a"])
        waiting.beat()
        behind.now += 14.9
        assert waiting.claim(["a"]) == set()
        silent.beat()
        behind.now += 14.9
        assert waiting.claim(["a"]) == set(), "it has beaten meanwhile"
        behind.now += 15.1
        assert waiting.claim(["a"]) == {"a"}
        assert not waiting.holds("b")
        # The one that was taken for dead comes back: it holds nothing, and says so.
        silent.beat()
        assert not silent.holds("a")
        assert silent.claim(["a"]) == set()
        silent.release("a", ok=True)
        assert held_by(catalog)["a"] == waiting.holder, "it cannot give away what is not its own"


def test_a_process_that_is_gone_is_taken_over_at_once(
    open_catalog: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_catalog() as catalog:
        lost = Leases(catalog)
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: dead.pid)
            lost.claim(["a"])
        other = Leases(catalog)
        assert other.claim(["a"]) == {"a"}
        with catalog.reading() as connection:
            assert set(module.holders(connection)) == {other.holder}


def test_another_machine_is_not_judged_by_its_process_ids(
    open_catalog: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_catalog() as catalog:
        away = Leases(catalog)
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: 2**22 + 1)
            patched.setattr(module, "this_machine", lambda: "elsewhere")
            away.claim(["a"])
        assert Leases(catalog).claim(["a"]) == set()


def test_attempts_are_counted(open_catalog: Open) -> None:
    with open_catalog() as catalog:
        mine = Leases(catalog)

        def attempt(ok: bool | None, generation: int = 1, seconds: float = 0.0) -> int:
            mine.claim(["a"])
            return mine.release("a", ok=ok, generation=generation, seconds=seconds)

        assert [attempt(False) for _ in range(3)] == [1, 2, 3]
        assert attempt(None) == 3, "a skip is no attempt"
        assert attempt(False, generation=2) == 1, "another definition: counted anew"
        assert attempt(True, generation=2, seconds=2.5) == 0
        assert attempt(True, generation=2) == 0
        with catalog.reading() as connection:
            lease = module.load(connection)["a"]
        assert (lease.tries, lease.seconds, lease.epoch) == (6, 2.5, 7)
