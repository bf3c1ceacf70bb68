"""Whether commits may fold their changes into a stream table, under the settings its query was made with."""

from __future__ import annotations

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.fast_path import FastPath, FastPlan, NoFastPath, fast_path
from spark_trickle.maintain.records.streams import StreamTable

_ANSI = "spark.sql.ansi.enabled"
_PROVEN_UNDER = {
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
}
"""What gives exact expressions their meaning, and the only values it was proven under."""


def fast_path_of(stream: StreamTable, compiled: CompiledQuery) -> FastPath:
    """The plan of the fast path, or why there is none."""
    settings = {} if stream.meaning is None else stream.meaning.settings
    for name, proven in _PROVEN_UNDER.items():
        if settings.get(name, proven).lower() != proven:
            return NoFastPath("SETTING", f"the query was made with {name} = {settings[name]}")
    found = compiled.fast_path
    if isinstance(found, FastPlan) and settings.get(_ANSI, "true").lower() != "true":
        return fast_path(compiled.parts, ansi=False)
    return found
