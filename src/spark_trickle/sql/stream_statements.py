"""The statements about stream tables: text in, one small record out. What Spark knows is not here."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.sql.tokens import Tokens

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
_SETTINGS = ("schedule", "refresh_mode")


def parse_stream_statement(sql: str) -> StreamStatement | None:
    """The stream-table statement in ``sql``, or None when it is some other statement."""
    tokens = Tokens(sql)
    if tokens.accept("EXPLAIN", "STREAM", "TABLE"):
        statement: StreamStatement = ExplainStreamTable(tokens.name("a stream table's name"))
    elif tokens.looking_at("EXPLAIN", "CREATE") and _creates(tokens, 1):
        tokens.expect("EXPLAIN")
        statement = _create(tokens, explain=True)
    elif _creates(tokens, 0):
        statement = _create(tokens, explain=False)
    elif tokens.accept("REFRESH", "STREAM", "TABLE"):
        name = tokens.name("a stream table's name")
        statement = RefreshStreamTable(name, full=tokens.accept("FULL"))
    elif tokens.accept("DROP", "STREAM", "TABLE"):
        if_exists = tokens.accept("IF", "EXISTS")
        name = tokens.name("a stream table's name")
        statement = DropStreamTable(name, if_exists, cascade=tokens.accept("CASCADE"))
    elif tokens.accept("ALTER", "STREAM", "TABLE"):
        statement = _alter(tokens)
    elif tokens.accept("SHOW", "STREAM", "TABLES"):
        statement = ShowStreamTables()
    else:
        return None
    tokens.end()
    return statement


def _creates(tokens: Tokens, ahead: int) -> bool:
    words = [token.text.upper() for i in range(5) if (token := tokens.peek(ahead + i))]
    return words[:3] == ["CREATE", "STREAM", "TABLE"] or words == [
        *("CREATE", "OR", "REPLACE", "STREAM", "TABLE")
    ]


def _create(tokens: Tokens, *, explain: bool) -> CreateStreamTable:
    tokens.expect("CREATE")
    or_replace = tokens.accept("OR", "REPLACE")
    tokens.expect("STREAM", "TABLE")
    if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
    name = tokens.name("a stream table's name")
    schedule, mode, initialize = None, "AUTO", True
    while not tokens.accept("AS"):
        if tokens.accept("SCHEDULE"):
            calculated = tokens.accept("CALCULATED")
            schedule = "CALCULATED" if calculated else tokens.string("a schedule such as '30s'")
        elif tokens.accept("REFRESH", "MODE"):
            mode = _mode(tokens, tokens.word(f"one of {', '.join(_MODES)}"))
        elif tokens.accept("WITH", "NO", "DATA"):
            initialize = False
        else:
            tokens.fail("SCHEDULE, REFRESH MODE, WITH NO DATA or AS is expected here")
    return CreateStreamTable(
        name, tokens.rest(), or_replace, if_not_exists, schedule, mode, initialize, explain
    )


def _alter(tokens: Tokens) -> AlterStreamTable:
    name = tokens.name("a stream table's name")
    if tokens.accept("SUSPEND"):
        return AlterStreamTable(name, status="SUSPENDED")
    if tokens.accept("RESUME"):
        return AlterStreamTable(name, status="ACTIVE")
    if tokens.accept("RENAME", "TO"):
        return AlterStreamTable(name, rename_to=tokens.name("the new name"))
    if tokens.accept("AS"):
        return AlterStreamTable(name, query=tokens.rest())
    if not tokens.accept("SET"):
        tokens.fail("SET, SUSPEND, RESUME, RENAME TO or AS is expected here")
    return _settings(tokens, name)


def _settings(tokens: Tokens, name: Name) -> AlterStreamTable:
    values: dict[str, str] = {}
    if not tokens.symbol("("):
        tokens.fail("'(' is expected here")
    while True:
        token = tokens.peek()
        setting = tokens.word("a setting").lower()
        if setting not in _SETTINGS:
            tokens.fail(f"there is no setting {setting!r}", token, f"one of {', '.join(_SETTINGS)}")
        if not tokens.symbol("="):
            tokens.fail("'=' is expected here")
        value = tokens.string(f"a value for {setting}")
        values[setting] = _mode(tokens, value.upper()) if setting == "refresh_mode" else value
        if not tokens.symbol(","):
            break
    if not tokens.symbol(")"):
        tokens.fail("')' is expected here")
    return AlterStreamTable(
        name, schedule=values.get("schedule"), refresh_mode=values.get("refresh_mode")
    )


def _mode(tokens: Tokens, word: str) -> str:
    if word not in _MODES:
        tokens.fail(
            f"there is no refresh mode {word!r}", tokens.peek(-1), f"one of {', '.join(_MODES)}"
        )
    return word
