"""``trickle shell``: statements at a prompt, over several lines, with history and completion of names."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_trickle.cli import output
from spark_trickle.cli.answers import answer
from spark_trickle.cli.opening import DataPathOption, LakeOption, open_lake
from spark_trickle.cli.output import Format
from spark_trickle.errors import ParseError, TrickleError, UserError
from spark_trickle.statements.text.tokens import all_tokens, split_statements

if TYPE_CHECKING:
    from spark_trickle.compat.session import Session
    from spark_trickle.lake import Lake

_SHOWN = 100
_HELP = """\
end a statement with ; and Enter
\\d           tables, views and stream tables      \\d name      its columns
\\timing      say how long statements take, or not  \\q          leave (also exit, Ctrl-D)"""
_WORDS = [
    "ALTER",
    "ALL",
    "AND",
    "AS",
    "BY",
    "CASE",
    "COMMENT",
    "CREATE",
    "CROSS",
    "DELETE",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "EXPLAIN",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "HISTORY",
    "IN",
    "INNER",
    "INSERT",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MERGE",
    "NOT",
    "NULL",
    "ON",
    "OR",
    "ORDER",
    "REFRESH",
    "RESTORE",
    "SELECT",
    "SET",
    "SHOW",
    "STREAM",
    "TABLE",
    "TABLES",
    "TRUNCATE",
    "UNION",
    "UPDATE",
    "USE",
    "USING",
    "VALUES",
    "VERSION",
    "VERSIONS",
    "VIEW",
    "WHERE",
    "WITH",
]


def shell(
    lake: LakeOption = None,
    data_path: DataPathOption = None,
    dialect: Annotated[str, typer.Option(help="spark or postgres.")] = "spark",
    form: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
) -> None:
    """Run statements at a prompt; end each with a semicolon."""
    if not (output.console.is_terminal and os.isatty(0)):
        raise UserError("a shell needs a terminal", hint="pipe statements into trickle sql")
    with open_lake(lake, data_path) as opened:
        output.text(f"{opened!r}\n\\? for help")
        _Loop(opened, dialect, form).run(_prompts(opened, dialect))


class _Loop:
    """Reads, runs and shows until somebody leaves. An error ends a statement, not the shell."""

    def __init__(self, lake: Lake, dialect: str, form: Format) -> None:
        self._lake = lake
        self._dialect = dialect
        self._session = lake.session(dialect)
        self._form = form
        self._timing = True

    def run(self, texts: Iterable[str]) -> None:
        for text in texts:
            if text.strip().rstrip(";").strip().lower() in ("\\q", "exit", "quit"):
                return
            try:
                self._one(text.strip())
            except TrickleError as error:
                output.error(error)
            except KeyboardInterrupt:
                output.note("interrupted")

    def _one(self, text: str) -> None:
        if text.startswith("\\"):
            self._command(*text.split())
            return
        for statement in split_statements(text, self._dialect):
            self._answer(statement, self._session)

    def _command(self, word: str, *rest: str) -> None:
        if word == "\\timing":
            self._timing = not self._timing
            output.text(f"timing is {'on' if self._timing else 'off'}")
        elif word == "\\d":
            self._answer(
                f"DESCRIBE EXTENDED {rest[0]}" if rest else "SHOW TABLES", self._lake.session()
            )
        else:
            output.text(_HELP)

    def _answer(self, statement: str, session: Session) -> None:
        began = time.perf_counter()
        rows = answer(self._lake, statement, session, self._form, None, _SHOWN)
        if self._timing:
            told = "" if rows is None else f"{rows} {'row' if rows == 1 else 'rows'}, "
            output.note(f"({told}{time.perf_counter() - began:.2f} s)")


def complete(text: str, dialect: str = "spark") -> bool:
    """Whether Enter runs the text: it ends with a semicolon outside of quotes, or is a command."""
    bare = text.strip()
    if not bare or bare.startswith("\\") or bare.lower() in ("exit", "quit"):
        return True
    try:
        tokens = all_tokens(bare, dialect)
    except ParseError:  # a quote or a comment is open
        return False
    return bool(tokens) and tokens[-1].is_symbol(";")


def names(lake: Lake) -> list[str]:
    """What may be completed: keywords, and the names of tables, views and columns."""
    found = dict.fromkeys(_WORDS)
    tables = lake.tables()
    listed = lake.listing("SHOW TABLES")
    for row in [] if listed is None else listed.to_pylist():
        own = row["namespace"] == "main"
        found.setdefault(row["tableName"] if own else f"{row['namespace']}.{row['tableName']}")
    for table in tables:
        found.update(dict.fromkeys(column.name for column in table.columns))
    return list(found)


def _prompts(lake: Lake, dialect: str) -> Iterator[str]:
    session = _session(lake, dialect)
    while True:
        try:
            yield session.prompt("trickle> ")
        except KeyboardInterrupt:  # the line is given up, not the shell
            continue
        except EOFError:
            return


def _session(lake: Lake, dialect: str) -> Any:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    def enter(event: Any) -> None:
        buffer = event.current_buffer
        if complete(buffer.text, dialect):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    keys.add("enter")(enter)
    return PromptSession(
        history=FileHistory(str(_history())),
        completer=WordCompleter(lambda: names(lake), ignore_case=True, WORD=True),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation="      -> ",
        key_bindings=keys,
    )


def _history() -> Path:
    place = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(place) / "spark-trickle"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "history"
