"""Medians, means, the table and the picture of a benchmark, from made-up measurements."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from spark_trickle.tpch import chart, results
from spark_trickle.tpch.bench import BenchOptions, Measurement


def measurement(query: int, cycle: int, mode: str, seconds: float) -> Measurement:
    ran = {"AUTO": "DIFFERENTIAL"}.get(mode, mode)
    return Measurement(query, cycle, mode, ran, seconds, delta_rows=10, bytes_read=int(seconds))


MEASURED = [
    measurement(query, cycle, mode, seconds * cycle)
    for query, full in ((1, 8.0), (3, 4.0))
    for cycle in (1, 2, 3)
    for mode, seconds in (
        ("FULL", full),
        ("DIFFERENTIAL", 2.0),
        ("AUTO", 2.5),
        ("QUERY", full / 2),
        ("PLAIN", full / 4),
        ("DUCKDB", 0.25 * full),
    )
]


def test_lines_hold_medians_and_ratios() -> None:
    first, second = results.lines(MEASURED)
    assert (first.query, first.full, first.differential, first.auto) == (1, 16.0, 4.0, 5.0)
    assert (first.ratio, first.bare_ratio, first.effective_mode) == (4.0, 2.0, "DIFFERENTIAL")
    assert second.ratio == 2.0
    assert second.auto_ratio == pytest.approx(1.6)


def test_a_cycle_that_ran_in_full_is_told() -> None:
    silent = Measurement(1, 2, "DIFFERENTIAL", "FULL", 1.0)
    assert results.lines([*MEASURED, silent])[0].effective_mode == "DIFFERENTIAL/FULL"


def test_the_mean_is_geometric() -> None:
    assert results.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert "geometric mean of FULL / DIFFERENTIAL: 2.83x" in results.table(results.lines(MEASURED))


def test_the_opponents_come_first() -> None:
    first, second = results.lines(MEASURED)
    assert (first.plain, first.full_to_plain, first.plain_ratio) == (4.0, 4.0, 1.0)
    assert (second.plain_ratio, second.duckdb_ratio) == (0.5, 0.5)
    text = results.table([first, second])
    assert text.split()[:3] == ["query", "plain", "s"]
    assert "geometric mean of FULL / plain Spark: 4.00x (from 4.00 to 4.00)" in text
    assert "geometric mean of plain Spark / DIFFERENTIAL: 0.71x (from 0.50 to 1.00)" in text
    assert "DIFFERENTIAL is faster than DuckDB on 0 of 2 queries" in text


def test_an_opponent_that_was_not_there_leaves_its_column_empty() -> None:
    without = [m for m in MEASURED if m.mode != "DUCKDB"]
    (first, _) = results.lines(without)
    assert first.duckdb is None
    assert "DuckDB /" not in results.table([first])


def test_the_record_keeps_every_measurement() -> None:
    kept = json.loads(results.record(BenchOptions(numbers=(1, 3)), MEASURED))
    assert len(kept["measurements"]) == len(MEASURED)
    assert kept["geometric_means"]["FULL / DIFFERENTIAL"] == pytest.approx(8**0.5)
    assert [query["query"] for query in kept["queries"]] == [1, 3]


def test_the_picture_is_xml_with_two_bars_for_each_query() -> None:
    picture = ET.fromstring(chart.svg("a < b", results.lines(MEASURED)))
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "q01", "q03", "plain Spark", "1.0x", "0.5x"} <= set(texts)
    bars = [r for r in picture.iter("{http://www.w3.org/2000/svg}rect") if r.get("rx")]
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert len(widths) == 4
    assert widths[0] == widths[1] == widths[3] > widths[2]


def test_without_full_the_rest_is_told() -> None:
    without = [m for m in MEASURED if m.mode != "FULL"]
    (first, _) = found = results.lines(without)
    assert (first.full, first.ratio, first.full_to_plain) == (None, None, None)
    assert "plain Spark / DIFFERENTIAL" in results.means(found)
    assert "FULL /" not in results.table(found)
