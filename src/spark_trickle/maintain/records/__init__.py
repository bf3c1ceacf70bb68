"""What is remembered of stream tables, and what users see of it."""

from __future__ import annotations
