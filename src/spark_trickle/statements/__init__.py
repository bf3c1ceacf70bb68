"""Statements: text in, one small record out; tokens are read once and stay the user's own."""

from __future__ import annotations
