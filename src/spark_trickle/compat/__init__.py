"""What users of pg_ivm and pg_trickle type, at work on a lake."""

from __future__ import annotations
