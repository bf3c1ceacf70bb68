"""Queries that read the clock or chance: never at rest, even if no table changes."""

from __future__ import annotations

import re
from collections.abc import Callable

from spark_trickle.compile import CompiledQuery
from spark_trickle.errors import TrickleError
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.sql.types.functions import VOLATILE

_WORDS = ("unix_timestamp", "aes_encrypt", "today", "tomorrow", "yesterday")
_SUSPECT = re.compile(
    r"\b(?:" + "|".join(sorted({*VOLATILE, *_WORDS})) + r")\b",
    re.IGNORECASE,
)


class Restless:
    """Tells such queries; each definition is looked at once."""

    def __init__(self, compile: Callable[[StreamTable], CompiledQuery]) -> None:
        self._compile = compile
        self._known: dict[tuple[str, int], bool] = {}

    def __call__(self, stream: StreamTable) -> bool:
        key = (stream.uuid, stream.generation)
        if key not in self._known:
            self._known[key] = self._judge(stream)
        return self._known[key]

    def _judge(self, stream: StreamTable) -> bool:
        if not _SUSPECT.search(stream.query):
            return False
        try:
            compiled = self._compile(stream)
            return compiled.volatile or bool(compiled.timed)
        except TrickleError:
            return False  # its refresh will tell what is wrong
