"""The command ``trickle``; each command reads its arguments, calls the lake and hands over to output."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from spark_trickle.cli import bench, monitor, output, run, serve, streams, upkeep
from spark_trickle.cli.answers import answer
from spark_trickle.cli.opening import DataPathOption, LakeOption, open_lake
from spark_trickle.cli.outcome import ending
from spark_trickle.cli.output import Format
from spark_trickle.cli.shell import shell
from spark_trickle.errors import UserError

app = typer.Typer(
    help="Stream tables for Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_SHOWN = 100
"""Rows that are shown to people unless they ask for more; programs get all."""


def _version(wanted: bool) -> None:
    if wanted:
        import spark_trickle

        print(f"spark-trickle {spark_trickle.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Stream tables for Apache Spark."""


def sql(
    statement: Annotated[
        str | None, typer.Argument(help="SQL; without it, standard input is read.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Run the statements of this file.")
    ] = None,
    lake: LakeOption = None,
    data_path: DataPathOption = None,
    dialect: Annotated[str, typer.Option(help="spark or postgres.")] = "spark",
    form: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
    to: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the rows into this file.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help=f"Rows to show; {_SHOWN} in tables, else all.")
    ] = None,
) -> None:
    """Run statements and show their answers."""
    from spark_trickle.statements.text.tokens import split_statements

    statements = split_statements(_text(statement, file), dialect)
    if not statements:
        raise UserError("there is no statement in the text", hint="give SQL, -f FILE or a pipe")
    if limit is None and form in (Format.TABLE, Format.MARKDOWN):
        limit = _SHOWN
    with open_lake(lake, data_path) as opened:
        session = opened.session(dialect)
        for one in statements:
            answer(opened, one, session, form, to, limit)
        if session.end():
            raise UserError(
                "the text ends inside a transaction, which was rolled back", hint="COMMIT"
            )


def _text(statement: str | None, file: Path | None) -> str:
    if statement is not None and file is not None:
        raise UserError("SQL was given twice: as an argument and by -f")
    if statement is not None and statement != "-":
        return statement
    try:
        if file is not None and str(file) != "-":
            return file.read_text(encoding="utf-8")
        if sys.stdin is None or (statement is None and file is None and sys.stdin.isatty()):
            return ""
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserError(f"{file or 'standard input'} cannot be read: {what}") from None


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Keep the lake here (default: a temporary folder).")
    ] = None,
    sf: Annotated[float, typer.Option(help="Scale: 1 has 6 million lineitems.")] = 0.1,
    serve_it: Annotated[
        bool, typer.Option("--serve", help="Then show the lake in the dashboard.")
    ] = False,
    http: Annotated[str, typer.Option(help="Where the dashboard listens.")] = serve.USUAL,
) -> None:
    """See stream tables follow changes, in about a minute."""
    from spark_trickle.cli.demo import run

    run(folder, sf, http if serve_it else None)


_RUNNING = (run.run, serve.serve)
for _command in (
    sql,
    shell,
    *streams.COMMANDS,
    *_RUNNING,
    *monitor.COMMANDS,
    *upkeep.COMMANDS,
    demo,
):
    app.command()(ending(_command))
app.add_typer(bench.app, name="bench")


def main() -> None:
    """What ``trickle`` runs."""
    warnings.showwarning = output.warning
    app(prog_name="trickle")


if __name__ == "__main__":
    main()
