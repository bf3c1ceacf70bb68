"""Lakes with many stream tables and a past, made by metadata alone; and a client of their server."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from prometheus_client.parser import text_string_to_metric_families

from spark_trickle import Lake
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.bound import Binding
from spark_trickle.maintain.records.history import RefreshReport, add_history
from spark_trickle.maintain.records.streams import Dependency, StreamTable
from spark_trickle.serve.access import Access, Address
from spark_trickle.serve.server import server
from spark_trickle.storage.records import DEFAULT_SCHEMA, NewColumn, TableName

SUMS = {
    "trickle_refresh_seconds_total": "seconds",
    "trickle_rows_inserted_total": "rows_inserted",
    "trickle_rows_deleted_total": "rows_deleted",
    "trickle_rows_read_total": "rows_read",
    "trickle_bytes_read_total": "bytes_read",
    "trickle_spark_queries_total": "spark_queries",
}
"""The counters beside that of the refreshes, and what they are sums of."""


def make(lake: Lake, names: Sequence[str], **more: Any) -> list[StreamTable]:
    """Filled stream tables over ``base``, as creating them leaves them; no Spark is started."""
    lake.sql("CREATE TABLE IF NOT EXISTS base (id BIGINT)")
    lake.sql("INSERT INTO base VALUES (1)")
    catalog = lake._catalog
    tx = catalog.begin()
    made = [
        tx.create_table(
            TableName(DEFAULT_SCHEMA, n), [NewColumn("id", "bigint"), NewColumn("<i>", "string")]
        )
        for n in names
    ]
    tx.commit()
    base = catalog.table("base")
    source = Dependency(base.uuid, "base", catalog.version(), Binding.of(base))
    found = []
    with catalog.writing() as connection:
        for table in made:
            uuid = catalog.table(table.full_name).uuid
            given = {"schedule": "1m", "populated": True, "sources": (source,), **more}
            found.append(StreamTable(uuid, str(table), "SELECT id FROM base", **given))
            records.save(connection, found[-1])
    return found


def refreshed(lake: Lake, stream: StreamTable, *reports: RefreshReport, keep: int = 1000) -> None:
    """Lines of history."""
    with lake._catalog.writing() as connection:
        for report in reports:
            add_history(connection, stream.uuid, report, keep)


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def harmless(page: str) -> str:
    """The text of a page as a browser shows it; no element is there that we did not make."""
    parser = _Elements()
    parser.feed(page)
    parser.close()
    scripts = [attributes for name, attributes in parser.found if name == "script"]
    assert all(s == {"src": "/static/app.js", "defer": None} for s in scripts), scripts
    assert not any(a.startswith("on") for _, attributes in parser.found for a in attributes)
    assert not any(name in ("img", "iframe", "object", "style") for name, _ in parser.found)
    return parser.words


@dataclass(frozen=True)
class Answer:
    code: int
    text: str
    headers: dict[str, str]
    seconds: float
    """Of the processor, by this process, which is the server's, too: other processes do not count."""

    @property
    def milliseconds(self) -> float:
        """What the server took, as it says."""
        return float(self.headers["server-timing"].partition("dur=")[2])


@dataclass(frozen=True)
class Client:
    """Asks a server that listens, as any program would."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, urlencode(fields), {**form, **headers})

    def ask(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        began = time.process_time()
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            known = {name.lower(): value for name, value in answer.getheaders()}
            body = answer.read().decode()
            return Answer(answer.status, body, known, time.process_time() - began)
        finally:
            connection.close()


@contextmanager
def serving(lake: Lake, access: Access | None = None, host: str = "127.0.0.1") -> Iterator[Client]:
    """A real server in this process, on a port that was free."""
    running = server(lake, Address(host, 0), access or Access())
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 30
        while not running.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.01)
        yield Client(running.servers[0].sockets[0].getsockname()[1])
    finally:
        running.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"


def samples(client: Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = client.get("/metrics")
    assert answer.code == 200, answer.text
    families = list(text_string_to_metric_families(answer.text))
    assert len({family.name for family in families}) == len(families), "each family once"
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def figures(client: Client, name: str) -> dict[tuple[str, ...], float]:
    """By the values of table and mode, where there are any."""
    return {
        tuple(dict(labels)[key] for key in ("table", "mode") if key in dict(labels)): value
        for (found, labels), value in samples(client).items()
        if found == name
    }
