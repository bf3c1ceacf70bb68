"""The board and the alert rules in deploy/ name metrics, labels and values that /metrics has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from spark_trickle import Lake
from spark_trickle.maintain.records.history import RefreshReport
from support.served import make, refreshed, samples, serving

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = re.compile(r"\btrickle_\w+")
WITH_LABELS = re.compile(r"\b(trickle_\w+)\{([^}]*)\}")


def board() -> list[str]:
    read = json.loads((DEPLOY / "grafana.json").read_text())
    places = [tuple(panel["gridPos"].values()) for panel in read["panels"]]
    assert len(set(places)) == len(places)
    found = [target["expr"] for panel in read["panels"] for target in panel["targets"]]
    return [*found, *(v["query"] for v in read["templating"]["list"] if v["type"] == "query")]


def rules() -> list[str]:
    read = yaml.safe_load((DEPLOY / "prometheus.rules.yml").read_text())
    found = [rule for group in read["groups"] for rule in group["rules"]]
    assert all(rule["annotations"].keys() == {"summary", "action"} for rule in found)
    assert len({rule["alert"] for rule in found}) == len(found)
    return [rule["expr"] for rule in found]


@pytest.mark.parametrize("texts", [board(), rules()], ids=["grafana", "prometheus"])
def test_every_name_is_one_of_ours(dry_lake: Lake, texts: list[str]) -> None:
    for status in ("ACTIVE", "SUSPENDED", "ERROR"):
        (stream,) = make(dry_lake, [status.lower()], status=status)
        failed = RefreshReport(stream.name, "ERROR", "x", started_at=1e9)
        full = RefreshReport(stream.name, "FULL", "HISTORY_EXPIRED: gone", "AUTO")
        refreshed(dry_lake, stream, failed, full)
    with serving(dry_lake) as client:
        known: dict[str, dict[str, set[str]]] = {}
        for name, labels in samples(client):
            values = known.setdefault(name, {})
            for label, value in labels:
                values.setdefault(label, set()).add(value)
    used = {name for text in texts for name in NAME.findall(text)}
    assert len(used) > 5
    assert used <= known.keys()
    for text in texts:
        for name, inside in WITH_LABELS.findall(text):
            for label, sign, value in re.findall(r'(\w+)(!?=~?)"([^"]*)"', inside):
                assert label in known[name], (name, label)
                if sign in ("=", "!="):
                    assert value in known[name][label], (name, label, value)
