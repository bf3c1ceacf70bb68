"""Executors that do not see this process's disk: an error, never an answer of 0 rows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle.errors import ExecutionError
from spark_trickle.settings import Settings
from spark_trickle.spark.sessions.java import use_java
from support import objects
from support.hidden import may_mount

_JAVA = """#!/bin/sh
# Java in a mount namespace of its own, with an empty disk in the place of the lake's folder.
exec unshare -m sh -c 'mount -t tmpfs none "$HIDDEN" && exec "$REAL_JAVA/bin/java" "$@"' sh "$@"
"""


@pytest.mark.spark
def test_a_spark_that_sees_another_disk(tmp_path):
    hidden = tmp_path / "data"
    hidden.mkdir()
    if not may_mount(hidden):
        pytest.skip("this user may not mount a disk of its own (unshare -m)")
    use_java()
    real = os.environ.get("JAVA_HOME") or Path(shutil.which("java") or "").resolve().parents[1]
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_JAVA)
    java.chmod(0o755)
    environment = dict(
        os.environ,
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
        JAVA_HOME=str(java.parents[1]),
        REAL_JAVA=str(real),
        HIDDEN=str(hidden),
    )
    ran = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("hidden_flows.py")),
            str(tmp_path),
            str(hidden),
        ],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env=environment,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-6000:]
    assert "flows done" in ran.stdout


@pytest.mark.spark
@pytest.mark.objects
def test_a_spark_that_cannot_reach_the_store(tmp_path, spark):
    """Without hadoop-aws: told at the first use, and nothing is left in the store."""
    with objects.server() as storage:
        settings = Settings(inline_row_limit=10, storage=storage)
        place = f"s3://{objects.BUCKET}/lake"
        with spark_trickle.connect(
            tmp_path, data_path=place, spark=spark, settings=settings
        ) as lake:
            lake.sql("CREATE TABLE t (a BIGINT)")
            lake.sql("INSERT INTO t VALUES (1), (2)")
            with pytest.raises(ExecutionError, match="does not see the files in s3://") as caught:
                lake.sql("INSERT INTO t SELECT id FROM range(100)")
            assert "hadoop-aws" in str(caught.value.hint)
            assert lake._catalog.files.list(lake._catalog.data_path) == []
            assert lake.version == 2
