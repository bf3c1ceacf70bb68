"""What browsers get, made on the server by functions that escape every value."""

from __future__ import annotations
