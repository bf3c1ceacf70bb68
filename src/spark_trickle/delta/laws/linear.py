"""D(f(x)) = f(D(x)) for scan, filter, project, generate, expand and negate; D(x + y) = D(x) + D(y)."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.delta.laws.change import Change
from spark_trickle.ir.nodes import Expand, Filter, Generate, Negate, Node, Project, Scan, UnionAll
from spark_trickle.ir.types import Side

Linear = Project | Filter | Generate | Expand | Negate


def delta_scan(node: Scan) -> Node:
    """The change feed of the source between the two versions."""
    return replace(node, side=Side.DELTA)


def delta_linear(node: Linear, input: Change) -> Node | None:
    """The operator over the delta: each row goes through it by itself, with its weight."""
    return None if input.delta is None else replace(node, input=input.delta)


def delta_union(node: UnionAll, inputs: tuple[Change, ...]) -> Node | None:
    """The deltas of the inputs that changed."""
    deltas = tuple(change.delta for change in inputs if change.delta is not None)
    return UnionAll(deltas, node.columns) if deltas else None
