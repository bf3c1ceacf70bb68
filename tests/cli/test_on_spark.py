"""Commands that need Spark, by running them: exit codes, rows read back, Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

import spark_trickle
from support.command import TRICKLE, environment, run

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    with spark_trickle.connect(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (a INT, w STRING)")
        lake.sql("INSERT INTO t VALUES (1, 'NULL'), (2, NULL), (3, '')")
    return tmp_path


def test_rows_and_refreshes(here: Path) -> None:
    made = run(
        "sql",
        "CREATE STREAM TABLE good AS SELECT a FROM t; CREATE STREAM TABLE bad AS SELECT 6 / a AS q FROM t",
        cwd=here,
    )
    assert made.code == 0, made.err
    assert "FULL" in made.out
    by_csv = run("sql", "SELECT w, a FROM t ORDER BY a", "--format", "csv", cwd=here)
    assert by_csv.out.splitlines() == ["w,a", "NULL,1", ",2", '"",3']
    assert list(csv.reader(io.StringIO(by_csv.out)))[1] == ["NULL", "1"]
    told = run("verify", "good", "bad", cwd=here)
    assert told.code == 0, told.err
    run("sql", "INSERT INTO t VALUES (0, 'x')", cwd=here)
    ran = run("refresh", "--all", "--format", "json", cwd=here)
    assert ran.code == 1, "one of them divides by zero"
    modes = {row["name"]: row["effective_mode"] for row in json.loads(ran.out)}
    assert modes["bad"] == "ERROR"
    assert modes["good"] in ("DIFFERENTIAL", "FULL")
    assert "java" not in (ran.out + ran.err).lower()
    assert run("refresh", "good", cwd=here).code == 0
    assert "NO_DATA" in run("history", "good", cwd=here).out


def test_warnings_name_no_place_in_the_code(here: Path) -> None:
    text = (
        "CREATE STREAM TABLE s REFRESH MODE IMMEDIATE AS SELECT a FROM t;"
        "ALTER STREAM TABLE s SUSPEND; SELECT * FROM s"
    )
    ran = run("sql", text, cwd=here)
    assert ran.code == 0, ran.err
    told = "it does not follow its sources; run ALTER STREAM TABLE s RESUME"
    assert f"warning: stream table s is suspended: {told}" in ran.err.splitlines()


def test_odd_names_are_refreshed_and_drawn(here: Path) -> None:
    text = "CREATE STREAM TABLE `a, b+` AS SELECT a FROM t; ALTER TABLE t RENAME TO `s one.x`"
    assert run("sql", text, cwd=here).code == 0
    for meant in ("`s one.x`+", "`a, b+`", "+`a, b+`"):
        ran = run("refresh", meant, "--format", "json", cwd=here)
        assert [row["name"] for row in json.loads(ran.out)] == ["a, b+"], ran.err
    assert run("graph", cwd=here).out.split("\n")[:2] == ["`s one.x`", "  a, b+"]


def test_ctrl_c(here: Path) -> None:
    process = subprocess.Popen(
        [*TRICKLE, "sql", "SELECT max(id * 7 % 7919) FROM range(0, 100000000000000)"],
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    time.sleep(25)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 130, (out, err)
    assert out == ""
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err


def test_bench(tmp_path: Path) -> None:
    options = [
        "--sf",
        "0.01",
        "--cycles",
        "1",
        "--queries",
        "6,22",
        "--memory",
        "1g",
        "--out",
        "found",
    ]
    ran = run("bench", "tpch", *options, cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    (kept,) = (tmp_path / "found").glob("*.json")
    measured = json.loads(kept.read_text())["measurements"]
    assert {(m["query"], m["mode"]) for m in measured} >= {
        (number, mode)
        for number in (6, 22)
        for mode in ("DIFFERENTIAL", "FULL", "AUTO", "PLAIN", "DUCKDB")
    }
    assert all(m["seconds"] > 0 for m in measured)
    table = kept.with_suffix(".txt").read_text()
    assert all(name in table and name in ran.out for name in ("q06", "q22"))
    assert kept.with_suffix(".svg").read_text().startswith("<svg")
    assert {path.name for path in tmp_path.iterdir()} == {"found", "bench"}, "tables are kept there"
    wrong = run("bench", "tpch", "--queries", "23", cwd=tmp_path)
    assert wrong.code != 0
    assert "give numbers from 1 to 22" in wrong.err
