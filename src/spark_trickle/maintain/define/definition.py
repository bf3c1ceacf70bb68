"""What a user asks for, and whether the query allows it."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.compile import CLOCK_CODE, CompiledQuery
from spark_trickle.delta.fast_path import NoFastPath
from spark_trickle.delta.reserve import LARGEST
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import UnsupportedQueryError
from spark_trickle.maintain.records.streams import FULL
from spark_trickle.spark.sessions.facts import Meaning
from spark_trickle.storage.records import TableName

MODES = ("AUTO", "DIFFERENTIAL", "FULL", "IMMEDIATE")


@dataclass(frozen=True)
class Definition:
    """What a user asks for."""

    name: TableName
    query: str
    dialect: str = "spark"
    schedule: str | None = None
    refresh_mode: str = "AUTO"
    initialize: bool = True
    meaning: Meaning | None = None
    """None: what the session means now."""
    views: tuple[str, ...] | None = None
    """The uuids of the views that the query was written with; None: the same as before."""
    fast_path: bool = False
    """Whether commits shall fold their changes into it, whatever the mode."""
    cluster_by: tuple[str, ...] = ()
    """What the files of the result are sorted by; none: the key by which its rows are found."""

    @property
    def by_text(self) -> bool:
        """Whether no delta is ever asked for, so that no private state is needed."""
        return self.refresh_mode == FULL and not self.fast_path


def check(wanted: Definition, compiled: CompiledQuery) -> None:
    """UnsupportedQueryError if the asked mode cannot maintain the query."""
    judged = compiled.verdict
    if isinstance(judged, FullOnly) and wanted.refresh_mode in ("DIFFERENTIAL", "IMMEDIATE"):
        hint = judged.hint
        if wanted.refresh_mode == "IMMEDIATE":
            hint = "; ".join(filter(None, (hint, "or use refresh mode AUTO")))
        raise UnsupportedQueryError(
            judged.message, code=judged.code, position=judged.position, hint=hint
        )
    if compiled.timed and wanted.refresh_mode == "IMMEDIATE":
        raise UnsupportedQueryError(
            "no commit tells when rows come and go with the clock",
            code=CLOCK_CODE,
            position=compiled.clock_position,
            hint="use refresh mode AUTO with a schedule, such as '1m'",
        )
    _check_fast_path(wanted, compiled)
    top = compiled.topk
    if top is not None and top.limit + top.offset > LARGEST:
        raise UnsupportedQueryError(
            f"ORDER BY with LIMIT keeps at most {LARGEST} rows, OFFSET included",
            code="TOPK_TOO_LARGE",
            hint="leave the LIMIT out and apply it when you read the stream table",
        )


def _check_fast_path(wanted: Definition, compiled: CompiledQuery) -> None:
    refused = compiled.fast_path
    if wanted.fast_path and isinstance(refused, NoFastPath):
        raise UnsupportedQueryError(
            f"the query cannot be folded at commit: {refused.reason}",
            code=refused.code,
            position=compiled.clock_position if compiled.timed else None,
            hint="leave fast_path out: the stream table is refreshed as its mode says",
        )
