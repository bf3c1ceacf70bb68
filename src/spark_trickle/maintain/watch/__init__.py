"""What is told about stream tables: their state, alerts, health, advice."""

from __future__ import annotations
