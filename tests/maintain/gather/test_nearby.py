"""A delta is the same whether its neighbours are held, searched here, searched by Spark or joined."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from spark_trickle import Lake, connect
from spark_trickle.spark import constants, run
from support.lakes import limited
from support.streams import refreshed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "spent": """
        SELECT c.region, count(*) AS n, sum(i.amount) AS total FROM customers c
        JOIN sales s ON s.customer <=> c.name JOIN items i ON i.sale = s.id
        WHERE i.amount > 2 GROUP BY c.region""",
    "idle": """
        SELECT c.name, c.region FROM customers c
        WHERE NOT EXISTS (SELECT 1 FROM sales s WHERE s.customer = c.name)""",
    "padded": """
        SELECT s.id, i.amount FROM sales s LEFT JOIN items i ON i.sale = s.id AND i.amount < 5""",
    "best": """
        SELECT s.customer, max(i.amount) AS most, count(DISTINCT i.amount) AS kinds
        FROM sales s JOIN items i ON i.sale = s.id GROUP BY s.customer""",
}


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    with connect(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE customers (name STRING, region INT) CLUSTER BY (name)")
        lake.sql("CREATE TABLE sales (id BIGINT, customer STRING) CLUSTER BY (id)")
        lake.sql("CREATE TABLE items (sale INT, amount DECIMAL(10,2)) CLUSTER BY (sale)")
        people = ", ".join(f"('p{n}', {n % 7})" for n in range(60))
        lake.sql(f"INSERT INTO customers VALUES {people}, (NULL, 1), (NULL, NULL)")
        lake.append("sales", spark.range(2000).selectExpr("id", "concat('p', id % 40) AS customer"))
        rows = spark.range(6000).selectExpr(
            "cast(id % 2100 AS INT) AS sale", "cast(id % 9 AS DECIMAL(10,2)) AS amount"
        )
        lake.append("items", rows)
        yield lake


WAYS: dict[str, dict[str, int]] = {
    "held": {},
    "searched here": {"held_values": 0},
    "searched by Spark": {"held_values": 0, "near_bytes": -1},
    "too many for a search by Spark": {"held_values": 0, "near_bytes": -1, "near_rows": 3},
    "too many bytes": {"held_values": 0, "near_bytes": -1, "fetched_bytes": 0},
    "joined": {"near_rows": -1},
    "joined with changes from files": {"delta_bytes": -1},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_the_neighbours_is_exact(
    way: str, shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(shop, **WAYS[way])
    if way == "searched by Spark":
        monkeypatch.setattr(constants, "LISTED", 2)
    ways = set[str]()
    search = run.Run.search

    def watched(*arguments: object) -> object:
        ways.add("searched by Spark")
        return search(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(run.Run, "search", watched)
    for name, query in QUERIES.items():
        shop.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    chance = Random(7)
    # Where nothing may be brought here, every delta goes by way of files, which takes long.
    for step in range(1 if way == "too many bytes" else 2):
        some = chance.randrange(1900)
        with shop.transaction() as tx:
            tx.sql(f"DELETE FROM sales WHERE id BETWEEN {some} AND {some + 3}")
            tx.sql(f"INSERT INTO sales VALUES ({3000 + step}, NULL), ({some}, 'p{40 + step}')")
        shop.sql(f"UPDATE items SET amount = amount + 1 WHERE sale % 500 = {chance.randrange(500)}")
        shop.sql(f"INSERT INTO items VALUES ({3000 + step}, 7), ({some}, 8), (NULL, 4)")
        shop.sql(f"UPDATE customers SET region = 9 WHERE name = 'p{chance.randrange(60)}'")
        for name in QUERIES:
            refreshed(shop, name, "DIFFERENTIAL")
    tried = ("searched by Spark", "too many for a search by Spark", "too many bytes")
    assert way in tried or "searched by Spark" not in ways
    assert way != "searched by Spark" or ways
