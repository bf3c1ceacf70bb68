"""What a refresh says of itself."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_trickle.display import html_facts
from spark_trickle.maintain.watch import tracing


@dataclass(frozen=True)
class RefreshReport:
    """The truth about one refresh."""

    name: str
    effective_mode: str
    """FULL, DIFFERENTIAL, TOPK, NO_DATA: what really ran. ERROR or SKIPPED: nothing did."""
    reason: str
    """A stable code, a colon, and a sentence."""
    asked_mode: str = "AUTO"
    sources: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By source: the version before and after."""
    clock: tuple[str | None, str] | None = None
    """Of temporal filters: the moment before and after; None before: there were no contents."""
    version: int = 0
    """The version this refresh committed."""
    rows_inserted: int = 0
    rows_deleted: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    delta_rows: Mapping[str, int] = field(default_factory=dict)
    """Changed rows by source."""
    source_rows: int = 0
    """Rows of all sources at the version after: what a full run has to read."""
    spark_queries: int = 0
    engine: str = "none"
    """Where it was computed: spark, local (in this process), or none where nothing was."""
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase."""
    started_at: float = field(default_factory=time.time)
    error: str | None = None
    refresh_id: str = field(default_factory=tracing.refresh_id)
    """What all lines of the log about it carry."""

    def __repr__(self) -> str:
        done = f"+{self.rows_inserted:,} -{self.rows_deleted:,} rows, {self.rows_read:,} read"
        return (
            f"RefreshReport({self.name}: {self.effective_mode}, {done}, {self.seconds:.2f} s, "
            f"version {self.version}; {self.reason})"
        )

    def _repr_html_(self) -> str:
        return html_facts(f"{self.name}: {self.effective_mode}", vars(self).items())

    @property
    def failed(self) -> bool:
        """Whether it should have run and did not; one that is suspended should not."""
        upstream = self.effective_mode == "SKIPPED" and self.reason.startswith("UPSTREAM_FAILED:")
        return self.effective_mode == "ERROR" or upstream

    def to_json(self) -> str:
        """All fields, as ``from_json`` reads them."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> RefreshReport:
        values = json.loads(text)
        values["sources"] = {name: tuple(pair) for name, pair in values["sources"].items()}
        values["clock"] = values.get("clock") and tuple(values["clock"])
        return cls(**{"refresh_id": "", **values})
