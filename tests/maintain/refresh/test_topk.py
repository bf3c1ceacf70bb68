"""The reserve of a TopK against sorting everything again."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_trickle.delta import reserve as reserves
from spark_trickle.delta.reserve import capacity
from spark_trickle.maintain.refresh.topk import RankedRow, advance, window

values = st.integers(0, 400) | st.integers(0, 3)


def _reserve(child: list[int], limit: int, offset: int) -> tuple[Counter[int], bool]:
    size = capacity(limit, offset)
    return Counter(sorted(child)[:size]), len(child) <= size


@settings(max_examples=300)
@given(
    child=st.lists(values, max_size=260),
    steps=st.lists(
        st.tuples(st.lists(values, max_size=40), st.lists(st.integers(0, 10_000), max_size=120)),
        min_size=1,
        max_size=4,
    ),
    limit=st.integers(0, 5),
    offset=st.integers(0, 3),
    size=st.sampled_from((2, 8, reserves.RESERVE)),
)
def test_the_result_is_what_sorting_gives(child, steps, limit, offset, size) -> None:
    with patch.object(reserves, "RESERVE", size):
        _check(child, steps, limit, offset)


def _check(child, steps, limit, offset) -> None:
    reserve, whole = _reserve(child, limit, offset)
    result = Counter(sorted(child)[offset : offset + limit])
    for inserts, picks in steps:
        change = Counter(inserts)
        rest = list(child)
        for pick in picks:
            if rest:
                change[rest.pop(pick % len(rest))] -= 1
        child = rest + inserts
        rows = sorted(set(reserve) | set(change))
        entries = [RankedRow(row, reserve[row], change[row]) for row in rows]
        outcome = advance(entries, limit, offset, whole=whole)
        expected = Counter(sorted(child)[offset : offset + limit])
        if outcome is None:
            reserve, whole = _reserve(child, limit, offset)
        else:
            for row, weight in outcome.reserve.items():
                reserve[row] += weight
            for row, weight in outcome.result.items():
                result[row] += weight
            whole = outcome.whole
            assert +result == expected
            assert Counter(sorted(child)[: reserve.total()]) == +reserve
            assert whole == (reserve.total() == len(child)) or not whole
        result = expected


def test_a_change_behind_the_reserve_changes_nothing() -> None:
    entries = [RankedRow(i, 1, 0) for i in range(12)] + [RankedRow(12, 0, 1), RankedRow(13, 0, -1)]
    outcome = advance(entries, 10, 2, whole=False)
    assert outcome is not None
    assert not outcome.reserve
    assert not outcome.result


def test_a_dry_reserve_asks_for_a_refill() -> None:
    entries = [RankedRow(i, 1, -1 if i == 3 else 0) for i in range(10)]
    assert advance(entries, 10, 0, whole=False) is None
    assert advance(entries, 10, 0, whole=True) is not None


def test_deleting_what_is_not_there_is_noticed() -> None:
    with pytest.raises(ValueError, match="not hold"):
        advance([RankedRow(0, 1, -2)], 1, 0, whole=True)


def test_copies_of_the_last_row_may_lie_behind_the_reserve() -> None:
    held = [RankedRow(0, 8, 0), RankedRow(1, 3, -9)]
    outcome = advance(held, 7, 0, whole=False)
    assert outcome is not None
    assert (outcome.reserve, outcome.result) == ({1: -3}, {})
    with pytest.raises(ValueError, match="not hold"):
        advance([RankedRow(0, 8, -9), RankedRow(1, 3, 0)], 1, 0, whole=False)


def test_window_counts_copies() -> None:
    assert window([(0, 2), (1, 3), (2, 1)], limit=3, offset=1) == {0: 1, 1: 2}
