"""The catalog database: what tables there are, and how their structure changes."""

from __future__ import annotations
