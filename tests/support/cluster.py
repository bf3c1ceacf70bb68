"""A Spark standalone cluster of the test's own: a master and workers, each a process on the loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_trickle.spark.sessions.java import use_java

from .postgres import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE = 60.0


def _hadoop_aws() -> str:
    """The package that reads s3a://, of the version that Spark's own Hadoop has."""
    home = Path(importlib.util.find_spec("pyspark").submodule_search_locations[0])
    (jar,) = home.glob("jars/hadoop-client-api-*.jar")
    return f"org.apache.hadoop:hadoop-aws:{jar.stem.removeprefix('hadoop-client-api-')}"


HADOOP_AWS = _hadoop_aws()


class Cluster:
    """The processes; each leads a group, to which a worker's executors belong too."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._port, self._ui = free_port(), free_port()
        self._all: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://127.0.0.1:{self._port}"
        self._start("master", ["master.Master", *self._listen(self._port, self._ui)])
        self._until(lambda: self._alive() is not None, "the master did not start")

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        """Those that live, the oldest first."""
        return self._all[1:]

    def worker(self, blind_to: Path | None = None) -> subprocess.Popen[bytes]:
        """One core and 1 GB more. ``blind_to``: it sees an empty disk in place of this folder."""
        before = self._alive() or 0
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / "work")]
        command = ["worker.Worker", *self._listen(0, 0), *size, self.url]
        started = self._start(f"worker{len(self._all)}", command, blind_to)
        self._until(lambda: (self._alive() or 0) > before, "the worker did not start")
        return started

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """As when its machine is gone: the worker and its executors at once."""
        self._all.remove(process)
        before = self._alive() or 0
        _end(process)
        self._until(lambda: (self._alive() or 0) < before, "the master knows a dead worker")

    def close(self) -> None:
        while self._all:
            _end(self._all.pop())

    @staticmethod
    def _listen(port: int, ui: int) -> list[str]:
        return ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui)]

    def _start(
        self, name: str, command: Sequence[str], blind_to: Path | None = None
    ) -> subprocess.Popen[bytes]:
        import pyspark

        use_java()
        home = pyspark.__path__[0]
        words = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{command[0]}", *command[1:]]
        if blind_to is not None:
            mount = f"mount -t tmpfs none {shlex.quote(str(blind_to))}"
            words = ["unshare", "-m", "sh", "-c", f"{mount} && exec {shlex.join(words)}"]
        environment = dict(
            os.environ,
            SPARK_HOME=home,
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_DAEMON_MEMORY="256m",
            SPARK_LOCAL_DIRS=str(self._folder / "local"),
        )
        with (self._folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                words, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._all.append(process)
        return process

    def _alive(self) -> int | None:
        """How many workers the master knows; None: it does not answer yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ui}/json/", timeout=5) as page:
                return int(json.load(page)["aliveworkers"])
        except OSError:
            return None

    def _until(self, done: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not done():
            ended = [process.args for process in self._all if process.poll() is not None]
            assert not ended, f"{otherwise}: {self._logs()}"
            assert time.monotonic() < deadline, f"{otherwise}: {self._logs()}"
            time.sleep(0.1)

    def _logs(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in sorted(self._folder.glob("*.log")))


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    made = Cluster(folder)
    try:
        for _ in range(workers):
            made.worker()
        yield made
    finally:
        made.close()


@contextmanager
def session(
    url: str, cores: int = 2, extra: dict[str, str] | None = None
) -> Iterator[SparkSession]:
    """A driver in this process; its first query waits until all executors are there."""
    from spark_trickle.spark.sessions.session import start_session

    found = start_session(
        "UTC",
        {
            "spark.master": url,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.executor.memory": "1g",
            "spark.executor.cores": "1",
            "spark.cores.max": str(cores),
            "spark.shuffle.io.retryWait": "1s",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.sql.shuffle.partitions": "2",
            **(extra or {}),
        },
    )
    try:
        yield found
    finally:
        found.stop()
        _forget_java()


def _forget_java() -> None:
    """The next driver is a JVM of its own: packages are put on the class path when one starts."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)


class Striking:
    """Calls ``strike`` once, as soon as tasks of the n-th stage from now are at work."""

    def __init__(self, spark: SparkSession, stage: int, strike: Callable[[], object]) -> None:
        self._tracker: Any = spark.sparkContext.statusTracker()
        self._stage, self._strike = stage, strike
        self._over = threading.Event()
        self.struck = False
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Striking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        seen: set[int] = set()
        while not self._over.is_set():
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                if info is not None and info.numActiveTasks > 0:
                    seen.add(stage)
            if len(seen) >= self._stage:
                self._strike()
                self.struck = True
                return
            time.sleep(0.002)
