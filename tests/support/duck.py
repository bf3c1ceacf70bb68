"""DuckDB as the outside reader of our lakes: always in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_CHILD = r"""
import json, sys, duckdb
job = json.load(sys.stdin)
c = duckdb.connect()
c.execute("SET enable_progress_bar = false")  # it would stand among the answers
for e in job["extensions"]:
    c.execute(f"LOAD '{e}'")
c.execute("SET TimeZone = 'UTC'")
for s in job["setup"]:
    c.execute(s)
out = []
for q in job["queries"]:
    try:
        r = c.execute(q)
        out.append([[None if v is None else str(v) for v in row] for row in r.fetchall()] if r.description else [])
    except Exception as e:
        out.append({"error": str(e)})
json.dump(out, sys.stdout)
"""


def extension(name: str) -> str:
    """The file of an extension package."""
    spec = find_spec(f"duckdb_extension_{name}")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(next(iter(spec.submodule_search_locations)))
    return str(next(root.glob(f"extensions/*/{name}.duckdb_extension")))


def run(
    setup: Sequence[str],
    queries: Sequence[str],
    timeout: float = 120,
    storage: Mapping[str, str] | None = None,
) -> list[Any]:
    """The rows of each query, every value as text (or None); ``storage`` is an object store's."""
    scanner = "postgres_scanner" if "ducklake:postgres" in setup[0] else "sqlite_scanner"
    extensions = [extension("ducklake"), extension(scanner)]
    secrets = []
    if storage is not None:
        extensions.append(extension("httpfs"))
        secrets.append(_secret(storage))
    job = {"extensions": extensions, "setup": [*secrets, *setup], "queries": list(queries)}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for query, answer in zip(queries, answers, strict=True):
        assert not isinstance(answer, dict), f"{query}: {answer['error']}"
    return answers


def _secret(storage: Mapping[str, str]) -> str:
    host = storage["endpoint"].removeprefix("http://")
    return (
        f"CREATE SECRET (TYPE s3, KEY_ID '{storage['access_key']}', "
        f"SECRET '{storage['secret_key']}', ENDPOINT '{host}', URL_STYLE 'path', USE_SSL false)"
    )


def catalog_of(location: Path | str) -> Path | str:
    """Where the catalog of a lake is: a file, or the URL of a PostgreSQL database."""
    on_server = isinstance(location, str) and location.startswith("postgresql:")
    return location if on_server else Path(location) / "catalog.sqlite"


def attach(catalog: Path | str, data: Path | str | None = None) -> str:
    """The statement that attaches a lake: read-only, or, with a data folder, for writing."""
    kind = "postgres" if isinstance(catalog, str) else "sqlite"
    options = "READ_ONLY" if data is None else f"DATA_PATH '{data}/'"
    return f"ATTACH 'ducklake:{kind}:{catalog}' AS lk ({options})"


def read(
    catalog: Path | str, queries: Sequence[str], storage: Mapping[str, str] | None = None
) -> list[Any]:
    """Run queries against a lake that we wrote, read-only."""
    return run([attach(catalog), "USE lk"], queries, storage=storage)


def write(folder: Path, statements: Sequence[str]) -> None:
    """Have DuckDB make or change a lake in a folder, laid out as ours are."""
    folder.mkdir(exist_ok=True)
    run([attach(folder / "catalog.sqlite", folder / "data"), "USE lk"], statements)
