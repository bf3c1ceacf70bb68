"""Names in reach at one place of a query, and what they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from spark_trickle.errors import suggestion
from spark_trickle.ir.nodes import Node
from spark_trickle.ir.scalars import ref
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column
from spark_trickle.sql.text import Text
from spark_trickle.sql.types.coercion import (
    STRING,
    element_of,
    field_names,
    field_of,
    has_text_keys,
    spell,
)


@dataclass(frozen=True)
class Field:
    """A name and the column it stands for."""

    name: str
    column: Column


@dataclass(frozen=True)
class Relation:
    """Something in FROM that columns can be qualified with."""

    name: tuple[str, ...]
    """The alias, or the parts of the table's name."""
    fields: tuple[Field, ...]

    def answers(self, qualifier: tuple[str, ...]) -> bool:
        """Whether ``a.b`` as a prefix means this relation: ``b`` does for ``a.b`` as well."""
        mine = tuple(part.lower() for part in self.name)
        return bool(qualifier) and mine[-len(qualifier) :] == qualifier


@dataclass(frozen=True)
class Scope:
    """What FROM offers: relations by name, and the columns that need no qualifier."""

    relations: tuple[Relation, ...] = ()
    visible: tuple[Field, ...] = ()
    outer: Scope | None = None
    aliases: Mapping[str, exp.Expression] = field(default_factory=dict)
    """Expressions of the select list that later ones may use by name."""

    def refreshed(self, node: Node) -> Scope:
        """The scope over another plan that offers the same columns, some of them now nullable."""
        columns = {column.id: column for column in node.columns}

        def fields(given: Iterable[Field]) -> tuple[Field, ...]:
            return tuple(replace(f, column=columns.get(f.column.id, f.column)) for f in given)

        relations = tuple(replace(r, fields=fields(r.fields)) for r in self.relations)
        return replace(self, relations=relations, visible=fields(self.visible))

    def joined(self, other: Scope) -> Scope:
        """Both sides of a join."""
        return replace(
            self,
            relations=self.relations + other.relations,
            visible=self.visible + other.visible,
        )


def of_relation(name: tuple[str, ...], fields: Iterable[Field], outer: Scope | None) -> Scope:
    """The scope of one relation alone."""
    listed = tuple(fields)
    return Scope((Relation(name, listed),), listed, outer)


def resolve(node: exp.Column, scope: Scope, text: Text) -> exp.Expression:
    """The column, struct field or alias a name stands for, as a bound expression."""
    parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
    names = tuple(part.name for part in parts)
    level: Scope | None = scope
    while level is not None:
        found = _in_level(names, node, level, text)
        if found is not None:
            return _positioned(found, node)
        level = level.outer
    raise _unknown(node, names, scope, text)


def fields_of_struct(
    node: exp.Column, scope: Scope, text: Text
) -> list[tuple[str, exp.Expression]]:
    """The names and values behind ``struct.*``; none if nothing here is a struct of that name."""
    names = tuple(part.name for part in node.parts[:-1])
    base = _in_level(names, node, replace(scope, aliases={}), text)
    listed = () if base is None or base.type is None else field_names(base.type)
    return [(name, _fields(duplicate(base), (name,), node, text)) for name in listed if base]


def _in_level(
    names: tuple[str, ...], node: exp.Column, scope: Scope, text: Text
) -> exp.Expression | None:
    lowered = tuple(name.lower() for name in names)
    for length in range(len(names) - 1, 0, -1):
        relations = [r for r in scope.relations if r.answers(lowered[:length])]
        fields = [f for r in relations for f in r.fields]
        column = _one(lowered[length], fields, node, text)
        if column is not None:
            return _fields(ref(column), names[length + 1 :], node, text)
    column = _one(lowered[0], scope.visible, node, text)
    if column is not None:
        return _fields(ref(column), names[1:], node, text)
    alias = scope.aliases.get(lowered[0])
    if alias is not None:
        return _fields(duplicate(alias), names[1:], node, text)
    return None


def _one(name: str, fields: Iterable[Field], node: exp.Column, text: Text) -> Column | None:
    found = {f.column.id: f for f in fields if f.name.lower() == name}
    if len(found) > 1:
        raise text.error(
            node,
            f"column {name} is ambiguous: {len(found)} relations in FROM have it",
            hint="qualify it with the relation's name or alias",
        )
    return next(iter(found.values())).column if found else None


def _fields(
    base: exp.Expression, names: tuple[str, ...], node: exp.Column, text: Text
) -> exp.Expression:
    for name in names:
        given = base.type
        if given is not None and has_text_keys(given):
            base = value_of_key(base, given, name)
            continue
        type = None if given is None else field_of(given, name)
        if type is None:
            raise text.error(
                node,
                f"{names[0]} is not a field: the value before it is {spell(given)}",
                hint="check the qualifier and the struct's fields",
            )
        base = exp.Dot(this=base, expression=exp.to_identifier(name, quoted=True))
        base.type = type
    return base


def value_of_key(base: exp.Expression, given: exp.DataType, name: str) -> exp.Expression:
    """``m.k``, which for Spark is ``m['k']``."""
    key = exp.Literal.string(name)
    key.type = STRING
    found = exp.Bracket(this=base, expressions=[key])
    found.type = element_of(given)
    return found


def _positioned(found: exp.Expression, node: exp.Column) -> exp.Expression:
    """Errors about a bound expression point at the name it was written as."""
    for part in node.parts:
        if "start" in part.meta:
            first = node.parts[0].meta
            found.meta["start"] = first.get("start", part.meta["start"])
            found.meta["end"] = node.parts[-1].meta.get("end", part.meta["end"])
            break
    return found


def _unknown(node: exp.Column, names: tuple[str, ...], scope: Scope, text: Text) -> Exception:
    written = ".".join(names)
    if len(names) > 1 and not _is_relation(names[0], scope):
        known = [name for relation in _relations(scope) if (name := relation.name[-1])]
        return text.error(
            node,
            f"unknown column {written}: nothing in FROM is called {names[0]}",
            hint=suggestion(names[0], known) or _list("relations in FROM", known),
        )
    known = sorted({f.name for f in _fields_in_reach(names, scope)})
    return text.error(
        node,
        f"unknown column {written}",
        hint=suggestion(names[-1], known) or _list("columns", known),
    )


def _relations(scope: Scope) -> list[Relation]:
    outer = [] if scope.outer is None else _relations(scope.outer)
    return [*scope.relations, *outer]


def _is_relation(name: str, scope: Scope) -> bool:
    return any(relation.answers((name.lower(),)) for relation in _relations(scope))


def _fields_in_reach(names: tuple[str, ...], scope: Scope) -> list[Field]:
    qualifier = tuple(name.lower() for name in names[:-1])
    relations = [r for r in _relations(scope) if not qualifier or r.answers(qualifier)]
    return [f for relation in relations for f in relation.fields]


def _list(what: str, known: list[str]) -> str | None:
    if not known:
        return None
    shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
    return f"{what}: {shown}"
