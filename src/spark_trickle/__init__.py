"""Stream tables for Apache Spark: tables defined by a SQL query that keep themselves up to date."""

from __future__ import annotations

from spark_trickle.connecting import connect
from spark_trickle.errors import (
    AlreadyExistsError,
    BindError,
    CatalogError,
    CommitConflictError,
    CommitUnknownError,
    CycleError,
    DependencyError,
    ExecutionError,
    InternalError,
    InvalidDataError,
    NotFoundError,
    NoticeWarning,
    ParseError,
    QuarantineWarning,
    ReadOnlyError,
    RefreshError,
    SourceChangedError,
    StorageFullError,
    SuspendedWarning,
    TransientError,
    TrickleError,
    UnsupportedQueryError,
    UserError,
)
from spark_trickle.lake import Lake
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.monitor import Difference, StreamTableInfo
from spark_trickle.settings import Limits, Settings
from spark_trickle.storage.versions.change_summary import ChangeSummary
from spark_trickle.storage.versions.history import Version
from spark_trickle.transaction import LakeTransaction

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "BindError",
    "CatalogError",
    "ChangeSummary",
    "CommitConflictError",
    "CommitUnknownError",
    "CycleError",
    "DependencyError",
    "Difference",
    "ExecutionError",
    "InternalError",
    "InvalidDataError",
    "Lake",
    "LakeTransaction",
    "Limits",
    "NotFoundError",
    "NoticeWarning",
    "ParseError",
    "ReadOnlyError",
    "RefreshError",
    "RefreshReport",
    "Settings",
    "SourceChangedError",
    "StorageFullError",
    "StreamTableInfo",
    "QuarantineWarning",
    "SuspendedWarning",
    "TransientError",
    "TrickleError",
    "UnsupportedQueryError",
    "UserError",
    "Version",
    "connect",
]
