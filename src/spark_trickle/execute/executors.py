"""The executors of a lake's Spark, for work that is large; Spark is started when there is some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_trickle.storage.upkeep.rewriting import Task
from spark_trickle.storage.versions.staging import Owned

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import SparkSession
    from spark_trickle.spark.writing.rewrite import SparkExecutors


@dataclass(frozen=True)
class LazyExecutors:
    """Rewrite files for compaction."""

    session: Callable[[], SparkSession]

    @property
    def _executors(self) -> SparkExecutors:
        from spark_trickle.spark.writing.rewrite import SparkExecutors

        return SparkExecutors(self.session)

    def living(self, task: Task, owned: Owned) -> Sequence[str]:
        return self._executors.living(task, owned)

    def dead(self, task: Task, version: int, owned: Owned) -> Sequence[str]:
        return self._executors.dead(task, version, owned)
