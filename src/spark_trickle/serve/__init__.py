"""What people and machines see of a lake over HTTP: a dashboard, metrics, health."""

from __future__ import annotations
