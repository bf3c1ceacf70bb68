"""The handlers of pages that take values: a table's, its changes, actions on it, queries."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from spark_trickle.errors import NotFoundError, TrickleError, UserError
from spark_trickle.maintain.watch.tracing import tell
from spark_trickle.serve import gate
from spark_trickle.serve.access import VIEWER, Access
from spark_trickle.serve.jobs import Job, Jobs, log
from spark_trickle.serve.pages import actions, sql
from spark_trickle.serve.pages.frame import link, page, url
from spark_trickle.serve.pages.markup import Html, cut, join, tag
from spark_trickle.serve.pages.rows import FIRST, changed_rows, shown
from spark_trickle.serve.pages.table import table_page
from spark_trickle.serve.reading import Reader
from spark_trickle.serve.sight import Sight


@dataclass(frozen=True)
class Pages:
    sight: Sight
    jobs: Jobs
    access: Access
    reader: Reader

    def routes(self) -> list[Route]:
        return [
            Route("/table", self.table),
            Route("/fragment/table", self.table_inside),
            Route("/changes", self.changes),
            Route("/confirm", self.confirm),
            Route("/act", self.act, methods=["POST"]),
            Route("/sql", self.sql),
            Route("/sql", self.run, methods=["POST"]),
            Route("/sql/cancel", self.cancel, methods=["POST"]),
            Route("/fragment/sql", self.sql_inside),
        ]

    def table(self, request: Request) -> Response:
        name = _value(request, "name")
        live = url("/fragment/table", name=name)
        return self._page(request, name, self._table(request), live)

    def table_inside(self, request: Request) -> Response:
        return HTMLResponse(self._table(request))

    def _table(self, request: Request) -> Html:
        name = _value(request, "name")
        return table_page(self.sight, name, gate.role(request), self.jobs.about(name))

    def changes(self, request: Request) -> Response:
        name, version = _value(request, "name"), _value(request, "version")
        if not version.isdigit():
            raise UserError("a version is a whole number")
        stream = self.sight.lake._streams.get(name)
        rows = changed_rows(self.sight, stream.uuid, int(version))
        words = (
            f"What version {version} changed, up to {FIRST} rows; __weight says how often a row "
        )
        inside = join(
            tag("h1", stream.name),
            tag("p", words + "came (+) or went (−). ", link("/table", "Back", name=stream.name)),
            shown(rows),
        )
        return self._page(request, name, inside)

    def confirm(self, request: Request) -> Response:
        stream = self.sight.lake._streams.get(_value(request, "name"))
        mark = self.access.mark(gate.role(request))
        inside = actions.confirmation(stream.name, _value(request, "action"), mark)
        return self._page(request, stream.name, inside)

    async def act(self, request: Request) -> Response:
        fields = await gate.posted(request, self.access)
        wanted = actions.action(fields.get("action", ""))
        lake = self.sight.lake
        stream = await run_in_threadpool(lake._streams.get, fields.get("name", ""))
        tell(log, "asked", action=fields["action"], table=stream.name)
        self.jobs.start(wanted.words, stream.name, lambda _: wanted.do(lake, stream.name))
        return RedirectResponse(url("/table", name=stream.name), 303)

    def sql(self, request: Request) -> Response:
        id = request.query_params.get("job")
        if id is None:
            mark = self.access.mark(gate.role(request))
            return self._sql(request, sql.editor("", mark), None)
        job = self._job(id)
        above = sql.editor(job.about, self.access.mark(gate.role(request)))
        return self._sql(request, above, job)

    def sql_inside(self, request: Request) -> Response:
        job = self._job(_value(request, "job"))
        return HTMLResponse(sql.answer(job, self.access.mark(gate.role(request))))

    async def run(self, request: Request) -> Response:
        fields = await gate.posted(request, self.access, VIEWER)
        text = fields.get("sql", "").replace("\r\n", "\n").strip()
        try:
            job = await run_in_threadpool(sql.start, self.reader, self.jobs, text)
        except TrickleError as error:
            mark = self.access.mark(gate.role(request))
            return self._sql(request, sql.editor(text, mark, str(error)), None, 400)
        return RedirectResponse(url("/sql", job=job.id), 303)

    async def cancel(self, request: Request) -> Response:
        id = (await gate.posted(request, self.access, VIEWER)).get("job", "")
        await run_in_threadpool(sql.stop, self.reader, self.jobs, id)
        return RedirectResponse(url("/sql", job=id), 303)

    def _job(self, id: str) -> Job:
        job = self.jobs.find(id)
        if job is None or job.what != sql.QUERY:
            raise NotFoundError("the answer of this query is gone", hint="run it again")
        return job

    def _sql(self, request: Request, above: Html, job: Job | None, code: int = 200) -> Response:
        own = gate.role(request)
        below = sql.answer(job, self.access.mark(own)) if job is not None else None
        live = url("/fragment/sql", job=job.id) if job is not None else None
        whole = page(self.sight, "SQL", below, live=live, role=own, above=above)
        return HTMLResponse(whole, code)

    def _page(
        self, request: Request, title: str, inside: Html, live: str | None = None
    ) -> Response:
        own = gate.role(request)
        return HTMLResponse(page(self.sight, cut(title, 80), inside, live=live, role=own))


def _value(request: Request, name: str) -> str:
    found = request.query_params.get(name)
    if found is None:
        raise HTTPException(400, f"the address lacks {name}=")
    return found
