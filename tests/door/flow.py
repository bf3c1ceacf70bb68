"""What a new user does first; run by test_wheel.py in an environment that has the wheel and nothing else."""

from __future__ import annotations

import sys

import pyspark
import sqlglot

import spark_trickle

lake = spark_trickle.connect(sys.argv[1])
lake.sql(
    "CREATE TABLE orders (id BIGINT NOT NULL, customer STRING, amount DECIMAL(12,2), PRIMARY KEY (id))"
)
lake.sql("INSERT INTO orders VALUES (1, 'ada', 10.00), (2, 'bob', 5.00)")
lake.sql(
    "CREATE STREAM TABLE totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
)
lake.create_stream_table("top", "SELECT id, amount FROM orders ORDER BY amount DESC LIMIT 1")
lake.sql("UPDATE orders SET amount = amount + 1 WHERE id = 1")
lake.sql("INSERT INTO orders SELECT id + 10, concat('c', id % 3), id / 4 FROM range(0, 5000)")
lake.sql("DELETE FROM orders WHERE id BETWEEN 100 AND 4000")
for report in lake.refresh_all(errors="raise"):
    assert not lake.verify(report.name), report
assert lake.refresh_stream_table("totals").effective_mode == "NO_DATA"
found = lake.sql("SELECT total FROM totals WHERE customer = 'ada'").collect()
assert [str(row.total) for row in found] == ["11.00"], found
try:
    lake.sql("SELECT 1 / (id - 1) FROM orders").collect()
    raise SystemExit("a division by zero was not told")
except spark_trickle.ExecutionError as error:
    print(error.message.split(".")[0])
lake.compact()
assert lake.table("orders").count() == 2 + 5000 - 3901
lake.close()
print("flow done", pyspark.__version__, sqlglot.__version__)
