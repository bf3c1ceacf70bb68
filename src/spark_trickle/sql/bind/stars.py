"""``*``: the names and values behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from spark_trickle.ir.scalars import ref
from spark_trickle.sql.bind.scope import Scope, fields_of_struct
from spark_trickle.sql.bind.session import Environment, Unbuildable

Named = list[tuple[str, exp.Expression]]
Bind = Callable[[exp.Expr], exp.Expression]


def star(node: exp.Expr, scope: Scope, environment: Environment, bind: Bind) -> Named:
    """The names and values behind ``*``, ``t.*`` or ``struct.*``, without those of EXCEPT.

    Those that ``replace`` names, which only steps after ``|>`` do, have other values.
    """
    given = node.this if isinstance(node, exp.Column) else node
    found = _all(node, scope, environment)
    for part in given.args.get("replace") or []:
        name = part.alias.lower()
        if name not in {each.lower() for each, _ in found}:
            raise environment.text.error(part, f"unknown column {name} in SET", "check the name")
        value = bind(part.this)
        found = [(n, value if n.lower() == name else v) for n, v in found]
    for part in given.args.get("except_") or []:
        found = _without(found, part, scope, environment)
    return found


def _all(node: exp.Expr, scope: Scope, environment: Environment) -> Named:
    if not isinstance(node, exp.Column):
        if not scope.relations:
            raise environment.text.error(node, "* needs a FROM clause", "name the values")
        return [(f.name, ref(f.column)) for f in scope.visible]
    qualifier = _lowered(node.parts[:-1])
    found = [r for r in scope.relations if r.answers(qualifier)]
    if found:
        return [(f.name, ref(f.column)) for relation in found for f in relation.fields]
    fields = fields_of_struct(node, scope, environment.text)
    if not fields:
        known = ", ".join(r.name[-1] for r in scope.relations)
        message = f"nothing in FROM is called {'.'.join(qualifier)}, and no struct is"
        raise environment.text.error(node, message, f"there are: {known}")
    return fields


def _without(found: Named, part: exp.Expr, scope: Scope, environment: Environment) -> Named:
    name, parts = part.name.lower(), part.parts if isinstance(part, exp.Column) else []
    if len(parts) < 2:
        left = [each for each in found if each[0].lower() != name]
        if len(left) == len(found):
            message = f"unknown column {name} in EXCEPT"
            raise environment.text.error(part, message, "check the name")
        return left
    relations = [r for r in scope.relations if r.answers(_lowered(parts[:-1]))]
    mine = [ref(f.column) for r in relations for f in r.fields if f.name.lower() == name]
    if not mine:
        environment.block(
            "UNSUPPORTED_CLAUSE",
            part,
            "a field of a struct in EXCEPT is not maintained incrementally",
            "name the fields that you want",
        )
        raise Unbuildable
    return [each for each in found if each[1] not in mine]


def _lowered(parts: Sequence[exp.Expr]) -> tuple[str, ...]:
    return tuple(part.name.lower() for part in parts)
