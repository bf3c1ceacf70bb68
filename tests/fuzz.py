"""``make fuzz``: the delta law on many more examples than ``make test`` runs, on two processes.

Of every third example the deltas are also computed over just the rows near the changes.

Usage: python tests/fuzz.py COUNT [START]; prints every failure, shrunk, and fails if there was one.
"""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from spark_trickle.compile import compile_query
from support.delta_law import Laboratory
from support.examples import SOURCES, example, explained
from support.nearby import wrong_nearby

BLOCK = 500
NEARBY = 3
"""Rows nearby take nearly as long again, so not all examples are for them."""
PROCESSES = 2


def run_block(start: int, count: int) -> list[str]:
    """The failures of one block of examples, in a database of its own."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    laboratory = Laboratory(SOURCES)
    failures = []
    for number in range(start, start + count):
        found = example(number)
        try:
            query = compile_query(found.sql, SOURCES)
            laboratory.load(found.data)
            if laboratory.check(query, found.sql, found.data) is not None:
                failures.append(explained(found))
            elif number % NEARBY == 0:
                wrong = wrong_nearby(laboratory, query, found.data, number)
                if wrong is not None:
                    failures.append(f"example {number} over rows nearby: {found.sql}\n{wrong}")
        except Exception as error:
            failures.append(f"example {number}: {found.sql}\n{type(error).__name__}: {error}")
    laboratory.close()
    return failures


def main(count: int, start: int) -> int:
    """Run the examples and report as blocks finish."""
    began = time.monotonic()
    starts = range(start, start + count, BLOCK)
    sizes = [min(BLOCK, start + count - first) for first in starts]
    failures = done = 0
    with ProcessPoolExecutor(PROCESSES) as pool:
        for size, found in zip(sizes, pool.map(run_block, starts, sizes), strict=True):
            done += size
            failures += len(found)
            for text in found:
                print(text, end="\n\n", flush=True)
            seconds = time.monotonic() - began
            print(f"{done} of {count} examples, {failures} failures, {seconds:.0f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    raise SystemExit(main(wanted, first))
