"""Commands that need no Spark, by running them: answers, exit codes, places, terminals and pipes."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle.cli.opening import Place, place
from spark_trickle.errors import UserError
from support.command import TRICKLE, environment, in_terminal, run

NAME = "a_rather_long_name_of_a_table"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    with spark_trickle.connect(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE orders (id BIGINT NOT NULL, customer STRING, PRIMARY KEY (id))")
        lake.sql(f"CREATE TABLE {NAME} (words STRING DEFAULT 'NULL')")
    return tmp_path


def test_help_and_version(tmp_path: Path) -> None:
    shown = run("--help", cwd=tmp_path)
    assert shown.code == 0
    for command in [
        "init",
        "sql",
        "shell",
        "refresh",
        "status",
        "history",
        "explain",
        "verify",
        "graph",
        "repair",
        "compact",
        "expire",
        "doctor",
        "demo",
    ]:
        assert re.search(rf"\b{command}\b", shown.out), command
    version = run("--version", cwd=tmp_path)
    assert (version.code, version.out) == (0, f"spark-trickle {spark_trickle.__version__}\n")


def test_a_lake_is_made_only_when_told_to(tmp_path: Path) -> None:
    for words in (["sql", "SHOW TABLES"], ["doctor"]):
        ran = run(*words, "--lake", "lkae", cwd=tmp_path)
        assert ran.code == 1
        assert "there is no lake in" in ran.out + ran.err
        assert "trickle init" in ran.out + ran.err
    assert run("init", "--lake", "s3://bucket/x", cwd=tmp_path).code == 1
    assert os.listdir(tmp_path) == []
    made = run("init", "--lake", "mine", cwd=tmp_path)
    assert (made.code, made.out) == (0, "made a lake in mine, version 0\n")
    assert run("init", "--lake", "mine", cwd=tmp_path).out.startswith("there is already a lake")
    assert os.listdir(tmp_path) == ["mine"]


def test_where_the_lake_is_named(here: Path) -> None:
    inner = here / "deep" / "er"
    inner.mkdir(parents=True)
    (here / "trickle.toml").write_text('lake = "lake"\n')
    assert "orders" in run("sql", "SHOW TABLES", cwd=inner).out, "from the file, above"
    run("init", "--lake", "other", cwd=here)
    shown = run("sql", "SHOW TABLES", cwd=here, TRICKLE_LAKE="other")
    assert "orders" not in shown.out, "the variable goes before the file"
    shown = run("sql", "SHOW TABLES", "--lake", "lake", cwd=here, TRICKLE_LAKE="other")
    assert "orders" in shown.out, "the option goes before both"
    (here / "trickle.toml").write_text('lak = "lake"\n')
    bad = run("status", cwd=here)
    assert bad.code == 1
    assert "lak" in bad.err


def test_the_file_says_how_to_reach_storage_and_spark(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRICKLE_LAKE", raising=False)
    file = tmp_path / "trickle.toml"
    file.write_text(
        'lake = "postgresql://host/db"\ndata_path = "s3://bucket/lake"\n'
        '[storage]\nendpoint = "http://127.0.0.1:1"\n[spark]\n"spark.master" = "spark://host:7077"\n'
    )
    found = place(None, None)
    assert (found.location, found.data_path) == ("postgresql://host/db", "s3://bucket/lake")
    assert found.settings.storage == {"endpoint": "http://127.0.0.1:1"}
    assert found.settings.spark == {"spark.master": "spark://host:7077"}
    assert place(None, "s3://other/x").data_path == "s3://other/x"
    assert place("elsewhere", None) == Place("elsewhere"), "the file is about the lake it names"
    for wrong in ("[spark]\ncores = 2", 'spark = "x"', "[park]\nx = 'y'", "data_path = 1"):
        file.write_text(f'lake = "lake"\n{wrong}\n')
        with pytest.raises(UserError, match=r"trickle\.toml: "):
            place(None, None)


def test_scripts_by_argument_file_and_pipe(here: Path) -> None:
    script = "INSERT INTO orders VALUES (1, 'a;b'); -- two; of them\nDESCRIBE orders;"
    (here / "s.sql").write_text(script)
    by_file = run("sql", "-f", "s.sql", cwd=here)
    assert by_file.code == 0, by_file.err
    assert by_file.out.startswith("1 row\ncol_name")
    assert run("sql", cwd=here, stdin=script).out == by_file.out
    assert run("sql", script, cwd=here).out == by_file.out
    assert run("sql", "-f", "none.sql", cwd=here).code == 1
    stopped = run("sql", "SHOW TABLES; SHOW TABELS; DROP TABLE orders", cwd=here)
    assert stopped.code == 1
    assert "^^^^^^" in stopped.err
    assert "orders" in run("sql", "SHOW TABLES", cwd=here).out, "nothing after an error is run"


def test_formats_read_back(here: Path) -> None:
    words = ("sql", "DESCRIBE orders", "--format")
    by_json = json.loads(run(*words, "json", cwd=here).out)
    assert [row["col_name"] for row in by_json] == ["id", "customer"]
    assert by_json[0]["default"] is None
    lines = run(*words, "jsonl", cwd=here).out.splitlines()
    assert [json.loads(line) for line in lines] == by_json
    table = list(csv.DictReader(io.StringIO(run(*words, "csv", cwd=here).out)))
    assert [row["data_type"] for row in table] == ["bigint", "string"]
    marked = run(*words, "markdown", cwd=here).out.splitlines()
    assert marked[1].replace(" ", "").strip("|").split("|") == ["---"] * 6
    ran = run(*words, "json", "--output", "out.json", cwd=here)
    assert (ran.code, ran.out) == (0, "")
    assert json.loads((here / "out.json").read_text()) == by_json
    assert run(*words, "json", "--output", "no/such/folder.json", cwd=here).code == 1
    assert run(*words, "xml", cwd=here).code == 2


def test_pipes_get_plain_text(here: Path) -> None:
    for words in (["sql", "SHOW TABLES"], ["status"]):
        ran = run(*words, cwd=here)
        assert ran.code == 0, ran.err
        assert "\x1b" not in ran.out + ran.err
        assert "…" not in ran.out
    bad = run("sql", "SHOW TABELS", cwd=here)
    assert "\x1b" not in bad.err
    assert "Traceback" not in bad.err


@pytest.mark.parametrize("columns", [60, 200])
def test_names_are_never_cut(here: Path, columns: int) -> None:
    shown = in_terminal("sql", f"DESCRIBE {NAME}; SHOW TABLES", cwd=here, columns=columns)
    assert shown.code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.out)
    assert NAME in plain
    assert "…" not in plain
    assert max(len(line) for line in plain.splitlines()) <= columns
    assert "\x1b[" in shown.out, "a terminal has colours"


def test_nobody_reads(here: Path) -> None:
    process = subprocess.Popen(
        [*TRICKLE, "sql", "SHOW TABLES;" * 3000],
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    told = process.stderr.read()
    assert process.wait(timeout=120) == 141
    assert told == b""


def test_explain_graph_and_upkeep_start_no_spark(here: Path) -> None:
    nowhere = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    query = "SELECT customer, count(*) AS n FROM orders GROUP BY customer"
    told = run("explain", query, "--stage", "verdict", cwd=here, **nowhere)
    assert (told.code, told.out.splitlines()[0]) == (0, "Incremental")
    for words in (["graph", "--mermaid"], ["history"], ["compact"], ["expire"]):
        ran = run(*words, cwd=here, **nowhere)
        assert ran.code == 0, ran.err


def test_doctor_says_what_is_wrong(here: Path) -> None:
    well = run("doctor", cwd=here)
    assert well.code == 0, well.out
    for what in ("versions", "java", "lake", "catalog", "storage", "disk", "stream tables"):
        assert f"ok   {what}: " in well.out
    (here / "lake" / "catalog.sqlite").write_bytes(b"not a database" * 100)
    ill = run("doctor", cwd=here)
    assert ill.code == 1
    assert "BAD  lake: " in ill.out


def test_wrong_use(here: Path) -> None:
    for words, code in (
        (["refresh"], 1),
        (["refresh", "nope"], 1),
        (["repair", "nope"], 1),
        (["explain", "nope"], 1),
        (["sql", "--nope"], 2),
    ):
        ran = run(*words, cwd=here)
        assert ran.code == code, (words, ran.out, ran.err)
        assert ran.err
        assert "Traceback" not in ran.err
