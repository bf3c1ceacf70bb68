"""Performance figures, always as ratios within one run: ``python -m bench``."""

from __future__ import annotations
