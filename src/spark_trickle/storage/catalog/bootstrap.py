"""A new catalog: the 28 tables of DuckLake 1.0, version 0, and indexes of our own."""

from __future__ import annotations

import uuid

from spark_trickle.errors import CatalogError
from spark_trickle.storage.catalog.database import Connection, now, quoted

FORMAT_VERSION = "1.0"

_TABLES = {
    "metadata": "key text!, value text!, scope text, scope_id big",
    "snapshot": "snapshot_id key, snapshot_time time, schema_version big, next_catalog_id big, "
    "next_file_id big",
    "snapshot_changes": "snapshot_id key, changes_made text, author text, commit_message text, "
    "commit_extra_info text",
    "schema": "schema_id key, schema_uuid uuid, begin_snapshot big, end_snapshot big, "
    "schema_name text, path text, path_is_relative bool",
    "table": "table_id big, table_uuid uuid, begin_snapshot big, end_snapshot big, schema_id big, "
    "table_name text, path text, path_is_relative bool",
    "view": "view_id big, view_uuid uuid, begin_snapshot big, end_snapshot big, schema_id big, "
    "view_name text, dialect text, sql text, column_aliases text",
    "tag": "object_id big, begin_snapshot big, end_snapshot big, key text, value text",
    "column_tag": "table_id big, column_id big, begin_snapshot big, end_snapshot big, key text, "
    "value text",
    "data_file": "data_file_id key, table_id big, begin_snapshot big, end_snapshot big, "
    "file_order big, path text, path_is_relative bool, file_format text, record_count big, "
    "file_size_bytes big, footer_size big, row_id_start big, partition_id big, "
    "encryption_key text, mapping_id big, partial_max big",
    "file_column_stats": "data_file_id big, table_id big, column_id big, column_size_bytes big, "
    "value_count big, null_count big, min_value text, max_value text, contains_nan bool, "
    "extra_stats text",
    "file_variant_stats": "data_file_id big, table_id big, column_id big, variant_path text, "
    "shredded_type text, column_size_bytes big, value_count big, null_count big, min_value text, "
    "max_value text, contains_nan bool, extra_stats text",
    "delete_file": "delete_file_id key, table_id big, begin_snapshot big, end_snapshot big, "
    "data_file_id big, path text, path_is_relative bool, format text, delete_count big, "
    "file_size_bytes big, footer_size big, encryption_key text, partial_max big",
    "column": "column_id big, begin_snapshot big, end_snapshot big, table_id big, "
    "column_order big, column_name text, column_type text, initial_default text, "
    "default_value text, nulls_allowed bool, parent_column big, default_value_type text, "
    "default_value_dialect text",
    "table_stats": "table_id big, record_count big, next_row_id big, file_size_bytes big",
    "table_column_stats": "table_id big, column_id big, contains_null bool, contains_nan bool, "
    "min_value text, max_value text, extra_stats text",
    "partition_info": "partition_id big, table_id big, begin_snapshot big, end_snapshot big",
    "partition_column": "partition_id big, table_id big, partition_key_index big, column_id big, "
    "transform text",
    "file_partition_value": "data_file_id big, table_id big, partition_key_index big, "
    "partition_value text",
    "files_scheduled_for_deletion": "data_file_id big, path text, path_is_relative bool, "
    "schedule_start time",
    "inlined_data_tables": "table_id big, table_name text, schema_version big",
    "column_mapping": "mapping_id big, table_id big, type text",
    "name_mapping": "mapping_id big, column_id big, source_name text, target_field_id big, "
    "parent_column big, is_partition bool",
    "schema_versions": "begin_snapshot big, schema_version big, table_id big",
    "macro": "schema_id big, macro_id big, macro_name text, begin_snapshot big, end_snapshot big",
    "macro_impl": "macro_id big, impl_id big, dialect text, sql text, type text",
    "macro_parameters": "macro_id big, impl_id big, column_id big, parameter_name text, "
    "parameter_type text, default_value text, default_value_type text",
    "sort_info": "sort_id big, table_id big, begin_snapshot big, end_snapshot big",
    "sort_expression": "sort_id big, table_id big, sort_key_index big, expression text, "
    "dialect text, sort_direction text, null_order text",
}

_TYPES = {
    "sqlite": {"uuid": "VARCHAR", "time": "VARCHAR", "bool": "BIGINT"},
    "postgres": {"uuid": "UUID", "time": "TIMESTAMP WITH TIME ZONE", "bool": "BOOLEAN"},
}
_COMMON = {
    "big": "BIGINT",
    "text": "VARCHAR",
    "text!": "VARCHAR NOT NULL",
    "key": "BIGINT PRIMARY KEY",
}

_INDEXES = {
    "trickle_data_file_begin": "ducklake_data_file (table_id, begin_snapshot)",
    "trickle_data_file_end": "ducklake_data_file (table_id, end_snapshot)",
    "trickle_data_file_partial": "ducklake_data_file (table_id, partial_max)",
    "trickle_delete_file_table": "ducklake_delete_file (table_id, data_file_id)",
    "trickle_delete_file_begin": "ducklake_delete_file (table_id, begin_snapshot)",
    "trickle_delete_file_end": "ducklake_delete_file (table_id, end_snapshot)",
    "trickle_delete_file_partial": "ducklake_delete_file (table_id, partial_max)",
    "trickle_delete_file_file": "ducklake_delete_file (data_file_id)",
    "trickle_file_stats": "ducklake_file_column_stats (data_file_id)",
    "trickle_file_stats_column": "ducklake_file_column_stats (table_id, column_id, data_file_id)",
    "trickle_columns": "ducklake_column (table_id, begin_snapshot)",
    "trickle_scheduled": "ducklake_files_scheduled_for_deletion (path)",
}


def create(connection: Connection, data_path: str) -> None:
    """Make all tables and version 0, which has the schema ``main`` and nothing else."""
    types = _COMMON | _TYPES[connection.kind]
    for name, columns in _TABLES.items():
        parts = (part.split() for part in columns.split(", "))
        body = ", ".join(f"{quoted(column)} {types[kind]}" for column, kind in parts)
        connection.execute(f"CREATE TABLE ducklake_{name} ({body})")
    for key, value in {
        "version": FORMAT_VERSION,
        "created_by": "spark-trickle",
        "data_path": data_path,
        "encrypted": "false",
    }.items():
        connection.execute("INSERT INTO ducklake_metadata VALUES (?, ?, NULL, NULL)", (key, value))
    connection.execute("INSERT INTO ducklake_snapshot VALUES (0, ?, 0, 1, 0)", (now(),))
    connection.execute(
        "INSERT INTO ducklake_snapshot_changes VALUES (0, ?, NULL, NULL, NULL)",
        ('created_schema:"main"',),
    )
    connection.execute(
        "INSERT INTO ducklake_schema VALUES (0, ?, 0, NULL, 'main', 'main/', ?)",
        (str(uuid.uuid4()), True),
    )


def move(connection: Connection, data_path: str) -> None:
    """Note where the data files are now."""
    connection.execute(
        "UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path' AND scope IS NULL",
        (data_path,),
    )


def add_indexes(connection: Connection) -> None:
    """Indexes that plans need; DuckDB does not mind them."""
    for name, target in _INDEXES.items():
        connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {target}")


def lacks_indexes(connection: Connection) -> bool:
    """Whether the catalog was made by another program, or an older release."""
    marks = ", ".join("?" * len(_INDEXES))
    sql = f"SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name IN ({marks})"
    if connection.kind == "postgres":
        sql = (
            "SELECT count(*) FROM pg_indexes WHERE schemaname = current_schema() "
            f"AND indexname IN ({marks})"
        )
    return int(connection.execute(sql, tuple(_INDEXES))[0][0]) < len(_INDEXES)


def check(connection: Connection, name: str) -> str:
    """The data path of a catalog we can read; CatalogError for any other."""
    if not connection.has_table("ducklake_metadata"):
        raise CatalogError(
            f"{name} is not a DuckLake catalog: it has no table ducklake_metadata",
            hint="give an empty place to make a new lake",
        )
    rows = connection.execute("SELECT key, value FROM ducklake_metadata WHERE scope IS NULL")
    values: dict[str, str] = dict(rows)
    if values.get("version") != FORMAT_VERSION:
        raise CatalogError(
            f"the catalog {name} has format version {values.get('version')}; "
            f"this release reads {FORMAT_VERSION}",
            hint="open it with a release made for that version",
        )
    if str(values.get("encrypted", "false")).lower() not in ("false", "0"):
        raise CatalogError(f"the lake of {name} is encrypted, which is not supported")
    if "data_path" not in values:
        raise CatalogError(f"the catalog {name} names no data path")
    return str(values["data_path"])
