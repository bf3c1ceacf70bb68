"""The rows near a change, gathered before the delta is computed."""

from __future__ import annotations
