"""Alerts, health, hooks and advice, without Spark."""

from __future__ import annotations

import http.server
import json
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spark_trickle import Lake
from spark_trickle.errors import UserError
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.schedule.leases import Holder, Lease
from spark_trickle.maintain.watch.alerts import Alert, alerts, health
from spark_trickle.maintain.watch.facts import Facts, Observed
from spark_trickle.maintain.watch.hooks import Announcer
from spark_trickle.maintain.watch.recommend import recommend
from spark_trickle.storage.records import Table

STREAM = StreamTable("u", "t", "SELECT 1", populated=True)
FACTS = Facts(STREAM, Lease("u"), 60.0, None, 0.0, 0, None)
DAEMON = Holder("d", "elsewhere", 1, 1, daemon=True)


def report(mode: str, reason: str, asked: str = "AUTO", **more: object) -> RefreshReport:
    return RefreshReport("t", mode, reason, asked, **more)  # type: ignore[arg-type]


def stream(**more: object) -> Facts:
    return replace(FACTS, stream=replace(STREAM, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        (FACTS, []),
        (replace(FACTS, staleness=119.0, pending_versions=1), []),
        (replace(FACTS, staleness=121.0, pending_versions=1), ["STALE"]),
        (replace(FACTS, staleness=9e9, pending_versions=1, target=None), []),
        (stream(status="SUSPENDED", last_error="three times"), ["SUSPENDED"]),
        (stream(status="ERROR", last_error="a breach"), ["QUARANTINED"]),
        (replace(FACTS, lease=Lease("u", failures=2)), ["FAILING"]),
        (replace(FACTS, lease=Lease("u", failures=2, generation=7)), []),
        (replace(FACTS, lease=Lease("u", seconds=61.0)), ["FALLING_BEHIND"]),
        (replace(FACTS, newest=report("FULL", "INITIALIZE: first")), []),
        (replace(FACTS, newest=report("FULL", "ASKED: FULL", "FULL")), []),
        (replace(FACTS, newest=report("FULL", "HISTORY_EXPIRED: gone")), ["FULL_UNDER_AUTO"]),
        (replace(FACTS, newest=report("TOPK", "CHEAPER: so")), []),
        (replace(FACTS, newest=report("TOPK", "RESERVE_DRY: used up")), ["RESERVE_REFILLED"]),
    ],
)
def test_alerts(facts: Facts, kinds: list[str]) -> None:
    state = Observed((facts,), (DAEMON,), 1)
    found = alerts(state)
    assert [alert.kind for alert in found] == kinds
    assert all(alert.action and alert.name == "t" for alert in found)
    worst = health(state)[0]
    critical = {"SUSPENDED", "QUARANTINED"} & set(kinds)
    assert worst.status == ("CRITICAL" if critical else "WARNING" if kinds else "OK")


def test_waiting_changes_without_a_scheduler_are_told() -> None:
    state = Observed((replace(FACTS, staleness=1.0, pending_versions=1),), (), 1)
    assert [h.reason.split(":")[0] for h in health(state)] == ["NO_SCHEDULER"]
    assert health(replace(state, holders=(DAEMON,)))[0].status == "OK"


ALERT = Alert("STALE", "t", "WARNING", "late", "look")


def test_an_alert_is_handed_over_when_it_begins_to_all_kinds_of_hooks(tmp_path: Path) -> None:
    posted: list[dict[str, str]] = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    called: list[Alert] = []
    out = tmp_path / "out.json"
    code = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read() + chr(10))"

    def broken(_: Alert) -> None:
        raise RuntimeError("a hook that fails stops nothing")

    url = f"http://127.0.0.1:{server.server_port}/alerts"
    announcer = Announcer([broken, called.append, url, [sys.executable, "-c", code]])
    assert announcer.announce([ALERT]) == [ALERT]
    assert announcer.announce([ALERT]) == [], "told already"
    assert announcer.announce([]) == []
    assert announcer.announce([ALERT]) == [ALERT], "it came back"
    server.shutdown()
    assert called == [ALERT, ALERT]
    assert posted == [ALERT.to_dict()] * 2
    assert [json.loads(line) for line in out.read_text().splitlines()] == posted


def test_what_is_no_hook() -> None:
    with pytest.raises(UserError, match="webhook"):
        Announcer("ftp://somewhere")


def test_advice_comes_with_figures() -> None:
    slow = [report("DIFFERENTIAL", "", seconds=9.0, delta_rows={"a": 1}, rows_read=900)] * 3
    full = [report("FULL", "", seconds=1.0)] * 3
    by_delta = replace(STREAM, refresh_mode="DIFFERENTIAL")
    found = {r.about: r for r in recommend(by_delta, [*slow, *full], 5.0, [Table(1, "u", "a", ())])}
    assert found.keys() == {"refresh_mode", "schedule", "cluster_by"}
    assert "9.000 s" in found["refresh_mode"].because
    assert "1.000 s" in found["refresh_mode"].because
    assert "interval is 5 s" in found["schedule"].because
    assert "900 rows" in found["cluster_by"].because
    assert recommend(by_delta, full, None, []) == []
    quick = [report("DIFFERENTIAL", "", seconds=0.1)] * 3
    in_full = replace(STREAM, refresh_mode="FULL")
    assert [r.about for r in recommend(in_full, [*quick, *full], None, [])] == ["refresh_mode"]
    idle = [report("NO_DATA", "")] * 40
    assert [r.about for r in recommend(in_full, idle, 5.0, [])] == ["schedule"]


def test_an_empty_lake_is_well(dry_lake: Lake) -> None:
    assert [h.status for h in dry_lake.health()] == ["OK"]
    assert dry_lake.alerts() == []
    assert dry_lake.graph() == []


def test_what_the_loop_begins_last_is_waited_for_too(
    dry_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = dry_lake.scheduler()
    begun, told = threading.Event(), []

    def step() -> None:
        begun.set()
        scheduler._over.wait()
        time.sleep(0.1)  # stop() waits by now
        scheduler._spawn(lambda: (time.sleep(0.2), told.append("done")), "late")

    monkeypatch.setattr(scheduler, "_step", step)
    scheduler.start()
    assert begun.wait(10)
    assert scheduler.stop(grace=30), "nothing was abandoned"
    assert told == ["done"]
