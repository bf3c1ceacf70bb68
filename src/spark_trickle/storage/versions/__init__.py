"""Versions: what a version shows, what changed between two, and how a new one is made."""

from __future__ import annotations
