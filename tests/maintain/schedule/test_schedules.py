"""Durations, cron lines with seconds and zones, CALCULATED and by hand."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from spark_trickle.errors import UserError
from spark_trickle.maintain.schedule.schedules import (
    ByHand,
    Calculated,
    Cron,
    Every,
    Schedule,
    checked,
    parsed,
)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("30s", Every(30)),
        ("1h30m", Every(5400)),
        ("1h 30m", Every(5400)),
        ("1w", Every(604_800)),
        ("500ms", Every(0.5)),
        ("*/5 * * * *", Cron("*/5 * * * *")),
        ("15 */5 * * * *", Cron("15 */5 * * * *")),
        ("@hourly", Cron("0 * * * *")),
        ("@Daily Europe/Berlin", Cron("0 0 * * *", "Europe/Berlin")),
        ("0 6 * * MON-FRI America/New_York", Cron("0 6 * * MON-FRI", "America/New_York")),
        ("CRON_TZ=Asia/Tokyo 0 6 * * *", Cron("0 6 * * *", "Asia/Tokyo")),
        ("0 0 6 * * * UTC", Cron("0 0 6 * * *", "UTC")),
        ("calculated", Calculated()),
        (None, Calculated()),
        ("unset", ByHand()),
        ("NULL", ByHand()),
    ],
)
def test_meaning(text: str | None, meaning: Schedule) -> None:
    assert parsed(checked(text)) == meaning


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "soon", "0s", "1y", "-1s", "1.5h", "2h ago", "99999w", "@never", "* * * *"),
        *("60 * * * *", "* 24 * * *", "0 0 30 2 *", "* * * * * * *", "*/0 * * * *"),
        *("0 6 * * * Mars/Olympus", "CRON_TZ=Nowhere 0 6 * * *", "UTC"),
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(UserError) as caught:
        checked(text)
    assert "'30s'" in str(caught.value.hint)


def test_a_cron_line_follows_its_zone_through_the_change_of_clocks() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    moment = datetime(2026, 3, 27, 12, tzinfo=berlin).timestamp()
    cron = Cron("0 6 * * *", "Europe/Berlin")
    found = []
    for _ in range(3):
        moment = cron.after(moment)
        found.append(moment)
    assert [datetime.fromtimestamp(m, berlin).hour for m in found] == [6, 6, 6]
    assert [b - a for a, b in zip(found, found[1:], strict=False)] == [23 * 3600.0, 24 * 3600.0]


def test_a_tick_is_after_the_moment_however_short_the_time() -> None:
    cron = Cron("*/10 * * * * *")
    assert [cron.after(m) for m in (9.999, 10.0, 10.001, 19.5)] == [10.0, 20.0, 20.0, 20.0]
