"""Ten thousand small refreshes in one process: its memory stays what it was after the first ones."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from rich.progress import track

from bench.figures import Figure, console
from spark_trickle import connect

REFRESHES, WARM = 10_000, 1_000
STREAMS = {
    "sums": "SELECT customer, sum(amount) AS s, count(*) AS n FROM orders GROUP BY customer",
    "many": "SELECT customer, s FROM sums WHERE n > 5",
}


def run(folder: Path) -> list[Figure]:
    """Every INSERT is followed by a refresh of both stream tables."""
    warm = 0.0
    with connect(folder / "steady") as lake:
        lake.sql("CREATE TABLE orders (id BIGINT, customer BIGINT, amount DECIMAL(12,2))")
        rows = [{"id": n, "customer": n % 1000, "amount": n % 97} for n in range(5_000)]
        lake.append("orders", rows)
        for name, query in STREAMS.items():
            lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
        steps = REFRESHES // len(STREAMS)
        for n in track(range(steps), f"{REFRESHES:,} refreshes", console=console):
            lake.sql(f"INSERT INTO orders VALUES ({n}, {n % 1000}, 1.50)")
            lake.refresh_all(errors="raise")
            if n == WARM // len(STREAMS):
                warm = _megabytes()
        end = _megabytes()
    name = f"memory of the process after {REFRESHES:,} refreshes, to after {WARM:,}"
    return [Figure(name, end, None, end / warm, 1.1, "times", f"{end:.0f} MB, {warm:.0f} MB")]


def _megabytes() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
