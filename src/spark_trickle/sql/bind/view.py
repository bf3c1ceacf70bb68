"""Views of the lake: their text is bound in place of their name."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.errors import CycleError, TrickleError
from spark_trickle.sql.bind.expressions import BindQuery
from spark_trickle.sql.bind.session import Environment, NamedPlan
from spark_trickle.sql.parse import parse_query


def bind_view(
    name: str, node: exp.Table, environment: Environment, bind_query: BindQuery
) -> NamedPlan:
    """The plan of a view's query, as if it had been written where the name stands."""
    session = environment.session
    if name in session.open_views:
        path = " -> ".join([*session.open_views, name])
        raise CycleError(
            f"view {name} refers to itself: {path}",
            position=environment.text.position(node),
            hint="drop one of the views",
        )
    session.open_views.append(name)
    try:
        parsed = parse_query(session.views[name])
        inner = replace(environment, text=parsed.text, ctes={}, outer=None, top=False)
        return bind_query(parsed.tree, inner)
    except TrickleError as error:
        error.message = f"in view {name}: {error.message}"
        raise
    finally:
        session.open_views.pop()
