"""Pages and counters over a catalog in PostgreSQL; no Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

import spark_trickle
from spark_trickle.maintain.records.history import RefreshReport
from support import postgres
from support.served import figures, make, refreshed, serving

pytestmark = pytest.mark.postgres


def test_counters_and_pages(tmp_path: Path) -> None:
    with (
        postgres.server() as url,
        spark_trickle.connect(url, data_path=str(tmp_path / "data")) as lake,
    ):
        first, _ = make(lake, ["s", "<b>"])
        for number in range(12):
            mode = "FULL" if number % 3 == 0 else "NO_DATA"
            report = RefreshReport("s", mode, "", seconds=0.5, bytes_read=1 << 40, rows_read=number)
            refreshed(lake, first, report, keep=5)
        with serving(lake) as client:
            assert figures(client, "trickle_refreshes_total") == {
                ("s", "FULL"): 4,
                ("s", "NO_DATA"): 8,
            }
            assert figures(client, "trickle_bytes_read_total")[("s", "FULL")] == 4 << 40
            assert figures(client, "trickle_refresh_seconds_total")[("s", "NO_DATA")] == 4.0
            for path in ("/", "/graph", "/table?name=s", "/sql", "/health"):
                assert client.get(path).code == 200, path
            with lake._catalog.writing() as connection:
                connection.execute("DROP TABLE trickle_total")
            assert client.get("/metrics").code == 200, "a catalog of before that may only be read"
