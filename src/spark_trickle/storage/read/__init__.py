"""Rows read in this process: of the files only what may hold one."""

from __future__ import annotations
