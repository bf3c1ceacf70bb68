"""Values of Spark and of PostgreSQL, made comparable."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any


def shown(value: Any) -> Any:
    """A value and its kind; numerics by value, times in UTC without a zone."""
    if isinstance(value, float):
        return "float", "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, Decimal):
        return "numeric", value.normalize() + 0
    if isinstance(value, datetime):
        return "time", value.replace(tzinfo=None)
    if isinstance(value, bytes | bytearray):
        return "bytes", bytes(value)
    if isinstance(value, list):
        return "list", [shown(item) for item in value]
    return type(value).__name__, value
