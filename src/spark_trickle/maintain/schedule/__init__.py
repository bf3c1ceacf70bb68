"""When a stream table is due."""

from __future__ import annotations
