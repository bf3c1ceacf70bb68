"""Versions: what a version shows, what changed between two, and what is staged for the next."""

from __future__ import annotations
