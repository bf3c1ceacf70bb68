"""The dashboard in a real browser: Chromium of the system, driven by playwright.

``SCREENSHOTS=docs/images`` keeps what it shows.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import Dependency
from spark_trickle.serve.access import OPERATOR, Access
from support.served import make, refreshed, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long
SCRIPT = "<script>document.title = 'taken'</script>"
QUOTES = "\"'`></a><img src=x onerror=\"document.title='taken'\">"
LONG = "x" * 9_990 + "</td><b>"
SECONDS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        reason = "no Chromium on this machine: the dashboard was not tried in a browser"
        print(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test on any error of its own, and asks nobody but our server."""
    context = browser.new_context(viewport={"width": 1120, "height": 640}, color_scheme="light")
    opened = context.new_page()
    opened.set_default_timeout(SECONDS)
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("dialog", lambda dialog: problems.append(dialog.message))
    opened.on(
        "request",
        lambda request: (
            request.url.startswith(("http://127.0.0.1:", "http://0.0.0.0:"))
            or problems.append(request.url)
        ),
    )
    yield opened
    context.close()
    assert problems == []


def kept(page: Page, name: str) -> None:
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        page.evaluate("document.querySelector('.place bdi').textContent = 'lake'")
        page.screenshot(path=Path(folder) / f"{name}.png")


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount BIGINT)")
        lake.sql("INSERT INTO orders VALUES (1, 'ada', 10), (2, 'bob', 5)")
        yield lake


REASONS = {
    "DIFFERENTIAL": "CHEAPER: about 0.21 s for 12 changed rows against 1.90 s in full",
    "FULL": "REMEASURE: about 0.21 s for 12 changed rows against 0.25 s in full; not measured lately",
    "NO_DATA": "NO_CHANGES: no source changed",
    "ERROR": "ExecutionError: [DIVIDE_BY_ZERO] Division by zero",
}


def past(lake: Lake, count: int) -> None:
    """Stream tables with a past, by metadata alone."""
    rng = random.Random(5)
    names = [f"sales_{n:03}" for n in range(count)]
    for number, stream in enumerate(make(lake, names)):
        refreshed(lake, stream, *(_report(stream.name, rng, n, number) for n in range(30)))


def _report(name: str, rng: random.Random, minute: int, number: int) -> RefreshReport:
    mode = rng.choices([*REASONS], [12, 2, 5, 0.3])[0]
    ran = mode in ("DIFFERENTIAL", "FULL")
    changed = rng.randrange(1, 50)
    seconds = {"DIFFERENTIAL": 0.2, "FULL": 1.1, "NO_DATA": 0.003, "ERROR": 0.1}[mode]
    return RefreshReport(
        name,
        mode,
        REASONS[mode],
        rows_inserted=changed if ran else 0,
        rows_deleted=rng.randrange(changed) if ran else 0,
        rows_read=(20_000 if mode == "FULL" else 30 * changed) if ran else 0,
        bytes_read=(1 << 20 if mode == "FULL" else 2048 * changed) if ran else 0,
        delta_rows={"base": changed} if ran else {},
        source_rows=20_000,
        spark_queries=2 if ran else 0,
        engine="spark" if ran else "none",
        seconds=seconds * rng.uniform(0.6, 1.6),
        started_at=time.time() - 60 * (30 - minute) - number,
        refresh_id=f"{rng.getrandbits(64):016x}",
        error="ExecutionError: [DIVIDE_BY_ZERO] Division by zero" if mode == "ERROR" else None,
    )


@pytest.mark.spark
def test_overview_table_refresh_and_the_new_row(shop: Lake, page: Page) -> None:
    past(shop, 197)
    make(shop, ["stopped"], status="SUSPENDED", last_error="ExecutionError: division by zero")
    totals = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
    shop.create_stream_table("totals", totals, schedule="1m", refresh_mode="DIFFERENTIAL")
    top = "SELECT max(total) AS most FROM totals"
    shop.create_stream_table("top", top, schedule="1m", refresh_mode="DIFFERENTIAL")
    with serving(shop) as client:
        seen = client.get("/")
        assert seen.text.count("<tr class=") == 200
        assert seen.seconds < 1
        print(
            f"overview of 200 stream tables: {seen.seconds:.3f} s, {seen.milliseconds:.0f} ms in all"
        )
        page.goto(client.url)
        assert page.locator("#overview tbody tr").count() == 200
        page.locator("th[data-sort=state] button").click()
        assert "stopped" in page.locator("#overview tbody tr").first.inner_text()
        page.locator("#filter").fill("totals")
        assert page.locator("#overview tbody tr:visible").count() == 1

        shop.sql("INSERT INTO orders VALUES (3, 'eve', 7)")
        page.locator("#overview tr.row-WAITING", has_text="totals").wait_for()
        assert page.locator("#overview tbody tr:visible").count() == 1, "the filter stays"
        page.get_by_role("link", name="totals", exact=True).click()
        rows = page.locator("table.history tbody tr")
        before = rows.count()
        page.get_by_role("button", name="Refresh", exact=True).click()
        assert rows.count() == 0, "a page that asks first"
        page.locator("#confirm").click()
        page.locator("table.history tbody tr").nth(before).wait_for()
        assert "DIFFERENTIAL" in rows.first.inner_text()
        page.locator("p.job .state-DONE").wait_for()
        rows.first.get_by_role("link", name="rows").click()
        assert "eve" in page.locator("main").inner_text()

        page.goto(f"{client.url}/graph")
        page.locator("svg.graph a", has_text="totals").first.click()
        page.locator("h1", has_text="totals").wait_for()


def test_charts_graph_and_dark(dry_lake: Lake, page: Page) -> None:
    past(dry_lake, 12)
    first, second = (dry_lake._streams.get(f"sales_00{n}") for n in (1, 2))
    for name, sources in {"weekly": [first], "report": [first, second]}.items():
        read = tuple(Dependency(s.uuid, s.name, dry_lake.version) for s in sources)
        status = "SUSPENDED" if name == "weekly" else "ACTIVE"
        make(dry_lake, [name], sources=read, status=status, last_error=REASONS["ERROR"])
    with serving(dry_lake) as client:
        page.goto(client.url)
        page.locator("th[data-sort=state] button").click()
        kept(page, "overview")
        page.goto(f"{client.url}/table?name=sales_003")
        assert page.locator("svg.chart").count() == 4
        assert page.locator("svg.chart polyline").count() == 2, "both estimates"
        # In one go: the page may put a new chart in the place of the one that was found.
        page.evaluate("document.querySelector('svg.chart').scrollIntoView()")
        kept(page, "table")
        page.goto(f"{client.url}/graph")
        assert page.locator("svg.graph .node").count() == 15
        page.locator("#theme").click()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        kept(page, "graph")
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


@pytest.mark.spark
def test_a_query_and_cancelling_one(shop: Lake, page: Page) -> None:
    with serving(shop) as client:
        page.goto(client.url)
        page.get_by_role("link", name="SQL").click()
        page.locator("#sql").fill("SELECT customer, amount FROM orders ORDER BY id")
        page.get_by_role("button", name="Run").click()
        page.locator("#main td", has_text="bob").wait_for()
        page.locator("#sql").fill("SELECT count(*) FROM range(1000000000000) WHERE id % 7 = 3")
        page.get_by_role("button", name="Run").click()
        page.locator("#cancel").click()
        page.locator("#main .state-CANCELLED").wait_for()


def test_names_and_errors_of_an_enemy_are_text(dry_lake: Lake, page: Page) -> None:
    names = [SCRIPT, QUOTES, LONG]
    streams = make(dry_lake, names, status="ERROR", last_error=SCRIPT + QUOTES + LONG)
    for stream in streams:
        report = RefreshReport(stream.name, "ERROR", SCRIPT, error=QUOTES + LONG)
        refreshed(dry_lake, stream, report)
    with serving(dry_lake) as client:
        for path in ("/", "/graph"):
            page.goto(client.url + path)
            page.wait_for_timeout(200)
            assert page.title() != "taken"
            assert page.locator("main script, main img").count() == 0
        for number in range(3):
            page.goto(client.url)
            page.locator("#overview tbody a").nth(number).click()
            shown = page.locator("h1").inner_text()
            assert shown in [stream.name for stream in streams], "the whole name, as text"
            text = page.locator("main").inner_text()
            assert SCRIPT + QUOTES + LONG in text
            assert page.locator("main script, main img").count() == 0
            assert page.title() != "taken"


def test_beyond_loopback_a_browser_is_asked_for_the_token(dry_lake: Lake, page: Page) -> None:
    make(dry_lake, ["secret_table"])
    access = Access(loopback=False, tokens={OPERATOR: "a-token-of-operators"})
    with serving(dry_lake, access, host="0.0.0.0") as client:
        answer = page.goto(client.url)
        assert answer is not None
        assert answer.status == 401
        assert "secret_table" not in page.content()
        page.locator("input[name=token]").fill("wrong")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("not a token").wait_for()
        page.locator("input[name=token]").fill("a-token-of-operators")
        page.get_by_role("button", name="Open").click()
        page.get_by_role("link", name="secret_table").wait_for()
        assert "a-token-of-operators" not in page.content()
        assert all("a-token" not in str(cookie) for cookie in page.context.cookies())
