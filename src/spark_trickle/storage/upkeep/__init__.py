"""Housekeeping: compaction, expiry, removal of what nobody needs."""

from __future__ import annotations
