"""Fills a catalog by script with very many files and versions, of which few are real."""

from __future__ import annotations

from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.records import Table

ROWS = 2_000
"""Keys from the start of one file to the next."""
STRANGERS = 1_000_000
"""The first of the customers in files that are not real."""

_SERIES = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {}) "

COLUMNS = "id BIGINT, customer BIGINT, amount DECIMAL(12,2), day DATE, note STRING"
"""What the table must have, in this order and from the start."""


def grow(catalog: Catalog, table: Table, other: Table, files: int, versions: int) -> int:
    """Add files to one table and versions that changed it or the other; the newest version.

    Nobody can open such a file: a plan that keeps one too many fails.
    """
    with catalog.writing() as connection:
        real = connection.execute(
            "SELECT count(*) FROM ducklake_data_file WHERE table_id = ?", (table.id,)
        )[0][0]
        version, file, schema, free = connection.execute(
            "SELECT snapshot_id, next_file_id, schema_version, next_catalog_id "
            "FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1"
        )[0]
        each = max(1, versions // max(1, files))
        when = "strftime('%Y-%m-%d %H:%M:%S+00', 1700000000 + i, 'unixepoch')"
        if connection.kind == "postgres":
            when = "to_timestamp(1700000000 + i)"
        connection.execute(
            f"INSERT INTO ducklake_snapshot {_SERIES.format(versions)} "
            f"SELECT {version} + 1 + i, {when}, {schema}, {free}, {file} + {files} FROM n"
        )
        made = (
            f"CASE WHEN i % {each} = 0 AND i / {each} < {files} "
            f"THEN 'inserted_into_table:{table.id}' ELSE 'inlined_insert:{other.id}' END"
        )
        connection.execute(
            f"INSERT INTO ducklake_snapshot_changes {_SERIES.format(versions)} "
            f"SELECT {version} + 1 + i, {made}, NULL, NULL, NULL FROM n"
        )
        if files:
            _add_files(connection, table.id, (version, each), (file, files))
            _add_statistics(connection, table.id, file, files, real)
    if connection.kind == "postgres":
        with catalog.writing() as connection:
            connection.execute("ANALYZE")
    return int(version + versions)


def _add_files(
    connection: Connection, table: int, versions: tuple[int, int], numbers: tuple[int, int]
) -> None:
    """Files of 128 MB, one every so many versions."""
    (version, each), (file, files) = versions, numbers
    first = connection.execute(
        "SELECT next_row_id FROM ducklake_table_stats WHERE table_id = ?", (table,)
    )[0][0]
    true = "true" if connection.kind == "postgres" else "1"
    connection.execute(
        f"INSERT INTO ducklake_data_file {_SERIES.format(files)} SELECT {file} + i, {table}, "
        f"{version} + 1 + i * {each}, NULL, NULL, 'nowhere-' || i || '.parquet', {true}, 'parquet', "
        f"1000000, 134217728, 900, {first} + i * CAST(1000000 AS BIGINT), NULL, NULL, NULL, NULL FROM n"
    )
    connection.execute(
        "UPDATE ducklake_table_stats SET next_row_id = next_row_id + ?, "
        "record_count = record_count + ? WHERE table_id = ?",
        (files * 1_000_000, files * 1_000_000, table),
    )


def _add_statistics(connection: Connection, table: int, file: int, files: int, real: int) -> None:
    """Keys follow each other from file to file; customers are those nobody knows."""
    low = f"({real} + i) * {ROWS}"
    stranger = f"{STRANGERS} + i * 10"
    bounds = (
        (f"CAST({low} AS VARCHAR)", f"CAST({low} + {ROWS - 1} AS VARCHAR)"),
        (f"CAST({stranger} AS VARCHAR)", f"CAST({stranger} + 9 AS VARCHAR)"),
        ("'0.00'", "'96.00'"),
        ("'2020-01-01'", "'2020-01-28'"),
        ("'note ' || i", "'note ' || i || 'z'"),
    )
    for column, (least, most) in enumerate(bounds, 1):
        connection.execute(
            f"INSERT INTO ducklake_file_column_stats {_SERIES.format(files)} SELECT {file} + i, "
            f"{table}, {column}, 1000, 1000000, 0, {least}, {most}, NULL, NULL FROM n"
        )
