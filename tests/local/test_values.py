"""Plain values for the catalog are what Arrow would have made of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from spark_trickle.ir.exact import ExactKind, ExactType
from spark_trickle.local.values import to_arrow, to_plain
from spark_trickle.storage.files.values import plain

WHOLE = {ExactKind.TINYINT: 7, ExactKind.SMALLINT: 15, ExactKind.INT: 31, ExactKind.BIGINT: 63}
DIGITS = 10**38 - 1
VALUES: list[tuple[ExactType, list[Any]]] = [
    *((ExactType(k), [None, 0, 1, -(1 << n), (1 << n) - 1]) for k, n in WHOLE.items()),
    *(
        (ExactType(ExactKind.DECIMAL, p, s), [None, 0, -1, 10, 100, 10**p - 1, 1 - 10**p])
        for p, s in ((1, 0), (9, 2), (18, 18), (19, 0), (20, 7), (38, 0), (38, 38))
    ),
    (ExactType(ExactKind.BOOLEAN), [None, True, False]),
    (ExactType(ExactKind.STRING), [None, "", " a ", "\0", "ß\U0001f600", "1E5", "x" * 300]),
    (ExactType(ExactKind.BINARY), [None, b"", b"\x00\xff"]),
]


@pytest.mark.parametrize(("type", "values"), VALUES, ids=lambda v: str(v)[:40])
def test_plain_values_are_arrows(type: ExactType, values: list[Any]) -> None:
    known = to_plain(values, type)
    assert known is not None
    expected = plain(to_arrow(values, type))
    # Also as they are written: 1.00 and 1.0 are equal, and not the same text.
    assert [(v.__class__, str(v)) for v in known] == [(v.__class__, str(v)) for v in expected]


@pytest.mark.parametrize(
    "kind", [ExactKind.DATE, ExactKind.TIMESTAMP, ExactKind.TIMESTAMP_NTZ, ExactKind.DOUBLE]
)
def test_what_has_a_calendar_or_two_zeros_is_left_to_arrow(kind: ExactKind) -> None:
    assert to_plain([None, 1], ExactType(kind)) is None


def test_the_widest_decimal_is_exact() -> None:
    (value,) = to_plain([-DIGITS], ExactType(ExactKind.DECIMAL, 38, 3)) or []
    assert format(value, "f") == f"-{str(DIGITS)[:-3]}.{str(DIGITS)[-3:]}"
    assert isinstance(value, Decimal)
