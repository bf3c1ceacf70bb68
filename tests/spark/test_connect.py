"""Spark Connect: a local server, and no ``_jvm``, RDD or sparkContext anywhere in the package."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle.spark.sessions.java import use_java

SOURCE = Path(spark_trickle.__file__).parent


@pytest.mark.spark
def test_main_flows_on_a_connect_server(tmp_path):
    use_java()
    tests = str(Path(__file__).parents[1])
    paths = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment = {**os.environ, **own}
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("connect_flows.py")), str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env=environment,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-6000:]
    assert "flows done" in ran.stdout


def test_nothing_uses_what_connect_lacks():
    forbidden = {"_jvm", "_jsc", "_jdf", "_jsparkSession", "sparkContext", "rdd", "_sc"}
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in forbidden:
                found.append(f"{path.name}:{node.lineno} {node.attr}")
    assert found == []


def test_only_one_package_imports_pyspark():
    found = []
    for path in SOURCE.rglob("*.py"):
        if SOURCE / "spark" in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{path.name}: {name}" for name in names if name.split(".")[0] == "pyspark"]
    assert found == []


def test_connecting_and_small_writes_start_no_java(tmp_path):
    script = (
        "import os, sys, spark_trickle\n"
        "lake = spark_trickle.connect(sys.argv[1])\n"
        "lake.sql('CREATE TABLE t (a INT)')\n"
        "assert lake.sql('INSERT INTO t VALUES (1), (2)') == 2\n"
        "assert lake.append('t', [{'a': 3}]) == 1\n"
        "assert lake.change_summary('t', 0).rows == 3\n"
        "assert open(f'/proc/self/task/{os.getpid()}/children').read() == ''\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "l")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
