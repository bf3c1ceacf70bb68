"""Statements of PostgreSQL's SQL in the lake and on a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import CommitConflictError, Lake, TrickleError, UserError
from spark_trickle.sql.postgres import in_schema
from support.pgivm import Twins
from support.postgres import server


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.long
def test_statements_answer_as_the_server_does(lake: Lake) -> None:
    import psycopg

    with server() as url, psycopg.connect(url, autocommit=True) as connection:
        Twins(lake, connection).run_file(Path(__file__).with_name("statements.sql"))


def test_transactions_in_a_text(dry_lake: Lake) -> None:
    def run(text: str) -> object:
        return dry_lake.sql(text, dialect="postgres")

    run("CREATE TABLE t (i int); BEGIN; INSERT INTO t VALUES (1); COMMIT")
    run("BEGIN; INSERT INTO t VALUES (2); ROLLBACK")
    run(
        "BEGIN; INSERT INTO t VALUES (3); SAVEPOINT s; INSERT INTO t VALUES (4); ROLLBACK TO s; END"
    )
    assert dry_lake._catalog.scan("t").rows == 2
    with pytest.raises(UserError, match="ends inside a transaction"):
        run("BEGIN; INSERT INTO t VALUES (5)")
    with pytest.raises(UserError, match="no column nothing"):
        run("BEGIN; INSERT INTO t VALUES (6); INSERT INTO t (nothing) VALUES (7); COMMIT")
    assert dry_lake._catalog.scan("t").rows == 2
    for wrong in (
        "SAVEPOINT s",
        "BEGIN; BEGIN",
        "BEGIN; ROLLBACK TO x",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ):
        with pytest.raises(UserError):
            run(wrong)
    with pytest.raises(UserError, match="before any statement"):
        run("BEGIN; INSERT INTO t VALUES (8); SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")


@pytest.mark.spark
def test_half_a_statement_is_not_left_in_a_transaction(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (i INT NOT NULL)")
    with lake.transaction() as tx:
        for wrong in (
            "INSERT INTO t VALUES (2) RETURNING 1 / (i - 2)",
            "WITH n AS (INSERT INTO t VALUES (2) RETURNING i) INSERT INTO t SELECT NULL FROM n",
        ):
            with pytest.raises(TrickleError):
                tx.sql(wrong, dialect="postgres")
        tx.sql("INSERT INTO t VALUES (1)", dialect="postgres")
    assert lake._catalog.scan("t").rows == 1


@pytest.mark.spark
def test_a_serializable_transaction_has_read_what_a_view_reads(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (i INT); CREATE TABLE u (i INT)")
    lake.sql("CREATE VIEW largest AS SELECT max(i) AS i FROM t")
    tx = lake.transaction("SERIALIZABLE")
    tx.sql("SELECT * FROM largest", dialect="postgres")
    tx.sql("INSERT INTO u VALUES (1)")
    lake.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(CommitConflictError, match="table t got new rows"):
        tx.commit()


def test_public_is_the_lakes_own_schema_whatever_is_used(dry_lake: Lake) -> None:
    def run(text: str) -> object:
        return dry_lake.sql(text, dialect="postgres")

    dry_lake.sql("CREATE SCHEMA other; CREATE TABLE t (i INT); CREATE TABLE other.t (i INT)")
    dry_lake.sql("USE other")
    run("INSERT INTO t VALUES (1), (2)")
    run("INSERT INTO public.t VALUES (3)")
    run("TRUNCATE public.t")
    run('CREATE TABLE "public".made (i int); DROP TABLE public.made')
    assert [dry_lake._catalog.scan(name).rows for name in ("other.t", "main.t")] == [2, 0]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('SELECT a.i FROM t a, "Odd" AS b', 'SELECT a.i FROM "x".t a, "x"."Odd" AS b'),
        ("SELECT * FROM public.t JOIN s.t USING (i)", "SELECT * FROM public.t JOIN s.t USING (i)"),
        ("WITH c AS (SELECT 1) SELECT * FROM c, t", 'WITH c AS (SELECT 1) SELECT * FROM c, "x".t'),
        ("SELECT i FROM generate_series(1, 2) g(i)", "SELECT i FROM generate_series(1, 2) g(i)"),
        (
            "SELECT 'ü', (SELECT max(i) FROM t) FROM u",
            'SELECT \'ü\', (SELECT max(i) FROM "x".t) FROM "x".u',
        ),
    ],
)
def test_names_are_put_into_the_schema_that_is_used(query: str, expected: str) -> None:
    assert in_schema(query, "x") == expected


@pytest.mark.spark
def test_a_stream_table_reads_the_schema_that_is_used(lake: Lake) -> None:
    lake.sql("CREATE SCHEMA other; CREATE TABLE t (i INT); CREATE TABLE other.t (i INT)")
    lake.sql("INSERT INTO t VALUES (1); INSERT INTO other.t VALUES (2)")
    lake.sql("USE other")
    lake.sql("CREATE STREAM TABLE s AS SELECT i::text AS i FROM t", dialect="postgres")
    lake.sql("CREATE STREAM TABLE home AS SELECT i::text AS i FROM public.t", dialect="postgres")
    lake.sql("INSERT INTO t VALUES (3)")
    lake.refresh_all(errors="raise")
    answers = [lake.sql(f"SELECT * FROM {name} ORDER BY i").collect() for name in ("s", "home")]
    assert answers == [[("2",), ("3",)], [("1",)]]
    mixed = lake.sql(
        "SELECT a.i, b.i FROM t a JOIN public.t b ON a.i = b.i + 1", dialect="postgres"
    )
    assert mixed.collect() == [(2, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TYPE pair AS (a int)",
        "CREATE TYPE base",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
        "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON t USING (i > 0)",
        "SET ROLE somebody",
        "SET search_path TO other",
        "GRANT SELECT ON t TO somebody",
        "CREATE UNIQUE INDEX x ON t (i)",
        "CREATE INDEX x ON t (i)",
        "CREATE TEMP TABLE u (i int)",
        "CREATE TABLE u (i int) INHERITS (t)",
        "COPY t FROM STDIN",
        "LOCK TABLE t",
        "VACUUM t",
    ],
)
def test_what_a_lake_does_not_have_is_refused_by_name(
    statement: str, dry_lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    dry_lake.sql("CREATE TABLE t (i INT)")
    version = dry_lake.version
    first = " ".join(statement.split()[:2])
    with pytest.raises(UserError, match=f"the statement '{first}.*has no counterpart"):
        dry_lake.sql(statement, dialect="postgres")
    assert dry_lake.version == version
    assert not caplog.records, "what sqlglot thinks of it is no news"
