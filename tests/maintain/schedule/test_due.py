"""``due``: tables of cases, and its laws on random graphs in virtual time. Nothing sleeps."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_trickle.maintain.schedule.due import (
    Decisions,
    Past,
    Planned,
    due,
    lags,
    next_due,
    pause,
    stretched,
)
from spark_trickle.maintain.schedule.schedules import (
    ByHand,
    Calculated,
    Cron,
    Every,
    Schedule,
    parsed,
)

DAY = 86_400.0
NOW = 10 * DAY


def table(id: str, schedule: str | None, *sources: str, **more: object) -> Planned:
    return Planned(id, id, parsed(schedule), sources, **more)  # type: ignore[arg-type]


def ago(age: float, /, **more: object) -> Past:
    return Past(tried_at=NOW - age, **more)  # type: ignore[arg-type]


QUIET = {"changed": False}


@pytest.mark.parametrize(
    ("schedule", "past", "is_due"),
    [
        ("30s", ago(29.9), False),
        ("30s", ago(30), True),
        ("30s", ago(3000), True),
        ("30s", ago(3000, changed=False), False),
        ("30s", ago(3000, busy=True), False),
        ("1h30m", ago(5399), False),
        ("1h30m", ago(5400), True),
        ("1w", ago(6 * DAY), False),
        ("1w", ago(7 * DAY), True),
        ("@daily", ago(1), True),
        ("@daily", ago(0), False),
        ("0 12 * * *", ago(0.5 * DAY - 1), False),
        ("0 12 * * *", ago(0.5 * DAY + 1), True),
        ("*/10 * * * * *", ago(10), True),
        ("*/10 * * * * *", ago(0), False),
        ("0 1 * * * Europe/Berlin", ago(1), True),
        ("0 2 * * * Europe/Berlin", ago(1), False),
        ("UNSET", ago(9 * DAY), False),
        ("CALCULATED", ago(9 * DAY), False),
        (None, ago(9 * DAY), False),
        ("1h", Past(), True),
        ("0 12 * * *", Past(), True),
        ("1h", ago(0.5, failures=1), False),
        ("1h", ago(1.3, failures=1), True),
        ("1h", ago(5, failures=4), False),
        ("1h", ago(10.1, failures=4), True),
        ("10s", ago(15, seconds=9.6), False),
        ("10s", ago(20, seconds=9.6), True),
        ("10s", ago(79, seconds=75), False),
        ("10s", ago(80, seconds=75), True),
    ],
)
def test_one_table(schedule: str | None, past: Past, is_due: bool) -> None:
    decided = due(NOW, [table("t", schedule, "base")], {"t": past})
    assert decided.refresh == ({"t"} if is_due else set())


@pytest.mark.parametrize("status", ["SUSPENDED", "ERROR"])
def test_what_is_out_of_service_is_not_due(status: str) -> None:
    assert due(NOW, [table("t", "1s", "base", status=status)], {}) == Decisions()


def test_immediate_tables_are_not_scheduled() -> None:
    assert due(NOW, [table("t", "1s", "base", immediate=True)], {}) == Decisions()


CHAIN = [table("a", None, "base"), table("b", None, "a"), table("c", "1m", "b")]


@pytest.mark.parametrize(
    ("history", "wave"),
    [
        ({"a": ago(60), "b": ago(60, **QUIET), "c": ago(60, **QUIET)}, {"a", "b", "c"}),
        ({"a": ago(60, **QUIET), "b": ago(60), "c": ago(60, **QUIET)}, {"b", "c"}),
        ({"a": ago(60, **QUIET), "b": ago(60, **QUIET), "c": ago(60)}, {"c"}),
        ({i: ago(60, **QUIET) for i in "abc"}, set()),
        ({"a": ago(600), "b": ago(600), "c": ago(59)}, set()),
        ({"a": ago(60, busy=True), "b": ago(60), "c": ago(60)}, set()),
        ({"a": ago(60, busy=True, changed=False), "b": ago(60), "c": ago(60)}, {"b", "c"}),
        ({"a": ago(0.1, failures=1), "b": ago(60), "c": ago(60)}, set()),
        ({"a": ago(2, failures=1), "b": ago(60), "c": ago(60)}, {"a", "b", "c"}),
    ],
)
def test_a_wave_holds_what_is_needed_upstream(history: dict[str, Past], wave: set[str]) -> None:
    assert due(NOW, CHAIN, history).refresh == wave


def test_a_table_that_is_refreshed_by_hand_is_not_pulled() -> None:
    chain = [table("a", "UNSET", "base"), table("b", "1m", "a", "base")]
    assert due(NOW, chain, {"a": ago(600), "b": ago(600)}).refresh == {"b"}
    assert due(NOW, chain, {"a": ago(600), "b": ago(600, **QUIET)}).refresh == set()


def test_changes_reach_through_an_immediate_table() -> None:
    chain = [
        table("a", None, "base"),
        table("now", None, "a", immediate=True),
        table("c", "1m", "now"),
    ]
    history = {"a": ago(60), "now": ago(60), "c": ago(60, **QUIET)}
    assert due(NOW, chain, history).refresh == {"a", "c"}


def test_dependents_of_what_is_suspended_are_skipped_by_name() -> None:
    chain = [
        table("a", None, "base", status="SUSPENDED"),
        table("b", None, "a"),
        table("c", "1m", "b"),
    ]
    decided = due(NOW, chain, {i: ago(60) for i in "abc"})
    assert decided.refresh == set()
    assert [s.id for s in decided.skip] == ["c"]
    assert decided.skip[0].reason.startswith("UPSTREAM_SUSPENDED: a,")


def test_it_says_when_to_look_again() -> None:
    tables = [table("a", "1m", "base"), table("b", "10m", "base"), table("c", "1m", "base")]
    history = {"a": ago(50), "b": ago(60), "c": ago(59, **QUIET)}
    assert due(NOW, tables, history).next_at == NOW + 10
    expected = {"a": NOW + 10, "b": NOW + 540, "c": NOW + 1}
    assert next_due(NOW, tables, history) == expected


def test_what_belongs_together_is_due_at_once() -> None:
    """The first waits for the others, but not longer than half an interval."""
    tables = [
        table("a", "60s", "t"),
        table("b", "60s", "t"),
        table("c", "60s", "b"),
        table("other", "60s", "u"),
        table("slower", "90s", "t"),
    ]

    def decided(a: float, b: float, c: float) -> Decisions:
        return due(NOW, tables, {"a": ago(a), "b": ago(b), "c": ago(c), "other": ago(60)})

    first = decided(60, 50, 35)
    assert first.refresh == {"other", "slower"}
    assert first.next_at == NOW + 25, "when the last of them is due"
    assert decided(85, 75, 60).refresh == {"a", "b", "c", "other", "slower"}
    late = decided(80, 20, 79)
    assert late.refresh == {"a", "b", "c", "other", "slower"}, "c needs b; b alone would not be due"
    alone = due(NOW, tables, {"a": ago(91), "b": ago(20), "c": ago(20)})
    assert "a" in alone.refresh
    assert "b" not in alone.refresh


def test_pauses_grow_and_differ() -> None:
    for n in range(1, 40):
        wanted = min(2.0 ** (n - 1), 60.0)
        found = [pause(f"t{i}", n) for i in range(20)]
        assert all(0.75 * wanted <= p <= 1.25 * wanted for p in found)
        assert len(set(found)) > 10


def test_an_interval_is_doubled_until_the_refresh_fits() -> None:
    assert stretched(10, 9.5) == 10
    assert stretched(10, 9.6) == 20
    assert stretched(10, 200) == 320


# Laws on random graphs

SCHEDULES: list[Schedule] = [
    *(Every(float(n)) for n in (2, 3, 5, 7, 20)),
    Calculated(),
    Calculated(),
    ByHand(),
    Cron("*/4 * * * * *"),
]


@st.composite
def graphs(draw: st.DrawFn) -> list[Planned]:
    tables: list[Planned] = []
    for i in range(draw(st.integers(1, 7))):
        known = ["x", "y", *(t.id for t in tables)]
        sources = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        schedule = draw(st.sampled_from(SCHEDULES))
        tables.append(Planned(f"t{i}", f"t{i}", schedule, tuple(sources)))
    return tables


def readers_of(tables: list[Planned], id: str) -> set[str]:
    """Those that read it through tables that a scheduler moves, itself included."""
    found, before = {id}, set()
    while found != before:
        before = set(found)
        for t in tables:
            by_hand = {u.id for u in tables if isinstance(u.schedule, ByHand)}
            if set(t.sources) & (found - (by_hand - {id})):
                found.add(t.id)
    return found


@dataclass
class World:
    """Tables as counters: a base table counts its commits, a stream table knows what it has seen."""

    tables: list[Planned]
    version: dict[str, int] = field(default_factory=lambda: {"x": 0, "y": 0})
    seen: dict[str, dict[str, int]] = field(default_factory=dict)
    began: dict[str, list[float]] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    waiting_since: dict[str, float] = field(default_factory=dict)

    def history(self) -> Mapping[str, Past]:
        return {
            t.id: Past(
                tried_at=self.began[t.id][-1] if self.began.get(t.id) else -float("inf"),
                changed=self.changed(t),
                busy=t.id in self.running,
            )
            for t in self.tables
        }

    def changed(self, t: Planned) -> bool:
        seen = self.seen.get(t.id)
        return seen is None or any(self.version.get(s, 0) > seen.get(s, 0) for s in t.sources)

    def refresh(self, t: Planned, now: float) -> None:
        if self.changed(t):
            self.version[t.id] = self.version.get(t.id, 0) + 1
        self.seen[t.id] = {s: self.version.get(s, 0) for s in t.sources}
        self.began.setdefault(t.id, []).append(now)

    def behind(self, t: Planned) -> bool:
        """An oracle of its own: does any base change not reach the table yet?"""
        if self.changed(t):
            return True
        return any(
            u.id in t.sources and not isinstance(u.schedule, ByHand) and self.behind(u)
            for u in self.tables
        )


@given(graphs(), st.lists(st.tuples(st.integers(0, 240), st.sampled_from("xy")), max_size=30))
@example(
    [Planned("t0", "t0", Every(5.0), ("x",)), Planned("t1", "t1", Every(5.0), ("x", "y"))],
    [(1, "x"), (21, "x"), (41, "x"), (61, "x"), (81, "y"), (103, "x"), (121, "x"), (124, "x")],
)
@settings(max_examples=120, deadline=None)
def test_laws_in_virtual_time(tables: list[Planned], commits: list[tuple[int, str]]) -> None:
    world = World(tables)
    by_id = {t.id: t for t in tables}
    step = 0.25
    for tick in range(0, 241):
        now = 1000.0 + tick * step
        for at, base in commits:
            if at == tick:
                world.version[base] += 1
        history = world.history()
        decided = due(now, tables, history)
        _check_wave(world, by_id, history, decided, now)
        for t in tables:  # made in the order of their dependencies
            if t.id in decided.refresh:
                world.refresh(t, now)
        for t in tables:
            if isinstance(t.schedule, Every) and world.behind(t):
                since = world.waiting_since.setdefault(t.id, now)
                # It may wait half an interval more, for those that become due together with it.
                assert now - since < 1.5 * t.schedule.seconds + step, f"{t.id} is starved"
            else:
                world.waiting_since.pop(t.id, None)


def _check_wave(
    world: World,
    by_id: Mapping[str, Planned],
    history: Mapping[str, Past],
    decided: Decisions,
    now: float,
) -> None:
    tables = list(by_id.values())
    for id in decided.refresh:
        t = by_id[id]
        assert not isinstance(t.schedule, ByHand)
        assert world.behind(t), f"{id} has nothing to do"
        for u in tables:
            if u.id in t.sources and not isinstance(u.schedule, ByHand) and world.behind(u):
                assert u.id in decided.refresh, f"{id} would read {u.id} at another version"
        asked_by = [by_id[r] for r in readers_of(tables, id) if r in decided.refresh]
        assert any(_period_is_over(r, history[r.id], now) for r in asked_by), f"{id}: nobody asked"


def _period_is_over(t: Planned, past: Past, now: float) -> bool:
    match t.schedule:
        case Every(seconds):
            return now - past.tried_at >= seconds
        case Cron():
            return any(
                past.tried_at < 1000.0 + n * 4 <= now for n in range(-1, 20)
            )  # ticks of */4 from the simulation's start
        case _:
            return False


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_calculated_is_the_shortest_that_a_reader_needs(tables: list[Planned]) -> None:
    found = lags(NOW, tables)
    for t in tables:
        if isinstance(t.schedule, Calculated):
            # Every chain of CALCULATED tables ends at tables that say what they need.
            ends: set[float] = set()
            layer = {t.id}
            for _ in itertools.repeat(None, len(tables)):
                reading = [u for u in tables if layer & set(u.sources)]
                ends |= {u.schedule.seconds for u in reading if isinstance(u.schedule, Every)}
                ends |= {4.0 for u in reading if isinstance(u.schedule, Cron)}
                layer = {u.id for u in reading if isinstance(u.schedule, Calculated)}
            assert found[t.id] == (min(ends) if ends else None)
        elif isinstance(t.schedule, Every):
            assert found[t.id] == t.schedule.seconds


def gets_changes(tables: list[Planned], t: Planned) -> bool:
    """Whether a base table reaches it without passing one that is refreshed by hand."""
    reading = [u for u in tables if u.id in t.sources and not isinstance(u.schedule, ByHand)]
    return bool({"x", "y"} & set(t.sources)) or any(gets_changes(tables, u) for u in reading)


@given(graphs(), st.floats(0.1, 6.0), st.integers(0, 2**30))
@settings(max_examples=60, deadline=None)
def test_nobody_starves_while_refreshes_take_time(
    tables: list[Planned], length: float, seed: int
) -> None:
    """Tables are busy for a while; changes never stop. All that has a schedule keeps moving."""
    world = World(tables)
    for tick in range(0, 400):
        now = 1000.0 + tick * 0.25
        world.version["x"] += 1
        world.version["y"] += 1
        for id, until in [*world.running.items()]:
            if until <= now:
                del world.running[id]
        decided = due(now, tables, world.history())
        for t in tables:
            if t.id in decided.refresh:
                assert t.id not in world.running, "refreshed twice at once"
                world.refresh(t, now)
                share = random.Random(f"{seed}/{t.id}/{tick}").random()
                world.running[t.id] = now + length * share
    for t in tables:
        if isinstance(t.schedule, Every | Cron) and gets_changes(tables, t):
            began = world.began[t.id]
            period = t.schedule.seconds if isinstance(t.schedule, Every) else 4.0
            longest = max((b - a for a, b in itertools.pairwise([*began, 1100.0])), default=0)
            assert longest <= 3 * (period + length * (len(tables) + 1)), (t, longest)
