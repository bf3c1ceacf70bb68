"""Which old versions stream tables need: expiry leaves these."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_trickle.errors import BindError
from spark_trickle.execute.states import version_at
from spark_trickle.maintain.records.behind import behind
from spark_trickle.maintain.records.graph import all_dependents
from spark_trickle.maintain.records.streams import SUSPENDED, StreamTable
from spark_trickle.statements.text.names import TableReference, find_tables
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.upkeep.maintenance import oldest_kept

_LITERAL = re.compile(r"(?:timestamp\s*)?'([^']*)'", re.IGNORECASE)
_FARTHEST = timedelta(hours=14)
"""No zone is farther ahead: a text without a zone means no earlier moment than this before UTC."""


@dataclass(frozen=True)
class Needed:
    """A version that a stream table needs, with all that came after it."""

    version: int
    name: str
    suspended: bool
    """It does not move on: it is suspended, or reads one that is."""


def needed(catalog: Catalog, streams: list[StreamTable]) -> list[Needed]:
    """The frontiers, from which changes are read, and the versions that queries name."""
    found = []
    held = {stream.uuid for stream in streams if stream.status == SUSPENDED}
    held |= {other.uuid for uuid in held for other in all_dependents(streams, uuid)}
    overtaken = behind(catalog, {stream.uuid for stream in streams if stream.follows})
    for stream in streams:
        late = stream.populated and (not stream.follows or stream.uuid in overtaken)
        versions = [source.version for source in stream.sources] if late else []
        versions += [
            _version(catalog, reference)
            for reference in (find_tables(stream.query) if stream.dialect == "spark" else ())
            if reference.version is not None or reference.timestamp is not None
        ]
        found += [Needed(version, stream.name, stream.uuid in held) for version in versions]
    return found


def _version(catalog: Catalog, reference: TableReference) -> int:
    """The version that is named; what cannot be told without Spark may be the oldest."""
    if reference.version is not None:
        return int(reference.version.strip("'\""))
    literal = _LITERAL.fullmatch(reference.timestamp or "")
    try:
        moment = datetime.fromisoformat(literal.group(1).strip() if literal else "")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC) - _FARTHEST
        return version_at(catalog, moment)
    except (ValueError, BindError):
        return catalog.oldest_version()


def kept_from(
    catalog: Catalog,
    found: Sequence[Needed],
    keep_from: int | None,
    older_than: float | None,
    ignore_suspended: bool,
) -> int | None:
    """The oldest version that expiry must leave."""
    active = [need for need in found if not need.suspended]
    otherwise = _oldest(keep_from, active)
    if ignore_suspended or len(active) == len(found):
        return otherwise
    kept = _oldest(otherwise, found)
    _warn_of_suspended(
        found,
        oldest_kept(catalog, keep_from=kept, older_than=older_than),
        oldest_kept(catalog, keep_from=otherwise, older_than=older_than),
    )
    return kept


def _oldest(limit: int | None, found: Iterable[Needed]) -> int | None:
    versions = [need.version for need in found]
    return min(versions if limit is None else [limit, *versions], default=None)


def _warn_of_suspended(found: Iterable[Needed], kept: int, otherwise: int) -> None:
    """Say which suspended stream tables held versions back that would have gone otherwise."""
    names = {need.name for need in found if need.suspended and need.version < otherwise}
    if names and kept < otherwise:
        warnings.warn(
            f"versions {kept} to {otherwise - 1} stay, because these stream tables need them "
            f"and are suspended, or read one that is: {', '.join(sorted(names))}; resume or drop them, or go on with "
            "expire(ignore_suspended=True), after which they have to be repaired",
            stacklevel=4,
        )
