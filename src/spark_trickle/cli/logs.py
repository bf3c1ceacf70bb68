"""The log of a process that keeps running: lines for people, or JSON for programs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any


class JsonLines(logging.Formatter):
    """One JSON object for each line of the log; of a refresh, with its id."""

    def format(self, record: logging.LogRecord) -> str:
        from spark_trickle.maintain.watch.tracing import refresh_id

        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
        }
        event = getattr(record, "event", None)
        line |= event if event is not None else {"event": "log", "message": record.getMessage()}
        if refresh_id():
            line.setdefault("refresh_id", refresh_id())
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def to_stdout(*, as_json: bool, verbose: bool = False) -> None:
    """Everything below ``spark_trickle``; with ``verbose`` also the phases of each refresh."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logger = logging.getLogger("spark_trickle")
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False
