"""The command ``trickle``."""

from __future__ import annotations
