"""The statements about stream tables: text in, one small record out. What Spark knows is not here."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_trickle.statements.text.cursor import Cursor
from spark_trickle.statements.text.tokens import Token

NameParts = tuple[str, ...]


@dataclass(frozen=True)
class CreateStreamTable:
    name: NameParts
    query: str
    or_replace: bool = False
    if_not_exists: bool = False
    schedule: str | None = None
    refresh_mode: str = "AUTO"
    initialize: bool = True
    explain: bool = False
    fast_path: bool = False


@dataclass(frozen=True)
class StreamOptions:
    """What CREATE and ALTER both set; None: not named."""

    schedule: str | None = None
    refresh_mode: str | None = None
    fast_path: bool | None = None


@dataclass(frozen=True)
class RefreshStreamTable:
    name: NameParts
    full: bool = False


@dataclass(frozen=True)
class DropStreamTable:
    name: NameParts
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AlterStreamTable:
    """One change at a time; the fields that are None stay as they are."""

    name: NameParts
    query: str | None = None
    schedule: str | None = None
    refresh_mode: str | None = None
    status: str | None = None
    rename_to: NameParts | None = None
    fast_path: bool | None = None
    explain: bool = False


@dataclass(frozen=True)
class ShowStreamTables:
    pass


@dataclass(frozen=True)
class ExplainStreamTable:
    name: NameParts


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


def parse(cursor: Cursor) -> StreamStatement | None:
    """The stream-table statement at the cursor, or None when it is some other statement.

    Names are quoted as the dialect does it; the query stays as it is.
    """
    if cursor.accept("EXPLAIN", "STREAM", "TABLE"):
        statement: StreamStatement = ExplainStreamTable(_name(cursor))
    elif cursor.at("EXPLAIN", "CREATE") and _creates(cursor, 1):
        cursor.expect("EXPLAIN")
        statement = _create(cursor, explain=True)
    elif cursor.accept("EXPLAIN", "ALTER", "STREAM", "TABLE"):
        statement = _preview(cursor)
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
    if_not_exists = cursor.if_not_exists(or_replace)
    name = _name(cursor)
    options, initialize = StreamOptions(), True
    while not cursor.accept("AS"):
        if cursor.accept("WITH", "NO", "DATA"):
            initialize = False
            continue
        cursor.accept("WITH")
        found = _options(cursor, options)
        if found is None:
            cursor.fail(
                "SCHEDULE, REFRESH MODE, FAST_PATH, WITH (…), WITH NO DATA or AS is expected here"
            )
        options = found
    return CreateStreamTable(
        name,
        _rest(cursor),
        or_replace,
        if_not_exists,
        options.schedule,
        options.refresh_mode or "AUTO",
        initialize,
        explain,
        bool(options.fast_path),
    )


def _options(cursor: Cursor, known: StreamOptions) -> StreamOptions | None:
    """One option in words, or several in brackets; None when there is neither."""
    if cursor.accept("SCHEDULE"):
        return replace(known, schedule=_schedule(cursor, "a schedule such as '30s'"))
    if cursor.accept("REFRESH", "MODE"):
        return replace(known, refresh_mode=_mode(cursor, cursor.part("a refresh mode").upper()))
    if cursor.accept("FAST_PATH"):
        return replace(known, fast_path=_truth(cursor))
    return _settings(cursor, known) if cursor.at_symbol("(") else None


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
    if cursor.accept("UNSET"):
        options = _unset(cursor)
    elif cursor.accept("SET"):
        options = StreamOptions()
        while not cursor.done:
            found = _options(cursor, options)
            if found is None:
                cursor.fail("SCHEDULE, REFRESH MODE, FAST_PATH or (…) is expected here")
            options = found
    else:
        cursor.fail("SET, UNSET, SUSPEND, RESUME, RENAME TO or AS is expected here")
    return AlterStreamTable(
        name,
        schedule=options.schedule,
        refresh_mode=options.refresh_mode,
        fast_path=options.fast_path,
    )


def _unset(cursor: Cursor) -> StreamOptions:
    """``UNSET (schedule, …)`` or ``UNSET SCHEDULE``: back to what is there without a word."""
    usual = {"schedule": "UNSET", "refresh_mode": "AUTO", "fast_path": False}
    options = StreamOptions()
    bracketed = cursor.accept_symbol("(")
    while True:
        token = cursor.peek()
        name = "refresh_mode" if cursor.accept("REFRESH", "MODE") else cursor.part("a setting")
        name = _setting(cursor, name, token)
        options = replace(options, **{name: usual[name]})  # type: ignore[arg-type]
        if not cursor.accept_symbol(","):
            break
    if bracketed:
        cursor.expect_symbol(")")
    return options


def _setting(cursor: Cursor, name: str, token: Token | None) -> str:
    if name.lower() not in _SETTINGS:
        hint = f"one of {', '.join(_SETTINGS)}; columns get their names in the SELECT, by AS"
        cursor.fail(f"there is no setting {name!r}", token, hint)
    return name.lower()


def _settings(cursor: Cursor, options: StreamOptions) -> StreamOptions:
    cursor.expect_symbol("(")
    while True:
        token = cursor.peek()
        setting = _setting(cursor, cursor.part("a setting"), token)
        cursor.expect_symbol("=")
        if setting == "schedule":
            options = replace(options, schedule=_schedule(cursor, "a value for schedule"))
        elif setting == "fast_path":
            options = replace(options, fast_path=_truth(cursor))
        else:
            mode = _mode(cursor, cursor.string(f"a value for {setting}").upper())
            options = replace(options, refresh_mode=mode)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return options


def _preview(cursor: Cursor) -> AlterStreamTable:
    name = _name(cursor)
    cursor.expect("AS")
    return AlterStreamTable(name, query=_rest(cursor), explain=True)


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


def _name(cursor: Cursor) -> NameParts:
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
