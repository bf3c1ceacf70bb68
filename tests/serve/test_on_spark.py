"""The server over a lake that Spark really works on."""

from __future__ import annotations

import re
import time

import pytest

from spark_trickle import Lake
from spark_trickle.errors import TrickleError
from support.served import SUMS, Client, figures, harmless, serving

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount BIGINT)")
    lake.sql("INSERT INTO orders VALUES (1, 'ada', 10), (2, 'bob', 5)")
    return lake


def test_counters_equal_the_history_after_50_refreshes(shop: Lake) -> None:
    """Must show: the official parser reads what ``trickle.refresh_history`` has."""
    query = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
    shop.create_stream_table("totals", query)
    shop.create_stream_table("ratios", "SELECT id, 100 / amount AS ratio FROM orders")
    for number in range(24):
        if number % 8 == 0:
            shop.sql(f"INSERT INTO orders VALUES ({number}, 'eve', {number - 8})")
        shop.refresh_stream_table("totals", full=number == 20)
        try:
            shop.refresh_stream_table("ratios")
        except TrickleError:
            assert number >= 8, "a division by zero, from then on"
    sums = ", ".join(f"sum({attribute}) AS {attribute}" for attribute in SUMS.values())
    rows = shop.sql(
        f"SELECT name, effective_mode, count(*) AS refreshes, {sums} "
        "FROM trickle.refresh_history GROUP BY ALL"
    ).collect()
    assert sum(row.refreshes for row in rows) == 50
    assert {row.effective_mode for row in rows} >= {"FULL", "NO_DATA", "ERROR"}
    with serving(shop) as client:
        expected = {(row.name, row.effective_mode): row.refreshes for row in rows}
        assert figures(client, "trickle_refreshes_total") == expected
        for name, attribute in SUMS.items():
            found = {(r.name, r.effective_mode): getattr(r, attribute) for r in rows}
            assert figures(client, name) == pytest.approx(found), name


def ask(client: Client, sql: str) -> str:
    page = client.get("/sql").text
    found = re.search(r'name="mark" value="(\w+)"', page)
    assert found is not None
    answer = client.post("/sql", {"mark": found.group(1), "sql": sql})
    assert answer.code == 303, answer.text
    return answer.headers["location"]


def until(client: Client, place: str, state: str) -> str:
    end = time.monotonic() + 120
    while f"state-{state}" not in (page := client.get(place).text):
        assert time.monotonic() < end, harmless(page)
        time.sleep(0.05)
    return page


def test_queries_and_cancelling_one(shop: Lake) -> None:
    shop.sql("INSERT INTO orders VALUES (3, '<script>alert(1)</script>', NULL)")
    with serving(shop) as client:
        page = until(client, ask(client, "SELECT * FROM orders ORDER BY id"), "DONE")
        assert "<script>alert(1)</script>" in harmless(page)
        assert "3 rows" in page
        page = until(client, ask(client, "SELECT id FROM range(5000)"), "DONE")
        assert "the first 1000 rows" in page
        assert page.count("<tr>") == 1001
        failed = until(client, ask(client, "SELECT nothing FROM orders"), "FAILED")
        assert "Traceback" not in failed
        place = ask(client, "SELECT count(*) FROM range(1000000000000) WHERE id % 7 = 3")
        running = until(client, place, "RUNNING")
        time.sleep(1.0)
        fields = dict(re.findall(r'name="(mark|job)" value="([\w-]+)"', running))
        began = time.monotonic()
        assert client.post("/sql/cancel", fields).code == 303
        until(client, place, "CANCELLED")
        assert shop.sql("SELECT count(*) AS n FROM orders").collect()[0].n == 3
        assert time.monotonic() - began < 30, "Spark is free again"
