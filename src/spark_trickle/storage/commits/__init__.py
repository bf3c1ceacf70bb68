"""How a new version is made of what is staged: who may commit beside whom, and what is written."""

from __future__ import annotations
