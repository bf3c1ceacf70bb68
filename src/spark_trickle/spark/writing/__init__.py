"""Rows, deletes and compacted files on their way into tables, by executors where they are many."""

from __future__ import annotations
