"""One id through everything that is told of a refresh: its report, the lines of the log, and spans
of OpenTelemetry where that is installed.

Loggers are below ``spark_trickle``. A record's ``event`` holds what its line says, for programs.
"""

from __future__ import annotations

import functools
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from spark_trickle.maintain.records.history import RefreshReport

R = TypeVar("R", bound="RefreshReport | None")
log = logging.getLogger("spark_trickle.refresh")
_current: ContextVar[str] = ContextVar("trickle_refresh_id", default="")


def refresh_id() -> str:
    """Of the refresh that this thread is at; empty outside of one."""
    return _current.get()


def tell(to: logging.Logger, what: str, level: int = logging.INFO, /, **facts: Any) -> None:
    """One line; within a refresh it carries the id."""
    if not to.isEnabledFor(level):
        return
    if refresh_id():
        facts["refresh_id"] = refresh_id()
    text = " ".join(f"{key}={value}" for key, value in facts.items())
    to.log(level, "%s %s", what, text, extra={"event": {"event": what, **facts}})


@contextmanager
def refreshing(table: str) -> Iterator[None]:
    """What happens inside is one refresh, or a part of the one that is under way."""
    if refresh_id():
        yield
        return
    before = _current.set(uuid.uuid4().hex[:16])
    try:
        tracer = _tracer()
        if tracer is None:
            yield
            return
        known = {"trickle.table": table, "trickle.refresh_id": refresh_id()}
        with tracer.start_as_current_span("trickle.refresh", attributes=known):
            yield
    finally:
        _current.reset(before)


def traced(table: str, work: Callable[[], R]) -> R:
    """Do the work as one refresh, and tell what came of it."""
    with refreshing(table):
        try:
            report = work()
        except BaseException as error:
            failed(error)
            raise
        if report is not None:
            told(report)
            spanned(report)
        return report


@contextmanager
def under(id: str) -> Iterator[None]:
    """What happens inside belongs to a refresh whose work is done."""
    before = _current.set(id)
    try:
        yield
    finally:
        _current.reset(before)


def told(report: RefreshReport) -> None:
    """One line of what a refresh has come to, if it ran."""
    if report.effective_mode not in ("ERROR", "SKIPPED"):
        with under(report.refresh_id):
            tell(log, "refreshed", **facts_of(report))


def facts_of(report: RefreshReport) -> dict[str, Any]:
    """What a line of the log says of a refresh."""
    return {
        "table": report.name,
        "mode": report.effective_mode,
        "reason": report.reason,
        "seconds": round(report.seconds, 3),
        "inserted": report.rows_inserted,
        "deleted": report.rows_deleted,
        "version": report.version,
    }


def spanned(report: RefreshReport) -> None:
    """Have the span of the refresh that is under way say what it has come to."""
    tracer = _tracer()
    if tracer is None:
        return
    figures = {
        "mode": report.effective_mode,
        "reason": report.reason,
        "rows_inserted": report.rows_inserted,
        "rows_deleted": report.rows_deleted,
        "rows_read": report.rows_read,
        "bytes_read": report.bytes_read,
        "spark_queries": report.spark_queries,
        "version": report.version,
    }
    _span().set_attributes({f"trickle.{name}": value for name, value in figures.items()})
    _phases(tracer, report.started_at, report.phases)


def failed(error: BaseException) -> None:
    """The refresh that is under way has failed."""
    tell(log, "not refreshed", logging.DEBUG, error=f"{type(error).__name__}: {error}")
    if _tracer() is not None:
        from opentelemetry.trace import Status, StatusCode

        _span().record_exception(error)
        _span().set_status(Status(StatusCode.ERROR, type(error).__name__))


def phase(name: str, seconds: float) -> None:
    tell(log, "phase", logging.DEBUG, phase=name, seconds=round(seconds, 4))


def _phases(tracer: Any, at: float, phases: Mapping[str, float]) -> None:
    """Phases follow one another: spans after the fact."""
    for name, seconds in phases.items():
        span = tracer.start_span(f"trickle.{name}", start_time=int(at * 1e9))
        at = min(at + seconds, time.time())
        span.end(end_time=int(at * 1e9))


def _span() -> Any:
    from opentelemetry import trace

    return trace.get_current_span()


@functools.cache
def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("spark_trickle")
