"""What names mean to one connection: the schema that USE chose, and its temporary views."""

from __future__ import annotations

from spark_trickle.errors import AlreadyExistsError, UserError
from spark_trickle.sql import postgres
from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.qualify import in_schema, query_in_schema
from spark_trickle.statements.text.splices import Spliced
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import DEFAULT_SCHEMA, TableName, View


class Namespace:
    """Kept by the lake that was opened, and by nobody else."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.schema = DEFAULT_SCHEMA
        self.views: dict[str, View] = {}
        """Temporary views, by lower-case name."""

    def use(self, schema: str) -> None:
        """NotFoundError if there is no such schema."""
        found = self._catalog.structure(self._catalog.version())
        self.schema = found.schema(schema).name

    def placed(self, sql: str, statement: ast.Statement) -> tuple[Spliced, ast.Statement]:
        """A statement with its names in the schema that is used, and its text."""
        if self.schema == DEFAULT_SCHEMA:
            return Spliced(sql, ((0, len(sql), 0),)), statement
        sent = in_schema(sql, statement, self.schema, self._in_lake)
        return sent, ast.parse_statement(sent.text)

    def parsed(self, sql: str) -> tuple[str, ast.Statement]:
        """The same of a text that was translated."""
        sent, statement = self.placed(sql, ast.parse_statement(sql))
        return sent.text, statement

    def query(self, sql: str, dialect: str) -> str:
        """A bare query, in the same way."""
        if self.schema == DEFAULT_SCHEMA:
            return sql
        if dialect == "postgres":
            return postgres.in_schema(sql, self.schema)
        return query_in_schema(sql, self.schema, self._in_lake)

    def _in_lake(self, name: str) -> bool:
        """Whether a name is one of the lake's, and not a view of the session."""
        if name.lower() in self.views:
            return False
        found = self._catalog.structure(self._catalog.version())
        keys = [TableName(schema, name).key for schema in (self.schema, DEFAULT_SCHEMA)]
        return any(key in found.tables or key in found.views for key in keys)

    def temporary(self, sql: str, statement: ast.CreateView | ast.DropView) -> bool:
        """Make or drop a temporary view; whether it is one."""
        name = statement.name.parts[-1]
        if isinstance(statement, ast.DropView):
            single = len(statement.name.parts) == 1
            return single and self.views.pop(name.lower(), None) is not None
        if len(statement.name.parts) > 1:
            raise UserError("a temporary view has no schema", hint=f"CREATE TEMP VIEW {name} …")
        there = name.lower() in self.views
        if there and not (statement.or_replace or statement.if_not_exists):
            raise AlreadyExistsError(f"there is a temporary view {name} already")
        if not there or statement.or_replace:
            body = sql[statement.query.start : statement.query.end]
            self.views[name.lower()] = View(0, "", name, body, columns=statement.columns)
        return True
