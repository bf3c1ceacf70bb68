"""Numbers from outside as a column's decimals, and decimals as its doubles.

Law: a whole number is itself, and a float is the decimal that its shortest text writes, rounded half up
to the column's scale, as Spark casts it. Arrow would round its binary value: 1.005 to 1.00. A decimal is
the double next to it; Arrow's may be one beside.
"""

from __future__ import annotations

from decimal import MAX_PREC, ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

_LARGEST = 20
"""Digits of the largest whole number that Arrow has."""
_EXACT = Context(prec=MAX_PREC)


def as_decimals(array: pa.ChunkedArray, scale: int) -> pa.ChunkedArray:
    """Whole numbers and floats as decimals of a scale, wide enough for all; ArrowInvalid if one is none."""
    if pa.types.is_integer(array.type):
        return array.cast(pa.decimal256(_LARGEST + scale, scale))
    if pa.types.is_floating(array.type):
        known = {value: _rounded(value, scale) for value in array.unique().to_pylist()}
        values = [known[value] for value in array.to_pylist()]
        return pa.chunked_array([pa.array(values, pa.decimal256(76, scale))])
    return array


def as_doubles(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as doubles."""
    if not pa.types.is_decimal(array.type):
        return array
    values = [None if value is None else float(value) for value in array.to_pylist()]
    return pa.chunked_array([pa.array(values, pa.float64())])


def _rounded(value: float | None, scale: int) -> Decimal | None:
    if value is None:
        return None
    exact = Decimal(repr(value))
    if not exact.is_finite():
        raise pa.ArrowInvalid(f"{value} is not a decimal")
    return exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
