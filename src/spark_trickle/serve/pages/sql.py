"""The SQL page: one query at a time, run in the background, with a button to cancel it."""

from __future__ import annotations

from spark_trickle.serve.jobs import RUNNING, Job, Jobs
from spark_trickle.serve.pages.frame import badge, form
from spark_trickle.serve.pages.markup import Html, duration, join, moment, tag
from spark_trickle.serve.pages.rows import shown
from spark_trickle.serve.reading import MOST, Reader

QUERY = "query"
_EXAMPLE = "SELECT * FROM trickle.stream_tables"


def start(reader: Reader, jobs: Jobs, sql: str) -> Job:
    """UserError at once for what is no query over tables of the lake."""
    reader.check(sql)
    return jobs.start(QUERY, sql, lambda job: reader.run(sql, job.id))


def stop(reader: Reader, jobs: Jobs, id: str) -> None:
    if jobs.cancelled(id):
        reader.cancel(id)


def editor(sql: str, mark: str, problem: str = "") -> Html:
    """Where the query is written; stays as it is while the answer below is brought up to date."""
    box = tag("textarea", "\n" + (sql or _EXAMPLE), name="sql", id="sql", spellcheck="false")
    words = f"Reads tables of the lake; shows up to {MOST:,} rows."
    line = tag("p", tag("button", "Run"), " ", tag("span", words, cls="quiet"))
    error = tag("pre", problem, cls="error") if problem else None
    return join(form("/sql", mark, box, line), error)


def answer(job: Job, mark: str) -> Html:
    """What became of a query so far."""
    if job.state == RUNNING:
        halt = form("/sql/cancel", mark, tag("button", "Cancel", id="cancel"), job=job.id)
        return join(tag("p", badge(job.state), " since ", moment(job.started_at)), halt)
    if job.outcome.rows is None:
        return join(tag("p", badge(job.state)), tag("pre", job.outcome.words, cls="error"))
    said = f" {job.outcome.words}, {duration(job.seconds)}"
    return join(tag("p", badge(job.state), said), shown(job.outcome.rows))
