"""The files of a table as columns: what grows with their number is done for all at once."""

from __future__ import annotations
