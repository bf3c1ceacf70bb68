"""The server over a lake that Spark really works on."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from spark_trickle import Lake
from spark_trickle.errors import TrickleError
from spark_trickle.serve.reading import Reader
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
    for number in range(40):
        if number in (0, 20):
            shop.sql(f"INSERT INTO orders VALUES ({number}, 'eve', 7)")
        shop.refresh_stream_table("totals", full=number == 30)
    for number in range(8):
        if number == 6:
            shop.sql("INSERT INTO orders VALUES (99, 'eve', 0)")
        try:
            shop.refresh_stream_table("ratios")
        except TrickleError:
            assert number >= 6, "a division by zero, from then on"
    sums = ", ".join(f"sum({attribute}) AS {attribute}" for attribute in SUMS.values())
    rows = shop.sql(
        f"SELECT name, effective_mode, count(*) AS refreshes, {sums} "
        "FROM trickle.refresh_history GROUP BY ALL"
    ).collect()
    assert sum(row.refreshes for row in rows) == 50
    ids = {report.refresh_id for report in shop.refresh_history()}
    assert len(ids - {""}) == 50, "each has its own"
    assert {row.effective_mode for row in rows} >= {"FULL", "NO_DATA", "ERROR"}
    with serving(shop) as client:
        expected = {(row.name, row.effective_mode): row.refreshes for row in rows}
        assert figures(client, "trickle_refreshes_total") == expected
        for name, attribute in SUMS.items():
            found = {(r.name, r.effective_mode): getattr(r, attribute) for r in rows}
            assert figures(client, name) == pytest.approx(found), name


def test_guests_read_no_file_by_its_name(shop: Lake, tmp_path: Path) -> None:
    """Even if a text got past the page."""
    (tmp_path / "secret.txt").write_text("secret")
    wanted = f"SELECT * FROM text.`{tmp_path}/secret.txt`"
    assert shop.spark.sql(wanted).count() == 1, "it is there to be read"
    with Reader(shop)._guests.welcome() as guest:
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            guest.spark.sql(wanted).collect()
        plain = guest.spark.sql("SELECT '${env:HOME}' AS home").collect()[0].home
        assert plain == "${env:HOME}"


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
