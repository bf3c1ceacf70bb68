"""The statements about stream tables: text in, one small record out. What Spark knows is not here."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.statements.cursor import Cursor

Name = tuple[str, ...]


@dataclass(frozen=True)
class CreateStreamTable:
    name: Name
    query: str
    or_replace: bool = False
    if_not_exists: bool = False
    schedule: str | None = None
    refresh_mode: str = "AUTO"
    initialize: bool = True
    explain: bool = False


@dataclass(frozen=True)
class RefreshStreamTable:
    name: Name
    full: bool = False


@dataclass(frozen=True)
class DropStreamTable:
    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AlterStreamTable:
    """One change at a time; the fields that are None stay as they are."""

    name: Name
    query: str | None = None
    schedule: str | None = None
    refresh_mode: str | None = None
    status: str | None = None
    rename_to: Name | None = None
    fast_path: bool | None = None


@dataclass(frozen=True)
class ShowStreamTables:
    pass


@dataclass(frozen=True)
class ExplainStreamTable:
    name: Name


StreamStatement = (
    CreateStreamTable
    | RefreshStreamTable
    | DropStreamTable
    | AlterStreamTable
    | ShowStreamTables
    | ExplainStreamTable
)

_MODES = ("AUTO", "DIFFERENTIAL", "FULL", "IMMEDIATE")
_SETTINGS = ("schedule", "refresh_mode", "fast_path")


def parse_stream_statement(sql: str, dialect: str = "spark") -> StreamStatement | None:
    """The stream-table statement in ``sql``, or None when it is some other statement.

    Names are quoted as the dialect does it; the query stays as it is.
    """
    cursor = Cursor(sql, dialect)
    if cursor.accept("EXPLAIN", "STREAM", "TABLE"):
        statement: StreamStatement = ExplainStreamTable(_name(cursor))
    elif cursor.at("EXPLAIN", "CREATE") and _creates(cursor, 1):
        cursor.expect("EXPLAIN")
        statement = _create(cursor, explain=True)
    elif _creates(cursor, 0):
        statement = _create(cursor, explain=False)
    elif cursor.accept("REFRESH", "STREAM", "TABLE"):
        name = _name(cursor)
        statement = RefreshStreamTable(name, full=cursor.accept("FULL"))
    elif cursor.accept("DROP", "STREAM", "TABLE"):
        if_exists = cursor.accept("IF", "EXISTS")
        name = _name(cursor)
        statement = DropStreamTable(name, if_exists, cascade=cursor.accept("CASCADE"))
    elif cursor.accept("ALTER", "STREAM", "TABLE"):
        statement = _alter(cursor)
    elif cursor.accept("SHOW", "STREAM", "TABLES"):
        statement = ShowStreamTables()
    else:
        return None
    cursor.end()
    return statement


def _creates(cursor: Cursor, ahead: int) -> bool:
    words = [token.word for i in range(5) if (token := cursor.peek(ahead + i))]
    return words[:3] == ["CREATE", "STREAM", "TABLE"] or words == [
        *("CREATE", "OR", "REPLACE", "STREAM", "TABLE")
    ]


def _create(cursor: Cursor, *, explain: bool) -> CreateStreamTable:
    cursor.expect("CREATE")
    or_replace = cursor.accept("OR", "REPLACE")
    cursor.expect("STREAM", "TABLE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = _name(cursor)
    schedule, mode, initialize = None, "AUTO", True
    while not cursor.accept("AS"):
        if cursor.accept("SCHEDULE"):
            schedule = _schedule(cursor, "a schedule such as '30s'")
        elif cursor.accept("REFRESH", "MODE"):
            mode = _mode(cursor, cursor.part("a refresh mode").upper())
        elif cursor.accept("WITH", "NO", "DATA"):
            initialize = False
        else:
            cursor.fail("SCHEDULE, REFRESH MODE, WITH NO DATA or AS is expected here")
    return CreateStreamTable(
        name, _rest(cursor), or_replace, if_not_exists, schedule, mode, initialize, explain
    )


def _alter(cursor: Cursor) -> AlterStreamTable:
    name = _name(cursor)
    if cursor.accept("SUSPEND"):
        return AlterStreamTable(name, status="SUSPENDED")
    if cursor.accept("RESUME"):
        return AlterStreamTable(name, status="ACTIVE")
    if cursor.accept("RENAME", "TO"):
        return AlterStreamTable(name, rename_to=_name(cursor))
    if cursor.accept("AS"):
        return AlterStreamTable(name, query=_rest(cursor))
    if not cursor.accept("SET"):
        cursor.fail("SET, SUSPEND, RESUME, RENAME TO or AS is expected here")
    return _settings(cursor, name)


def _settings(cursor: Cursor, name: Name) -> AlterStreamTable:
    values: dict[str, str] = {}
    fast_path: bool | None = None
    cursor.expect_symbol("(")
    while True:
        token = cursor.peek()
        setting = cursor.part("a setting").lower()
        if setting not in _SETTINGS:
            cursor.fail(f"there is no setting {setting!r}", token, f"one of {', '.join(_SETTINGS)}")
        cursor.expect_symbol("=")
        if setting == "schedule":
            values[setting] = _schedule(cursor, "a value for schedule")
        elif setting == "fast_path":
            fast_path = _truth(cursor)
        else:
            values[setting] = _mode(cursor, cursor.string(f"a value for {setting}").upper())
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return AlterStreamTable(
        name,
        schedule=values.get("schedule"),
        refresh_mode=values.get("refresh_mode"),
        fast_path=fast_path,
    )


def _truth(cursor: Cursor) -> bool:
    if cursor.accept("TRUE"):
        return True
    if not cursor.accept("FALSE"):
        cursor.fail("TRUE or FALSE is expected here")
    return False


def _schedule(cursor: Cursor, what: str) -> str:
    """A string, or one of the words that are schedules; NULL is refreshed by hand only."""
    for word in ("CALCULATED", "UNSET", "NULL"):
        if cursor.accept(word):
            return "UNSET" if word == "NULL" else word
    return cursor.string(what)


def _name(cursor: Cursor) -> Name:
    return cursor.name("a stream table's name").parts


def _rest(cursor: Cursor) -> str:
    """The query, unchanged, up to a closing semicolon."""
    return cursor.text(cursor.rest("a query"))


def _mode(cursor: Cursor, word: str) -> str:
    if word not in _MODES:
        cursor.fail(
            f"there is no refresh mode {word!r}", cursor.peek(-1), f"one of {', '.join(_MODES)}"
        )
    return word
