"""One refresh: choose, compute, leave a report."""

from __future__ import annotations
