"""Columns in memory: the same rows as from the file, no more bytes than allowed, honest counts."""

from __future__ import annotations

import threading
from decimal import Context, Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_trickle.storage.read.column_cache import ColumnCache, Taken

GROUPS, ROWS = 6, 100
NAMES = ("number", "text", "pair", "list")


def write(path: Path, start: int = 0) -> str:
    numbers = range(start, start + GROUPS * ROWS)
    rows = pa.table(
        {
            # Too large to be kept in fewer bytes.
            "number": pa.array([n + (1 << 40) for n in numbers], pa.int64()),
            "text": [f"text {n}" if n % 7 else None for n in numbers],
            "pair": [{"a": n, "b": str(n)} for n in numbers],
            "list": [[n] * (n % 3) for n in numbers],
        }
    )
    pq.write_table(rows, path, row_group_size=ROWS)
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("columns")
    return [write(folder / f"{n}.parquet", n * 1_000) for n in range(3)]


reads = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sets(st.integers(0, GROUPS - 1), min_size=1).map(sorted),
        st.permutations(NAMES).flatmap(lambda names: st.just(names[:2])),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(reads=reads, limit=st.sampled_from([0, 4_000, 20_000, 1 << 30]))
def test_what_is_held_is_what_the_file_says(
    files: list[str], reads: list[tuple[int, list[int], list[str]]], limit: int
) -> None:
    cache = ColumnCache(limit)
    for number, groups, names in reads:
        with pq.ParquetFile(files[number]) as source:
            rows = cache.read(files[number], source, groups, names)
            assert rows.equals(source.read_row_groups(groups, names).select(names))
        assert cache.bytes <= limit
        assert cache.bytes == sum(read.bytes for read in cache._reads.values())


HALF, WORD = 10**9 - 1, 10**18 - 1


@pytest.mark.parametrize(
    ("type", "most", "bits"),
    [
        *((pa.decimal128(*digits), HALF, 32) for digits in ((9, 0), (10, 2), (18, 18), (12, 10))),
        *((pa.decimal128(18, scale), most, 64) for scale in (0, 18) for most in (HALF + 1, WORD)),
        (pa.decimal128(4, 2), 9_999, 32),
        (pa.decimal128(19, 0), 1, 128),
        (pa.decimal128(38, 10), 10**38 - 1, 128),
        (pa.int64(), (1 << 31) - 1, 32),
        (pa.int64(), 1 << 31, 64),
        (pa.int32(), 5, 32),
        (pa.float64(), 5, 64),
    ],
)
def test_values_are_kept_in_as_few_bytes_as_they_need(
    tmp_path: Path, type: pa.DataType, most: int, bits: int
) -> None:
    """Whatever is read together: the second of three row groups has small values only."""
    values = [most, None, -most, 0, *[1, None, -1, 0], *[most, None, 7, most]]
    if pa.types.is_decimal(type):
        exact = Context(prec=60)
        values = [n if n is None else Decimal(n).scaleb(-type.scale, exact) for n in values]
    rows = pa.table({"n": pa.array(values, type), "none": pa.nulls(len(values), type)})
    path = str(tmp_path / "numbers.parquet")
    pq.write_table(rows, path, row_group_size=4)
    with pq.ParquetFile(path) as source:
        cache = ColumnCache(1 << 20)
        for groups in ([0], [1], [2], [0, 1, 2], [1, 2]):
            for name in rows.column_names:
                read = cache.read(path, source, groups, [name]).column(name)
                assert read.cast(type).equals(source.read_row_groups(groups, [name])[name])
                assert read.type.bit_width == bits or name == "none" or groups == [1]


def test_only_what_is_not_held_is_read(files: list[str]) -> None:
    cache = ColumnCache(1 << 30)
    with pq.ParquetFile(files[0]) as source:
        size = [source.metadata.row_group(g).column(0).total_compressed_size for g in range(GROUPS)]
        for groups, fresh in (([0, 1], [0, 1]), ([0, 1], []), ([1, 2, 3], [2, 3])):
            taken = Taken()
            cache.read(files[0], source, groups, ["number"], taken)
            assert taken.bytes == sum(size[group] for group in fresh)
        cache.resize(0)
        taken = Taken()
        cache.read(files[0], source, [0], ["number"], taken)
        assert (taken.bytes, cache.bytes) == (size[0], 0)


def test_what_was_used_longest_ago_goes_first(files: list[str]) -> None:
    with pq.ParquetFile(files[0]) as source:
        one = source.read_row_groups([0], ["number"]).nbytes
        cache = ColumnCache(2 * one)
        for groups in ([0], [1], [0], [2]):
            cache.read(files[0], source, groups, ["number"])
        taken = Taken()
        cache.read(files[0], source, [0], ["number"], taken)
        assert taken.bytes == 0, "used again after group 1"
        cache.read(files[0], source, [1], ["number"], taken)
        assert taken.bytes > 0


def test_threads_share_it(files: list[str]) -> None:
    cache = ColumnCache(10_000)
    wrong: list[str] = []

    def look(seed: int) -> None:
        for step in range(60):
            path = files[(seed + step) % 3]
            groups = [step % GROUPS, (step + seed) % GROUPS]
            with pq.ParquetFile(path) as source:
                rows = cache.read(path, source, groups, ["number", "text"])
                if not rows.equals(source.read_row_groups(groups, ["number", "text"])):
                    wrong.append(f"{path} {groups}")

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.bytes <= 10_000


def test_a_read_that_is_too_large_drives_nothing_out(files: list[str]) -> None:
    with pq.ParquetFile(files[0]) as source:
        cache = ColumnCache(2 * source.read_row_groups([0], ["number"]).nbytes)
        cache.read(files[0], source, [0], ["number"])
        cache.read(files[0], source, [1, 2, 3], ["number"])
        taken = Taken()
        cache.read(files[0], source, [0], ["number"], taken)
        assert taken.bytes == 0
