"""The settings of a session that give expressions their meaning, told apart from all others.

As Spark does for its own views: what may change a result is kept with the definition, what only
changes how it is computed is not. A setting that is in no list counts as meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class UserFunction:
    """A function that is not Spark's own."""

    identity: str
    """A hash of what it is."""
    deterministic: bool


@dataclass(frozen=True)
class Meaning:
    """What gives a query its meaning beside its text and its tables."""

    settings: Mapping[str, str]
    functions: Mapping[str, UserFunction] = field(default_factory=dict)
    """By name, in lower case: those that the query calls."""

    @property
    def ansi(self) -> bool:
        """Whether types meet, and overflow fails, by Spark's ANSI rules."""
        return self.settings.get("spark.sql.ansi.enabled", "true").lower() == "true"

    @property
    def function_set(self) -> str:
        """Equal for the same functions, empty for none."""
        return ",".join(f"{name}={f.identity}" for name, f in sorted(self.functions.items()))

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Meaning:
        values = json.loads(text)
        functions = {name: UserFunction(**known) for name, known in values["functions"].items()}
        return cls(values["settings"], functions)


ALWAYS = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.timestampType",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.groupByOrdinal",
    "spark.sql.orderByOrdinal",
    "spark.sql.groupByAliases",
)
"""Kept even where a session has just the default: another Spark may have another one."""
_HOW = (
    "spark.sql.adaptive.",
    "spark.sql.artifact.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.avro.",
    "spark.sql.broadcastTimeout",
    "spark.sql.cache.",
    "spark.sql.catalog",
    "spark.sql.cbo.",
    "spark.sql.classic.",
    "spark.sql.codegen.",
    "spark.sql.connect.",
    "spark.sql.debug.",
    "spark.sql.defaultCacheStorageLevel",
    "spark.sql.defaultSizeInBytes",
    "spark.sql.error.",
    "spark.sql.event.",
    "spark.sql.execution.",
    "spark.sql.extensions",
    "spark.sql.files.",
    "spark.sql.hive.",
    "spark.sql.inMemoryColumnarStorage.",
    "spark.sql.join.",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.maven.",
    "spark.sql.max",
    "spark.sql.metadataCacheTTLSeconds",
    "spark.sql.optimizer.",
    "spark.sql.orc.",
    "spark.sql.parquet.",
    "spark.sql.planner.",
    "spark.sql.pyspark.",
    "spark.sql.queryExecutionListeners",
    "spark.sql.redaction.",
    "spark.sql.repl.",
    "spark.sql.session.localRelation",
    "spark.sql.shuffle",
    "spark.sql.sources.",
    "spark.sql.statistics.",
    "spark.sql.streaming.",
    "spark.sql.thriftServer.",
    "spark.sql.thriftserver.",
    "spark.sql.ui.",
    "spark.sql.warehouse.",
    "spark.sql.window.",
)
_STILL_MEANING = ("spark.sql.execution.pandas.", "spark.sql.execution.pythonUDF.")


def is_meaning(key: str) -> bool:
    """Whether a setting may change what a query gives."""
    if key.startswith(_STILL_MEANING):
        return True
    return key.startswith("spark.sql.") and not key.startswith(_HOW)


def facts_of(session: SparkSession) -> dict[str, str]:
    """The settings that give a query its meaning in this session, now."""
    conf = session.conf
    found = {k: v for k, v in dict(conf.getAll).items() if is_meaning(k) and conf.isModifiable(k)}
    for key in ALWAYS:
        try:
            found[key] = str(conf.get(key))
        except Exception:  # a Spark that does not know the setting has but one meaning
            continue
    return found
