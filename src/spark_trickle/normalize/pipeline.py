"""The passes in their order. Each keeps the meaning of the plan and is checked after it ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_trickle.ir.check import check
from spark_trickle.ir.nodes import Node
from spark_trickle.normalize.extract_common import extract_common
from spark_trickle.normalize.flatten_joins import flatten_joins
from spark_trickle.normalize.merge import merge
from spark_trickle.normalize.outer_to_inner import outer_to_inner
from spark_trickle.normalize.prune_columns import prune_columns
from spark_trickle.normalize.push_filters import push_filters
from spark_trickle.normalize.simplify import simplify
from spark_trickle.normalize.split_distinct import split_distinct

Pass = Callable[[Node], Node]

PASSES: tuple[Pass, ...] = (
    simplify,
    extract_common,
    merge,
    # Filters reach outer joins before these are reduced, and reduced joins flatten further.
    push_filters,
    outer_to_inner,
    merge,
    flatten_joins,
    push_filters,
    simplify,
    merge,
    flatten_joins,
    prune_columns,
    split_distinct,
    merge,
    prune_columns,
)


@dataclass(frozen=True)
class Step:
    """What a pass made of the plan."""

    name: str
    plan: Node


def normalize(plan: Node) -> Node:
    """The plan after all passes."""
    return trace(plan)[-1].plan


def trace(plan: Node) -> list[Step]:
    """The plan before, and after each pass that changed it."""
    steps = [Step("bind", plan)]
    for rule in PASSES:
        changed = rule(steps[-1].plan)
        if changed is not steps[-1].plan and changed != steps[-1].plan:
            check(changed, stage=f"the plan after {rule.__name__}")
            steps.append(Step(rule.__name__, changed))
    return steps
