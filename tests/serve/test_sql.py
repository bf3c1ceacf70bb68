"""The SQL page: it reads tables of the lake, and nothing else of the machine. Without Spark."""

from __future__ import annotations

import re
import time

import pytest

from spark_trickle import Lake
from spark_trickle.errors import TrickleError
from spark_trickle.serve.reading import check
from support.served import harmless, make, serving


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM base",
        "SELECT b.id FROM base b JOIN s USING (id)",
        "WITH x AS (SELECT id FROM base) SELECT * FROM x",
        "SELECT * FROM trickle.stream_tables",
        "SELECT * FROM `trickle`.Refresh_History WHERE reason LIKE '%java_method%'",
        "SELECT (SELECT max(id) FROM s) FROM base VERSION AS OF 1",
        "SELECT explode(sequence(1, 3)) FROM range(10)",
        "(SELECT 1) UNION ALL SELECT id FROM base",
        "SELECT 'USING' AS a, identifier FROM (SELECT 1 AS identifier)",
    ],
)
def test_queries(dry_lake: Lake, sql: str) -> None:
    make(dry_lake, ["s"])
    check(dry_lake, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "INSERT INTO base VALUES (1)",
        "DROP TABLE base",
        "WITH x AS (SELECT 1 AS id) INSERT INTO base SELECT id FROM x",
        "SELECT 1; DROP TABLE base",
        "SET spark.sql.ansi.enabled",
        "EXECUTE IMMEDIATE 'DROP TABLE base'",
        "EXPLAIN SELECT * FROM base",
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT * FROM `text`.`/etc/passwd`",
        "SELECT (SELECT max(value) FROM text.`/etc/passwd`) FROM base",
        "SELECT * FROM base WHERE EXISTS (SELECT 1 FROM nobody)",
        "WITH x AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM x",
        "WITH base2 AS (SELECT 1) SELECT * FROM parquet.base2",
        "SELECT reflect('java.lang.System', 'exit', 1)",
        "SELECT `java_method`('java.lang.Runtime', 'getRuntime')",
        "SELECT Try_Reflect ('a', 'b')",
        "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
        "SELECT TRANSFORM (id) USING 'cat /etc/passwd' AS (x) FROM base",
        'SELECT TRANSFORM (id) USING "sh" FROM base',
        "MAP id USING 'sh' FROM base",
        "SELECT '${env:HOME}'",
        "SELECT '${spark.driver.host}'",
        "SELECT * FROM a.b.c",
        "SELECT * FROM __trickle.anything",
        "TABLE text.`/etc/passwd`",
        "FROM text.`/etc/passwd` SELECT *",
        "SELECT * FROM base, LATERAL (SELECT * FROM text.`/etc/passwd`)",
    ],
)
def test_what_is_refused(dry_lake: Lake, sql: str) -> None:
    make(dry_lake, ["s"])
    with pytest.raises(TrickleError):
        check(dry_lake, sql)


def test_listings_and_errors_on_the_page(dry_lake: Lake) -> None:
    make(dry_lake, ["s"])
    with serving(dry_lake) as client:
        page = client.get("/sql").text
        found = re.search(r'name="mark" value="(\w+)"', page)
        assert found is not None
        fields = {"mark": found.group(1)}
        answer = client.post("/sql", {**fields, "sql": "SHOW STREAM TABLES"})
        assert answer.code == 303
        until = time.monotonic() + 30
        while "DONE" not in (page := client.get(answer.headers["location"]).text):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert "SELECT id FROM base" in harmless(page)
        wrong = client.post("/sql", {**fields, "sql": "SELECT '<script>' FROM <b>"})
        assert wrong.code == 400
        assert "SELECT '<script>' FROM <b>" in harmless(wrong.text), "it stays to be mended"
        assert client.post("/sql", {"sql": "SHOW TABLES"}).code == 403
        assert client.get("/sql?job=nothing").code == 404
        assert client.post("/sql/cancel", {**fields, "job": "nothing"}).code == 303
