"""Parts and deltas as text, for ``explain`` and golden files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spark_trickle.delta.keys.needs import Need
from spark_trickle.delta.segment import RESULT, Part, Strategy
from spark_trickle.ir.explain import explain, headline
from spark_trickle.ir.nodes import Node
from spark_trickle.ir.shared import Shared
from spark_trickle.ir.walk import children, scans

MEANING = {
    Strategy.ALGEBRA: "delta by the laws of its operators",
    Strategy.ADDITIVE: "sums over the delta are added to the stored state",
    Strategy.EXTREMUM: "as additive; groups that lost their MIN or MAX are recomputed",
    Strategy.TOUCHED: "touched keys are recomputed and replace what is stored for them",
}


def describe_parts(parts: Iterable[Part]) -> str:
    """What is stored: each part with its columns, key, strategy and plan."""
    return "\n".join(_part(part) for part in parts)


def _part(part: Part) -> str:
    columns = ", ".join(f"{c.name} {c.type.sql('spark')}" for c in part.columns)
    return f"{title(part)}\n  columns: {columns}\n{_indented(explain(part.plan))}"


def title(part: Part) -> str:
    """One line: name, strategy, key."""
    name = "result" if part.name == RESULT else f"segment {part.name}"
    keys = f" key=[{', '.join(key.name for key in part.keys)}]" if part.keys else ""
    return f"{name}: {part.strategy.value}{keys}"


def describe_strategy(parts: Iterable[Part]) -> str:
    """How each part is maintained, in words."""
    return "".join(f"{title(part)}: {MEANING[part.strategy]}\n" for part in parts)


def describe_delta(part: Part, plan: Node, needed: Sequence[Need]) -> str:
    """The delta of a part and what it reads."""
    listed = enumerate(_listed_once(plan, needed))
    reads = "".join(f"  reads {_need(number, need)}\n" for number, need in listed)
    return f"delta of {title(part)}\n{reads}{_indented(_once(plan))}"


def _listed_once(plan: Node, needed: Sequence[Need]) -> list[Need]:
    """The needs, numbered anew, with those of a shared sub-plan once unless they differ.

    Needs refer to each other, so those of one scan are told apart until nothing more differs.
    """
    shared = Shared(plan)
    kinds = _numbered([shared.number(scan) for scan in scans(plan)])
    while True:
        told = [_renumbered(need, kinds) for need in needed]
        finer = _numbered(
            [(kind, frozenset(n.keys.items())) for kind, n in zip(kinds, told, strict=True)]
        )
        if finer == kinds:
            return [told[kinds.index(kind)] for kind in range(max(kinds, default=-1) + 1)]
        kinds = finer


def _numbered(marks: Iterable[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(mark, len(numbers)) for mark in marks]


def _renumbered(need: Need, kinds: Sequence[int]) -> Need:
    keys = {
        column: frozenset(frozenset((kinds[n], name) for n, name in origins) for origins in bounds)
        for column, bounds in need.keys.items()
    }
    return replace(need, keys=keys)


def _once(plan: Node) -> str:
    """The plan as text, with every shared sub-plan written once."""
    shared = Shared(plan)
    names: dict[int, str] = {}
    written: list[str] = []

    def lines(node: Node, depth: int) -> list[str]:
        indent = "  " * depth
        if shared.is_shared(node):
            number = shared.number(node)
            if number not in names:
                text = body(node, 1)
                names[number] = f"shared_{len(names) + 1}"
                written.extend([f"{names[number]}:", *text])
            return [indent + names[number]]
        return body(node, depth)

    def body(node: Node, depth: int) -> list[str]:
        below = [line for child in children(node) for line in lines(child, depth + 1)]
        return ["  " * depth + headline(node), *below]

    top = lines(plan, 0)
    return "\n".join([*written, *top]) + "\n"


def _need(number: int, need: Need) -> str:
    """A numbered read; ``[2].id`` means the values of ``id`` in what read 2 found."""
    tests = []
    for column, bounds in sorted(need.keys.items()):
        for origins in sorted(bounds, key=sorted):
            places = " or ".join(f"[{other}].{name}" for other, name in sorted(origins))
            tests.append(f"{column} in {places}")
    where = f" where {' and '.join(tests)}" if tests else ""
    return f"[{number}] {need.source}@{need.side.value}{where}"


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())
