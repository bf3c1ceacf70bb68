"""Stream tables as users handle them: create, alter, drop, refresh, explain, verify, repair, list."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from spark_trickle.errors import (
    AlreadyExistsError,
    DependencyError,
    InvariantError,
    NotFoundError,
    ReadOnlyError,
    UserError,
    names_hint,
)
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.define.altering import Alterer
from spark_trickle.maintain.define.definer import Definer
from spark_trickle.maintain.define.definition import MODES, Definition, check
from spark_trickle.maintain.define.explaining import Explainer
from spark_trickle.maintain.define.preview import preview
from spark_trickle.maintain.define.writing import definition_of, over_tables
from spark_trickle.maintain.guard import Guard
from spark_trickle.maintain.immediate.fast import FastPaths
from spark_trickle.maintain.immediate.followers import Followers
from spark_trickle.maintain.immediate.reconciling import reconcile
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.history import RefreshReport, history
from spark_trickle.maintain.records.monitor import Difference, StreamTableInfo
from spark_trickle.maintain.records.needed import Needed, needed
from spark_trickle.maintain.records.older import bind_older, has_unbound
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.by_text import verified_frame
from spark_trickle.maintain.refresh.job import out_of_service, source_size
from spark_trickle.maintain.refresh.lenient import without_open
from spark_trickle.maintain.refresh.refresher import Refresher
from spark_trickle.maintain.schedule import schedules
from spark_trickle.maintain.schedule.lookout import Known
from spark_trickle.maintain.schedule.refreshing import raise_failed, refresh_all
from spark_trickle.maintain.schedule.restless import Restless
from spark_trickle.maintain.schedule.scheduler import Scheduler, interval_of
from spark_trickle.maintain.watch import tracing
from spark_trickle.maintain.watch.alerts import alerts
from spark_trickle.maintain.watch.facts import Observed, state
from spark_trickle.maintain.watch.hooks import Announcer, Hook
from spark_trickle.maintain.watch.overview import looked_at, overview
from spark_trickle.maintain.watch.recommend import Recommendation, recommend
from spark_trickle.storage.records import TableName
from spark_trickle.storage.versions.transaction import Transaction


class StreamTables:
    """The stream tables of one lake."""

    def __init__(self, engine: Engine) -> None:
        self._catalog = engine.catalog
        self._engine = engine
        self._refresher = Refresher(engine)
        self._definer = Definer(self._refresher)
        self._alterer = Alterer(self._catalog, self._definer, lambda name: self.get(name))
        self._explainer = Explainer(self._refresher)
        self.followers = Followers(self._refresher)
        self.fast = FastPaths(self._refresher)
        self.history_rows = engine.settings.history_rows
        self.distinct = engine.catalog.distinct
        with self._catalog.reading() as connection:
            unbound = has_unbound(connection)
        if unbound:
            with suppress(ReadOnlyError), self._catalog.writing() as connection:
                records.create_tables(connection)
                bind_older(self._catalog, connection)

    def guard(self, tx: Transaction) -> Guard:
        """Looks after the stream tables while a statement runs in the transaction."""
        with self._catalog.reading() as connection:
            return Guard(records.definitions(connection), tx, self._refresher.compile)

    def all(self) -> list[StreamTable]:
        with self._catalog.reading() as connection:
            return records.load(connection)

    def followed(self) -> list[StreamTable]:
        """Those that commits bring up to date."""
        with self._catalog.reading() as connection:
            return records.load_some(connection, lambda stream: stream.followed)

    def find(self, name: str | TableName) -> StreamTable | None:
        key = TableName.of(name).key
        with self._catalog.reading() as connection:
            found = records.load_some(connection, lambda t: TableName.of(t.name).key == key)
        return found[0] if found else None

    def get(self, name: str | TableName) -> StreamTable:
        found = self.find(name)
        if found is None:
            known = [table.name for table in self.all()]
            raise NotFoundError(
                f"there is no stream table {name}",
                hint=names_hint(str(name), known, "stream tables"),
            )
        return found

    def create(
        self, wanted: Definition, *, or_replace: bool = False, if_not_exists: bool = False
    ) -> RefreshReport | None:
        """Make a stream table; with ``or_replace`` change the one that is there as needed."""
        wanted = replace(
            wanted,
            schedule=schedules.checked(wanted.schedule),
            refresh_mode=_mode(wanted.refresh_mode),
        )
        if or_replace and if_not_exists:
            raise UserError("or_replace and if_not_exists do not go together", hint="say one")
        there = self.find(wanted.name)
        if there is not None and if_not_exists:
            return None
        if there is not None and not or_replace:
            raise AlreadyExistsError(
                f"there is already a stream table {wanted.name}",
                hint="use CREATE OR REPLACE STREAM TABLE, or IF NOT EXISTS",
            )
        with over_tables(self._catalog, wanted) as over:
            if there is not None:
                return self._alterer.turn_into(there, over)
            return self._alterer.create(over)

    def alter(
        self,
        name: str | TableName,
        *,
        query: str | None = None,
        schedule: str | None = None,
        refresh_mode: str | None = None,
        status: str | None = None,
        dialect: str | None = None,
        fast_path: bool | None = None,
    ) -> None:
        """Change what is given; a new query rebuilds the contents in the same commit."""
        status = status.upper() if status is not None else None
        if status is not None and status not in (records.ACTIVE, records.SUSPENDED):
            raise UserError(f"{status!r} is not a status", hint="one of ACTIVE, SUSPENDED")
        schedule = None if schedule is None else schedules.checked(schedule)
        mode = None if refresh_mode is None else _mode(refresh_mode)

        def change(stream: StreamTable) -> StreamTable:
            if status is not None and stream.status == records.ERROR:
                raise out_of_service(stream)
            return replace(
                stream,
                schedule=schedule or stream.schedule,
                refresh_mode=mode or stream.refresh_mode,
                status=status or stream.status,
                fast_path=stream.fast_path if fast_path is None else fast_path,
            )

        self._alterer.alter(self.get(name), change, query, dialect)

    def preview(self, name: str | TableName, query: str, dialect: str) -> str:
        """What ALTER STREAM TABLE … AS would do; starts no Spark."""
        stream = self.get(name)
        wanted = definition_of(stream, query=query, dialect=dialect)
        with over_tables(self._catalog, wanted) as over:
            compiled = self._explainer.compiled(over.query, over.dialect)
            check(over, compiled)
            table = self._catalog.table(TableName.of(stream.name))
            return preview(stream, table, compiled, self.all())

    def empty(self, name: str | TableName) -> None:
        """Take all rows out and stop following, until it is made ACTIVE again."""
        self._alterer.empty(self.get(name))

    def rename(self, name: str | TableName, to: TableName) -> None:
        self._alterer.rename(self.get(name), to)

    def drop(
        self, name: str | TableName, *, cascade: bool = False, if_exists: bool = False
    ) -> list[str]:
        """Remove a stream table, with ``cascade`` also those that read it; all their names."""
        stream = self.find(name)
        if stream is None and if_exists:
            return []
        stream = stream or self.get(name)
        others = graph.all_dependents(self.all(), stream.uuid)
        if others and not cascade:
            names = ", ".join(table.name for table in others)
            raise DependencyError(
                f"{stream.name} cannot be dropped: {names} depend on it",
                hint="drop those first, or add CASCADE to drop them too",
            )
        tx = self._catalog.begin()
        try:
            self._definer.drop(tx, [*reversed(others), stream])
            tx.commit(f"drop stream table {stream.name}")
        except BaseException:
            tx.rollback()
            raise
        return [stream.name, *(other.name for other in others)]

    def refresh(self, name: str | TableName, *, full: bool = False) -> RefreshReport:
        stream = self.get(name)
        if stream.status == records.SUSPENDED:
            raise UserError(
                f"stream table {stream.name} is suspended",
                hint=f"ALTER STREAM TABLE {stream.name} RESUME",
            )
        if stream.status == records.ERROR:
            raise out_of_service(stream)
        if stream.refresh_mode == records.IMMEDIATE and not stream.populated:
            report = self._alterer.first(stream)
            assert report is not None
            return report
        asked = "FULL" if full else None
        return tracing.traced(stream.name, lambda: self._refresher.refresh(stream, asked=asked))

    def refresh_all(
        self,
        select: str | Iterable[str] | None = None,
        *,
        wait: bool = True,
        errors: str = "report",
    ) -> list[RefreshReport]:
        """All stream tables, or those selected, at one version of the base tables."""
        if errors not in ("report", "raise"):
            raise UserError(f"errors cannot be {errors!r}", hint="one of: report, raise")
        reports = refresh_all(self.followers, select, wait=wait)
        if errors == "raise":
            raise_failed(reports)
        return reports

    def note_breach(self, error: InvariantError) -> None:
        """A stream table that a transaction found impossible is taken out of service."""
        for stream in self.all():
            if stream.uuid == error.stream:
                self._refresher.note_failure(stream, stream.refresh_mode, error)

    def scheduler(self, on_alert: Hook | Iterable[Hook] | None = None) -> Scheduler:
        """What refreshes all that is due; not started yet."""
        restless = Restless(self._refresher.compile)
        announcer = Announcer(on_alert)
        catalog = self._catalog
        return Scheduler(
            self.followers,
            restless,
            lambda known: announcer.announce(alerts(state(catalog, known))),
            lambda stream: reconcile(self, stream),
        )

    def repair(self, name: str) -> RefreshReport:
        """Build contents and private state anew, at the newest version of the sources."""
        report = self._alterer.repair(self.get(name))
        assert report is not None
        return report

    def verify(self, name: str) -> Difference:
        """Run the defining query at the frontier and compare, row by row."""
        stream, tx = self._pinned(name)
        run = self._refresher.run(tx, stream.query, stream.dialect, stream.meaning)
        try:
            compiled = self._refresher.compile(stream)
            now = self._catalog.at(tx.base) if stream.follows else None
            pinned = self._refresher.pinned(stream, now)
            run.reads(source_size(pinned)[1])
            frame = verified_frame(self._engine, run, stream, compiled, pinned)
            contents = tx.scan(TableName.of(stream.name))
            # By place: columns that nobody named have names of ours.
            frame = frame.toDF(*(column.name for column in contents.table.columns))
            spilled = run.spill_difference(frame, contents)
            found = run.head(spilled, 1_000)
            if found.num_rows == spilled.rows:  # otherwise a row's partner may be among the rest
                found = without_open(found, compiled.parsed.tree)
            return Difference(stream.name, found, contents.rows)
        finally:
            run.close()
            tx.rollback()

    def _pinned(self, name: str) -> tuple[StreamTable, Transaction]:
        """A transaction, and the record of a stream table as it was when it began.

        One that follows commits is looked at where the transaction is, whatever its frontier.
        """
        while True:
            stream = self.get(name)
            tx = self._catalog.begin()
            now = self.get(name)
            if (replace(now, sources=stream.sources) if stream.follows else now) == stream:
                return stream, tx
            tx.rollback()

    def explain(
        self, name_or_query: str, stage: str | None, dialect: str, form: str = "text"
    ) -> str:
        """Every stage, or one, of a stream table or of a bare query; starts no Spark."""
        named = "`" in name_or_query or len(name_or_query.split()) < 2
        stream = self.find(name_or_query) if named else None
        if stream is not None:
            return self.explain_table(stream, stage, form)
        if named and name_or_query.strip():
            self.get(name_or_query)  # which says what there is
        return self._explainer.query(name_or_query, stage, dialect, form)

    def explain_query(self, query: str, dialect: str, mode: str) -> str:
        """What EXPLAIN CREATE says."""
        return self._explainer.query(query, None, dialect, "text", mode)

    def explain_table(
        self, stream: StreamTable, stage: str | None = None, form: str = "text"
    ) -> str:
        """As ``explain``, and what the next refresh would do: the stage ``choice``."""
        return self._explainer.table(stream, stage, form)

    def described(self) -> list[StreamTableInfo]:
        """All stream tables, for people."""
        return overview(self._catalog, self._refresher.compile, self.fast.obstacles)

    def look(self) -> tuple[Known, Observed]:
        """What a scheduler would know now, and what is to be told of it."""
        return looked_at(self._catalog)

    def recommend(self, name: str) -> list[Recommendation]:
        """What would make the stream table cheaper to keep, from its history."""
        stream = self.get(name)
        tables = [t for s in stream.sources if (t := self._catalog.find(s.uuid)) is not None]
        return recommend(stream, self.history(name), interval_of(stream), tables)

    def history(self, name: str | None = None) -> list[RefreshReport]:
        uuid = self.get(name).uuid if name is not None else None
        with self._catalog.reading() as connection:
            return history(connection, uuid)

    def needed(self) -> list[Needed]:
        """The versions that stream tables still have to read from."""
        return needed(self._catalog, self.all())


def _mode(mode: str) -> str:
    if mode.upper() not in MODES:
        raise UserError(f"there is no refresh mode {mode!r}", hint=f"one of {', '.join(MODES)}")
    return mode.upper()
