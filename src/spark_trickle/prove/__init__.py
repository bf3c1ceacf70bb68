"""What this process may compute in Spark's place: translated by rule into a closed language, or refused."""

from __future__ import annotations
