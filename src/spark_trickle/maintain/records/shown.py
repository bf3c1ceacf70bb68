"""Stream tables in SHOW and DESCRIBE."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.execute.show.definitions import full_name, text
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.graph import read_by
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.timed.clocks import spelled
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import TableName


@dataclass(frozen=True)
class ShownStreams:
    """What the catalog keeps of stream tables, for listings."""

    catalog: Catalog

    def kinds(self) -> frozenset[str]:
        return frozenset(stream.uuid for stream in self._all())

    def details(self, uuid: str) -> list[tuple[str, str | None]]:
        stream = self._one(uuid)
        names = read_by(self.catalog, stream)
        known = [f"{names[s.uuid]} at version {s.version}" for s in stream.sources]
        moment = spelled(stream.clock)
        frontier = ", ".join(known if moment is None else [*known, f"the clock at {moment}"])
        return [
            ("Status", stream.status),
            ("Refresh Mode", stream.refresh_mode),
            ("Schedule", stream.schedule),
            ("Fast Path", str(stream.fast_path).lower()),
            ("Populated", str(stream.populated).lower()),
            ("Frontier", frontier),
            ("Last Error", stream.last_error),
            ("Query", stream.query),
        ]

    def definition(self, uuid: str) -> str:
        return definition(self._one(uuid))

    def _one(self, uuid: str) -> StreamTable:
        return next(stream for stream in self._all() if stream.uuid == uuid)

    def _all(self) -> list[StreamTable]:
        with self.catalog.reading() as connection:
            return records.load(connection)


def definition(stream: StreamTable) -> str:
    """The statement that makes a stream table; in the dialect of its query."""
    words = [f"CREATE STREAM TABLE {full_name(TableName.of(stream.name))}"]
    if stream.schedule is not None:
        word = stream.schedule
        words.append(f"SCHEDULE {word if word in ('CALCULATED',) else text(word)}")
    if stream.refresh_mode != "AUTO":
        words.append(f"REFRESH MODE {stream.refresh_mode}")
    if stream.fast_path:
        words.append("FAST_PATH TRUE")
    if not stream.populated:
        words.append("WITH NO DATA")
    return "\n".join([*words, f"AS {stream.query}"])
