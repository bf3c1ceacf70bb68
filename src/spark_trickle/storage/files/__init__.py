"""Files and the values in them."""

from __future__ import annotations
