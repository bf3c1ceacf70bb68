"""The files that one refresh of one changed row passes through: ``python bench/walk.py``.

Counts files of the package whose functions are called, the compiler's apart, after a first refresh
has loaded and cached what stays.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

import spark_trickle

ROOT = Path(spark_trickle.__file__).parent
COMPILER = ("sql", "ir", "normalize", "delta", "lower", "prove", "compile.py")


def walked(lake: spark_trickle.Lake, name: str) -> list[str]:
    """The files, in the order in which they are entered."""
    found: dict[str, None] = {}

    def entered(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            found.setdefault(str(Path(frame.f_code.co_filename).relative_to(ROOT)))

    sys.setprofile(entered)
    try:
        report = lake.refresh_stream_table(name)
    finally:
        sys.setprofile(None)
    print(report)
    return list(found)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(folder) as lake:
        lake.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(12,2))")
        lake.sql("INSERT INTO orders VALUES (1, 'ada', 10.00), (2, 'bob', 5.00)")
        query = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
        lake.create_stream_table("totals", query, refresh_mode="DIFFERENTIAL")
        for number in (3, 4):
            lake.sql(f"INSERT INTO orders VALUES ({number}, 'ada', 1.00)")
            files = walked(lake, "totals")
        outside = [file for file in files if not file.startswith(COMPILER)]
        print(f"{len(files)} files, {len(outside)} outside the compiler:")
        print(dict(Counter(file.split("/")[0] for file in outside)))
        for file in outside:
            print(" ", file)


if __name__ == "__main__":
    main()
