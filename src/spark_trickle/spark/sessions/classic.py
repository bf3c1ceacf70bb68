"""What Spark Classic can do and PySpark has no public name for; Spark Connect has, or needs it not.

None of this is on the path of data. Each function is asked of any session, and answers None, or
does nothing, where there is no Java behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_KEEPING = RLock()


def clone(session: SparkSession) -> SparkSession | None:
    """A session with the settings, temporary views and functions that this one has now."""
    java = _java(session)
    if java is None:
        return None
    context: Any = getattr(session, "_sc", None)
    return SparkSession(context, java.cloneSession())


def context(session: SparkSession) -> Any | None:
    """What knows jobs by tags that any thread may cancel; those of a session only its own may."""
    return getattr(session, "_sc", None) if _java(session) is not None else None


@contextmanager
def active_kept(session: SparkSession) -> Iterator[None]:
    """Whichever session is active stays so: ``createDataFrame`` of a session makes it the active
    one, in Java of this thread and in Python of all threads."""
    if _java(session) is None:
        yield
        return
    # One thread at a time: else one takes for the active session what another is about to put back.
    with _KEEPING:
        of_python, of_java = SparkSession._activeSession, SparkSession.getActiveSession()
        try:
            yield
        finally:
            SparkSession._activeSession = of_python
            known: Any = getattr(session, "_get_j_spark_session_class", None)
            sessions = known(getattr(session, "_jvm", None))
            if of_java is None:
                sessions.clearActiveSession()
            else:
                sessions.setActiveSession(_java(of_java))


def _java(session: SparkSession) -> Any:
    return getattr(session, "_jsparkSession", None)


def has_java(session: SparkSession) -> bool:
    """Whether the driver is a child of this process."""
    return _java(session) is not None


def definition(frame: DataFrame) -> bytes | str | None:
    """What the one function is that a frame ``SELECT f(…)`` calls.

    The pickled bytes of a Python function, the class of a Java one, None for all others.
    """
    java: Any = getattr(frame, "_jdf", None)
    if java is None:
        return None
    called = java.queryExecution().analyzed().expressions().head()
    kind = called.getClass().getSimpleName()
    while kind in ("Alias", "AggregateExpression"):
        called = called.child() if kind == "Alias" else called.aggregateFunction()
        kind = called.getClass().getSimpleName()
    if kind in ("PythonUDF", "PythonUDAF"):
        numbers = str(called.func().command().mkString(","))
        return bytes(int(number) & 255 for number in numbers.split(","))
    return str(called.function().getClass().getName()) if kind == "ScalaUDF" else None
