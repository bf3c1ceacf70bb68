"""Ways through sqlglot trees that cost a fraction of sqlglot's own: a compiler does little else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from sqlglot import exp

Tree = TypeVar("Tree", bound=exp.Expr)
Change = Callable[[exp.Column], exp.Expr | None]
"""What stands for a column, made for its place alone; None where the column stays."""


def parts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The tree and all below it, in no order that anybody may count on."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                waiting.append(value)
            elif type(value) is list:
                waiting += [item for item in value if isinstance(item, exp.Expr)]


def holds(tree: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """Whether the tree is, or has below it, one of these."""
    return any(isinstance(part, kinds) for part in parts(tree))


def duplicate(tree: Tree) -> Tree:
    """A copy. Types never change, so copies share them: they are half of a tree."""
    return cast(Tree, _copied(tree, None))


def exchanged(tree: Tree, change: Change) -> Tree:
    """A copy with others in place of columns below its root."""
    return cast(Tree, _copied(tree, change))


def _copied(tree: exp.Expr, change: Change | None) -> exp.Expr:
    root = _alone(tree)
    waiting = [(tree, root)]
    while waiting:  # without recursion: generated queries chain thousands of conditions
        node, copy = waiting.pop()
        for key, value in node.args.items():
            if isinstance(value, exp.Expr):
                copy.args[key] = made = _below(value, change, waiting)
                made.parent, made.arg_key = copy, key
            elif type(value) is list:
                copy.args[key] = [
                    _below(item, change, waiting) if isinstance(item, exp.Expr) else item
                    for item in value
                ]
                copy._set_parent(key, copy.args[key])
            else:
                copy.args[key] = value
    return root


def _below(
    child: exp.Expr, change: Change | None, waiting: list[tuple[exp.Expr, exp.Expr]]
) -> exp.Expr:
    if change is not None and isinstance(child, exp.Column):
        found = change(child)
        if found is not None:
            return found
    made = _alone(child)
    waiting.append((child, made))
    return made


def _alone(node: exp.Expr) -> exp.Expr:
    made = type(node)()
    made._type = node._type
    if node._meta:
        made._meta = dict(node._meta)
    if node.comments is not None:
        made.comments = list(node.comments)
    return made
