"""Commands that make, look after and examine a lake; none of them starts Spark."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_trickle.cli import output
from spark_trickle.cli.opening import DataPathOption, LakeOption, open_lake, place
from spark_trickle.errors import NotFoundError, TrickleError, UserError

if TYPE_CHECKING:
    from spark_trickle.lake import Lake

_PACKAGES = ("spark-trickle", "pyspark", "pyarrow", "sqlglot", "numpy")
_LEAST_FREE = 1 << 30


def init(lake: LakeOption = None, data_path: DataPathOption = None) -> None:
    """Make a lake; one that is there is left as it is."""
    location = place(lake, data_path).location
    try:
        opened, told = open_lake(lake, data_path), "there is already a lake in"
    except NotFoundError:
        opened, told = open_lake(lake, data_path, create=True), "made a lake in"
    with opened:
        output.text(f"{told} {location}, version {opened.version}")


def compact(
    name: Annotated[str | None, typer.Argument(help="One table; all without it.")] = None,
    lake: LakeOption = None,
    data_path: DataPathOption = None,
) -> None:
    """Merge small files; changes no rows."""
    with open_lake(lake, data_path) as opened:
        with output.working("compacting …"):
            done = opened.compact(name)
        before, after = sum(c.files_before for c in done), sum(c.files_after for c in done)
        inlined = sum(c.inlined_rows for c in done)
        output.text(f"{before} files became {after}; {inlined} rows left the catalog")


def expire(
    keep_from: Annotated[int | None, typer.Option(help="The oldest version to keep.")] = None,
    older_than: Annotated[
        float | None, typer.Option(help="Forget versions older than so many seconds.")
    ] = None,
    remove_files: Annotated[
        bool, typer.Option(help="Also remove files that no version needs.")
    ] = True,
    lake: LakeOption = None,
    data_path: DataPathOption = None,
) -> None:
    """Forget old versions, but none that a stream table still reads from."""
    with open_lake(lake, data_path) as opened:
        with output.working("expiring …"):
            oldest = opened.expire(keep_from=keep_from, older_than=older_than)
            removed = opened.remove_orphans() if remove_files else 0
        output.text(f"the oldest version is {oldest}; {removed} files removed")


def doctor(lake: LakeOption = None, data_path: DataPathOption = None) -> None:
    """Examine Java, versions, disk, storage and catalog; exit code 1 if something is wrong."""
    wrong = False
    for what, check in _checks(lake, data_path):
        try:
            good, told = True, check()
        except TrickleError as error:
            good, told = False, str(error)
        wrong = wrong or not good
        output.text(f"{'ok ' if good else 'BAD'}  {what}: {told}")
    if wrong:
        raise typer.Exit(1)


def _checks(lake: str | None, data_path: str | None) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "versions", _versions
    yield "java", _java
    location = place(lake, data_path).location
    try:
        opened = open_lake(lake, data_path)
    except TrickleError as error:
        problem = error
        yield "lake", lambda: _fail(problem)
        return
    with opened:
        yield "lake", lambda: f"{location}, version {opened.version}"
        yield "catalog", lambda: _catalog(opened)
        yield "storage", lambda: _storage(opened)
        yield "disk", lambda: _disk(opened)
        yield "stream tables", lambda: _streams(opened)


def _fail(problem: TrickleError) -> str:
    raise problem


def _versions() -> str:
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    return f"Python {'.'.join(map(str, sys.version_info[:3]))}, {found}"


def _java() -> str:
    from spark_trickle.spark.sessions.java import OLDEST, find_java

    found = find_java()
    if found is None:
        raise UserError(
            f"no Java {OLDEST} or newer was found", hint="pip install 'spark-trickle[jre]'"
        )
    return str(found)


def _catalog(lake: Lake) -> str:
    database = lake._catalog.database
    with database.reading() as connection:
        if database.kind == "sqlite":
            found = connection.execute("PRAGMA quick_check")
            if found[0][0] != "ok":
                raise UserError(f"the catalog is damaged: {found[0][0]}", hint="restore a backup")
    tables = lake.tables()
    return f"{database.kind}, {len(tables)} tables"


def _storage(lake: Lake) -> str:
    """Write, read and remove a file where data files go."""
    folder, files = lake._catalog.data_path, lake._catalog.files
    path = f"{folder}trickle_probe_{uuid.uuid4().hex}"
    try:
        with files.output(path) as file:
            file.write(b"probe")
        system, inner = files.at(path)
        with system.open_input_stream(inner) as file:
            same = file.read() == b"probe"
        files.remove(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} cannot be written: {str(error).splitlines()[0]}") from None
    if not same:
        raise UserError(f"what was written into {folder} could not be read back")
    return f"{folder} can be written and read"


def _disk(lake: Lake) -> str:
    folder = lake._catalog.data_path
    if "://" in folder:
        return "not on this machine"
    free = shutil.disk_usage(Path(folder)).free
    told = f"{free / (1 << 30):.1f} GiB free"
    if free < _LEAST_FREE:
        raise UserError(told, hint="free some space; a commit that finds none does nothing")
    return told


def _streams(lake: Lake) -> str:
    found = lake.stream_tables()
    broken = [info.name for info in found if info.status == "ERROR"]
    if broken:
        raise UserError(f"out of service: {', '.join(broken)}", hint=f"trickle repair {broken[0]}")
    return f"{len(found)}, none out of service"


COMMANDS = (init, compact, expire, doctor)
