"""Settings of Spark under which expressions have other values or types than the rules here say."""

from __future__ import annotations

from collections.abc import Mapping

_PROVEN_UNDER = {"spark.sql.decimalOperations.allowPrecisionLoss": "true"}


def unproven_setting(settings: Mapping[str, str]) -> str | None:
    """Why nothing is computed in Spark's place under these settings."""
    for name, proven in _PROVEN_UNDER.items():
        if settings.get(name, proven).lower() != proven:
            return f"the query was made with {name} = {settings[name]}"
    return None
