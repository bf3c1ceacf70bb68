"""Commands of ``trickle``; each reads its arguments, calls the lake and hands over to output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from spark_trickle.cli import bench, output
from spark_trickle.errors import TrickleError

app = typer.Typer(
    help="Tables with versions, transactions and a change feed for Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench.app, name="bench")


@app.callback()
def root() -> None:
    """Tables with versions, transactions and a change feed for Apache Spark."""


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(help="One SQL statement.")],
    lake: Annotated[str, typer.Option(help="Folder or postgresql:// URL of the lake.")] = "./lake",
    data_path: Annotated[str | None, typer.Option(help="Where the data files are.")] = None,
    dialect: Annotated[str, typer.Option(help="spark or postgres.")] = "spark",
    limit: Annotated[int, typer.Option(help="Rows of a query to show.")] = 100,
) -> None:
    """Run one statement and show its answer."""
    import spark_trickle

    with spark_trickle.connect(lake, data_path=data_path) as opened:
        listed = opened.listing(statement)
        if listed is not None:
            output.rows(listed)
            return
        output.answer(opened.sql(statement, dialect=dialect), limit)


@app.command()
def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Keep the lake here (default: a temporary folder).")
    ] = None,
    sf: Annotated[float, typer.Option(help="Scale: 1 has 6 million lineitems.")] = 0.1,
) -> None:
    """See stream tables follow changes, in about a minute."""
    from spark_trickle.cli.demo import run

    run(folder, sf)


def main() -> None:
    """Exit codes: 0 done, 1 an error of ours, 2 wrong use of the command."""
    try:
        app()
    except TrickleError as error:
        output.error(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
