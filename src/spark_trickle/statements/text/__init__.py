"""The text of statements: its tokens, the names in it, and other text put in their place."""

from __future__ import annotations
