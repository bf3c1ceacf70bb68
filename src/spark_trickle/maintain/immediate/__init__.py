"""IMMEDIATE stream tables: kept up to date inside the transactions that change their sources."""

from __future__ import annotations
