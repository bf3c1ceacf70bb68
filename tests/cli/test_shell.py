"""``trickle shell`` in a pseudo-terminal: several lines, history, completion, errors, timing."""

from __future__ import annotations

from pathlib import Path

import pytest

import spark_trickle
from spark_trickle.cli.shell import complete, names
from support.command import Terminal, run


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("SHOW TABLES", False),
        ("SHOW TABLES;", True),
        ("SELECT ';", False),
        ("SELECT ';';", True),
        ("SELECT 1; -- and more", True),
        ("SELECT 1 /* ;", False),
        ("\\d", True),
        ("exit", True),
        ("INSERT INTO t\nVALUES (1);", True),
    ],
)
def test_when_enter_runs_a_text(text: str, whole: bool) -> None:
    assert complete(text) is whole


def test_names_that_are_completed(dry_lake: spark_trickle.Lake) -> None:
    dry_lake.sql(
        "CREATE TABLE orders (odd_column INT); CREATE SCHEMA s; CREATE TABLE s.inner (x INT)"
    )
    dry_lake.sql("CREATE VIEW looks AS SELECT odd_column FROM orders")
    assert {"orders", "odd_column", "s.inner", "looks", "SELECT"} <= set(names(dry_lake))


def test_a_shell_needs_a_terminal(tmp_path: Path) -> None:
    ran = run("shell", cwd=tmp_path, stdin="SHOW TABLES;")
    assert ran.code == 1
    assert "trickle sql" in ran.err


def test_a_session(tmp_path: Path) -> None:
    toolkit = pytest.importorskip("prompt_toolkit", reason="pip install -e . again")
    with spark_trickle.connect(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE a_long_name (id INT, words STRING)")
    source = str(Path(spark_trickle.__file__).parents[1])
    places = f"{source}:{Path(toolkit.__file__).parents[1]}"
    more = {"PYTHONPATH": places, "XDG_STATE_HOME": str(tmp_path / "state")}
    shell = Terminal("shell", cwd=tmp_path, **more)
    shell.waits_for("trickle>")
    shell.types("INSERT INTO a_l\t")
    shell.waits_for("ong_name")
    shell.types("\r")
    shell.waits_for("->")
    shell.types("VALUES (1, 'NULL'), (2, NULL);\r")
    shell.waits_for("2 rows")
    shell.waits_for("trickle>")
    shell.types("SHOW TABELS;\r")
    assert "error: " in shell.waits_for("expected here")
    shell.waits_for("trickle>")
    shell.types("DESCRIBE a_long_name;\r")
    assert "words" in shell.waits_for("(2 rows, ")
    shell.waits_for("trickle>")
    shell.types("half of a line\x03")
    shell.waits_for("trickle>")
    shell.types("\\timing\r")
    shell.waits_for("timing is off")
    shell.waits_for("trickle>")
    shell.types("\\q\r")
    assert shell.ends() == 0
    kept = (tmp_path / "state" / "spark-trickle" / "history").read_text()
    assert "INSERT INTO a_long_name" in kept
    again = Terminal("shell", cwd=tmp_path, **more)
    again.waits_for("trickle>")
    again.types("\x1b[A")
    again.waits_for("\\q")
    again.types("\x03")
    again.waits_for("trickle>")
    again.types("\x04")
    assert again.ends() == 0
