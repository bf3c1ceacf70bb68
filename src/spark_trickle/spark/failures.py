"""Spark's exceptions as ours: its words, no Java stack trace, a caret in the user's own text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException

from spark_trickle.calls import interrupted
from spark_trickle.errors import (
    BindError,
    CatalogError,
    ExecutionError,
    NotFoundError,
    ParseError,
    Position,
    ReadOnlyError,
    StorageFullError,
    TransientError,
    TrickleError,
)
from spark_trickle.statements.text.splices import Spliced
from spark_trickle.storage.files.disk import LOST_FILE

_NO_SPACE = ("No space left on device", "File too large", "Disk quota exceeded")
_REFUSED = ("Mkdirs failed to create", "Read-only file system")
_NO_MEMORY = ("UNABLE_TO_ACQUIRE_MEMORY", "java.lang.OutOfMemoryError", "Java heap space")
_MISSING_FILE = ("PATH_NOT_FOUND", "FAILED_READ_FILE")
_GONE = (
    "stopped SparkContext",
    "SparkContext was shut down",
    "SparkContext has been shutdown",
    "SESSION_CLOSED",
    "SESSION_NOT_FOUND",
    "NO_ACTIVE_SESSION",
    "Cannot invoke RPC on closed channel",
)
_NOT_FOUND = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
# Where Spark's sentence ends and its plan, SQL text, SQLSTATE or stack trace begins.
_TAIL = re.compile(
    r"\s*(SQLSTATE: \w+|; line \d+ pos \d+|\(line \d+, pos \d+\)|\n== SQL|\n\nJVM stacktrace|\n\tat )"
)
_PLACE = re.compile(r"line (\d+),? pos (\d+)")
_CAUSE = re.compile(r"(?:Caused by: )?[\w.$]+(?:Exception|Error): (\[[^\n]+|[^\n]+)")
_NO_CAUSE = "Full stacktrace of original doTryWithCallerStacktrace caller"
"""Spark adds it, as the last one, to what fails where a plan is made."""


@contextmanager
def spark_errors(sql: str = "", sent: Spliced | None = None) -> Iterator[None]:
    """Raise what Spark raises inside as one of our errors; ``sent`` is the text Spark was given."""
    try:
        yield
    except TrickleError:
        raise
    except Exception as error:
        if interrupted():
            raise _cancelled() from None
        if _is_gone(error):
            raise session_gone() from None
        if not _from_spark(error):
            raise
        raise translate(error, sql, sent) from None
    if interrupted() and current_thread() is main_thread():
        raise KeyboardInterrupt


def _cancelled() -> BaseException:
    """Ctrl-C is the main thread's; what others ran in the same session can be run again."""
    if current_thread() is main_thread():
        return KeyboardInterrupt()
    return TransientError("the query was cancelled by Ctrl-C", hint="run it again")


def session_gone() -> ExecutionError:
    return ExecutionError(
        "the Spark session has been stopped",
        hint="run the query again; if you gave the session, connect with a running one",
    )


def _from_spark(error: Exception) -> bool:
    return isinstance(error, PySparkException) or type(error).__module__.split(".")[0] in (
        "py4j",
        "grpc",
    )


def _is_gone(error: Exception) -> bool:
    """Whether a call failed because there is no Spark behind it any more."""
    if _from_spark(error):
        raw = str(error)
        return type(error).__name__ == "Py4JNetworkError" or any(words in raw for words in _GONE)
    if not isinstance(error, AttributeError | AssertionError | ConnectionError):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    inside = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return str(inside).split(".")[0] in ("pyspark", "py4j")


def translate(error: Exception, sql: str = "", sent: Spliced | None = None) -> TrickleError:
    """Our error for one of Spark's."""
    raw = str(error)
    condition = _condition(error)
    message = _sentence(raw)
    position = _position(error, raw, sql, sent)
    if any(words in raw for words in _NO_SPACE):
        return StorageFullError(
            "no space is left where Spark writes the lake's files; nothing was committed",
            hint="free some space, then run the statement again",
        )
    if any(words in raw for words in _REFUSED):
        return ReadOnlyError(
            f"the lake is read-only for you: Spark cannot write its files: {message}",
            hint="queries work; to write, get the permission to write the lake's data_path",
        )
    if any(words in raw for words in _NO_MEMORY):
        return ExecutionError(
            f"Spark ran out of memory: {message}; nothing was committed",
            hint='give it more: connect(..., settings=Settings(spark={"spark.driver.memory": "8g"}))',
        )
    if condition.startswith(_MISSING_FILE) or "FileNotFoundException" in raw:
        return CatalogError(
            f"a data file of the lake cannot be read: {_file(raw) or message}",
            hint=LOST_FILE,
        )
    if isinstance(error, ParseException):
        return ParseError(message, position=position)
    if condition.startswith(_NOT_FOUND):
        name = re.search(r"(?:table or view|schema) (`[^ ]+`)", message)
        what = name.group(1).replace("`", "") if name else message
        return NotFoundError(f"there is no table {what}", position=position)
    if isinstance(error, AnalysisException):
        return BindError(message, position=position)
    return ExecutionError(message, position=position)


def _condition(error: Exception) -> str:
    if isinstance(error, PySparkException):
        return error.getCondition() or ""
    found = re.search(r"\[([A-Z_]+(?:\.[A-Z_]+)*)\]", str(error))
    return found.group(1) if found else ""


def _sentence(raw: str) -> str:
    """The first sentence that is meant for people."""
    text = raw.strip()
    if "\n\tat " in text or text.startswith("An error occurred while calling"):
        # A job that was aborted: the last cause is the one that says why.
        causes = [cause for cause in _CAUSE.findall(text) if not cause.startswith(_NO_CAUSE)]
        text = causes[-1] if causes else text.splitlines()[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    cut = _TAIL.search(text)
    text = text[: cut.start()] if cut else text
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[0].rstrip(";. ") if lines else "Spark failed without saying why"


def _file(raw: str) -> str | None:
    found = re.search(r"(?:file:/+|s3a?://|hdfs://)[^\s'\"`,;]+\.parquet", raw)
    return found.group() if found else None


def _position(error: Exception, raw: str, sql: str, sent: Spliced | None) -> Position | None:
    if sent is None:
        return None
    start, end = _span(error, raw, sent.text)
    if start is None:
        return None
    origin = sent.origin(min(start, max(0, len(sent.text) - 1)))
    if origin is None:
        return None
    return Position.of_span(sql, origin, max(origin + 1, origin + end - start))


def _span(error: Exception, raw: str, text: str) -> tuple[int | None, int]:
    for context in _contexts(error):
        try:
            start, stop = int(context.startIndex()), int(context.stopIndex()) + 1
            if text[start:stop] == context.fragment():
                return start, stop
        except Exception:  # a DataFrame's context has no place in a text
            continue
    place = _PLACE.search(raw)
    if place is None:
        return None, 0
    line, column = int(place.group(1)), int(place.group(2))
    lines = text.split("\n")
    start = sum(len(part) + 1 for part in lines[: line - 1]) + column
    word = re.match(r"\w+|.", text[start:])
    return start, start + (len(word.group()) if word else 1)


def _contexts(error: Exception) -> list[Any]:
    try:
        return list(error.getQueryContext()) if isinstance(error, PySparkException) else []
    except Exception:  # asking a broken session for details must not hide the error itself
        return []
