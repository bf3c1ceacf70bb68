"""Sessions of our own, derived from the user's: one for each meaning and pace, kept and shared.

A query of a stream table runs in a session that has the settings stored with its definition, and
in the way that suits the bytes it reads. Nothing is ever set in the user's session for it, so
other threads notice nothing and a process that dies leaves nothing behind.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from spark_trickle.spark.frames import Frames
from spark_trickle.spark.sessions import classic
from spark_trickle.spark.sessions.facts import Meaning, is_meaning
from spark_trickle.spark.sessions.session import SessionHolder, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT = {
    # Our files hold days and moments as they are; no file may be passed over in silence.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
_QUICK = {
    # Re-planning between stages and many partitions cost more than a small query itself.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    # Most rules of the analyser and optimiser walk through all rows of a local relation.
    "spark.sql.execution.arrow.localRelationThreshold": "64k",
    # What is handed over otherwise has no size that Spark knows; it is good to broadcast.
    "spark.sql.defaultSizeInBytes": str(2 << 20),
}
PACES: Mapping[str, Mapping[str, str]] = {
    "usual": {},
    "quick": _QUICK,
    # So does compiling a class for each stage, if all rows are in memory and few.
    "tiny": {
        **_QUICK,
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
    # Shuffled keys compress well: as many as Spark gives a task by their bytes need not fit into
    # its memory.
    "large": {
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "64",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
    },
}
"""By how much a query reads: what its session sets beside the meaning."""
QUICK_BYTES = 32 << 20
LARGE_BYTES = 768 << 20
_IDLE_SECONDS = 300.0
"""A Connect server forgets sessions that nobody uses; one not used for so long is asked first."""

DeskKey = tuple[tuple[tuple[str, str], ...], str, str]
_DERIVED: WeakKeyDictionary[SparkSession, dict[DeskKey, _Kept]] = WeakKeyDictionary()
_DERIVING = RLock()


@dataclass
class _Kept:
    session: SparkSession
    used: float


@dataclass(frozen=True)
class Desk:
    """A session to work in, and what was made of the lake's tables there."""

    spark: SparkSession
    frames: Frames


class Desks:
    """The desks of one lake."""

    def __init__(
        self, holder: SessionHolder, spark: Callable[[], SparkSession] | None = None
    ) -> None:
        """``spark``: gives the user's session when one is needed, for work that never needs one."""
        self._holder = holder
        self._spark = spark or (lambda: holder.spark)
        self._frames: dict[SparkSession, Frames] = {}

    def pace(self, bytes: int) -> str:
        """How a query should run that reads so much.

        How large queries run is for those to say who brought the session.
        """
        if bytes <= QUICK_BYTES:
            return "quick"
        return "large" if bytes > LARGE_BYTES and self._holder.owned else "usual"

    def desk(self, meaning: Meaning, pace: str) -> Desk:
        """A session of this meaning; functions are those that the user's session has now."""
        session = derived(self._spark(), meaning, pace)
        with _DERIVING:
            if session not in self._frames:
                self._frames[session] = Frames(session)
        return Desk(session, self._frames[session])

    def close(self) -> None:
        for frames in self._frames.values():
            frames.close()
        self._frames.clear()


def derived(base: SparkSession, meaning: Meaning, pace: str) -> SparkSession:
    """The session derived from ``base`` that has this meaning; made on first need."""
    key = (tuple(sorted(meaning.settings.items())), pace, meaning.function_set)
    with _DERIVING:
        kept = _DERIVED.setdefault(base, {})
        found = kept.get(key)
        if found is None or not _usable(found):
            wanted = {**_FORMAT, **meaning.settings, **PACES[pace]}
            found = _Kept(derive(base, wanted, whole=bool(meaning.functions)), monotonic())
            kept[key] = found
        found.used = monotonic()
        return found.session


def derive(base: SparkSession, settings: Mapping[str, str], *, whole: bool) -> SparkSession:
    """A new session: the machine's settings of ``base``, the meaning that ``settings`` say.

    ``whole``: with the functions and temporary views of ``base`` too.
    """
    child = _child(base, whole)
    known, ours = dict(base.conf.getAll), dict(child.conf.getAll)
    wanted = {key: value for key, value in known.items() if not is_meaning(key)}
    wanted = {key: value for key, value in wanted.items() if ours.get(key) != value}
    conf = child.conf
    for key in ours:
        if is_meaning(key) and key not in settings and conf.isModifiable(key):
            conf.unset(key)
    for key, value in wanted.items():
        if conf.isModifiable(key) or not key.startswith("spark."):
            conf.set(key, value)
    for key, value in settings.items():
        conf.set(key, value)
    prepare(child)
    return child


def _child(base: SparkSession, whole: bool) -> SparkSession:
    clone = getattr(base, "cloneSession", None)  # Spark Connect
    if clone is not None:
        cloned: SparkSession = clone()
        # At the end of the process it would ask a server that may be gone, again and again, to
        # forget models; it has none.
        leaving = getattr(getattr(cloned, "_client", None), "_on_exit", None)
        if leaving is not None:
            atexit.unregister(leaving)
        return cloned
    return (classic.clone(base) if whole else None) or base.newSession()


def _usable(kept: _Kept) -> bool:
    if monotonic() - kept.used < _IDLE_SECONDS:
        return True
    try:
        kept.session.conf.get("spark.sql.session.timeZone")
    except Exception:  # whatever is wrong with it: another one takes its place
        return False
    return True
