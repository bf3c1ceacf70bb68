"""Bad SQL: an error that says what, where and what to do; never a traceback."""

from __future__ import annotations

import pytest

from spark_trickle.errors import BindError, CycleError, ParseError, TrickleError, UserError
from spark_trickle.sql.bind.plan import bind
from support.tpch import source

SOURCES = {
    made.name: made
    for made in (
        source(
            "orders",
            "id bigint, customer string, amount decimal(12,2), day date, paid boolean, "
            "tags array<string>, address struct<city: string, zip: int>, "
            "at timestamp, notes map<string, string>",
        ),
        source("customers", "id bigint, name string, region string"),
    )
}

SYNTAX = {
    "select id fro orders": "orders",
    "select id from orders where": "where",
    "select (id from orders": "from",
    "select id, from orders": ",",
    "select id from orders where customer = 'ada": "'",
    "select id from orders order limit": "limit",
    "select id id id from orders": "id",
    "select * from orders join": None,
}

BINDING = {
    # names
    "select custmer from orders": ("unknown column custmer", "custmer", "customer"),
    "select o.nme from customers o": ("unknown column o.nme", "o.nme", "name"),
    "select x.id from orders": ("nothing in FROM is called x", "x.id", "orders"),
    "select id from ordrs": ("unknown table ordrs", "ordrs", "orders"),
    "select id from orders, customers": ("ambiguous", "id", "qualify"),
    "select id from orders o where o.customer = c.name": ("called c", "c.name", "o"),
    "select address.street from orders": ("not a field", "address.street", "fields"),
    "select * except (nothing) from orders": ("unknown column nothing", None, "name"),
    "select c.* from orders": ("nothing in FROM is called c", None, "orders"),
    "select amount.* from orders": ("no struct is", None, "orders"),
    "select address.street.* from orders": ("not a field", None, "fields"),
    "select id from orders join customers using (amount)": ("USING", None, "ON"),
    "with q (a, b) as (select id from orders) select a from q": ("2 names for 1", None, "name"),
    "select id from orders order by 3": ("ORDER BY 3", "3", "1"),
    "select id, count(*) from orders group by 4": ("GROUP BY 4", "4", "1"),
    "select sum(amount) over w from orders": ("unknown window w", "w", "WINDOW"),
    # grouping
    "select customer, amount from orders group by customer": ("neither grouped", "amount", "GROUP"),
    "select customer, sum(amount) from orders": ("neither grouped", "customer", "GROUP BY"),
    "select customer from orders where sum(amount) > 1": ("aggregate", None, "HAVING"),
    "select sum(sum(amount)) from orders": ("inside an aggregate", None, "subquery"),
    "select id from orders where row_number() over (order by id) = 1": ("window", None, "QUALIFY"),
    "select row_number() from orders": ("needs an OVER", "row_number", "OVER"),
    "select customer from orders group by sum(amount)": ("aggregate", None, "group by"),
    "select distinct customer from orders order by amount limit 1": ("DISTINCT", None, "select"),
    # types
    "select id from orders where day = 5": ("DATE cannot be compared with INT", "day", "CAST"),
    "select id from orders where id": ("WHERE needs a condition", "id", "compare"),
    "select id from orders o join customers c on o.id": ("ON needs a condition", "o.id", "compare"),
    "select customer from orders group by customer having sum(amount)": (
        "HAVING needs a condition",
        None,
        "compare",
    ),
    "select paid + 1 from orders": ("arithmetic needs numbers", "paid", "cast"),
    "select tags * 2 from orders": ("arithmetic needs numbers", "tags", "cast"),
    "select day + at from orders": ("arithmetic needs numbers", None, "INTERVAL"),
    "select -paid from orders": ("cannot be negated", None, "cast"),
    "select sum(day) from orders": ("sum needs a number", "day", "cast"),
    "select avg(paid) from orders": ("avg needs a number", "paid", "cast"),
    "select count_if(amount) from orders": ("count_if needs a condition", None, "compare"),
    "select max(notes) from orders": ("needs values with an order", None, None),
    "select id from orders where paid = 1": ("BOOLEAN cannot be compared with INT", None, "CAST"),
    "select id from orders where day between 1 and 2": ("cannot be compared", None, "CAST"),
    "select id from orders where day in (1, 2)": ("cannot be compared", None, "CAST"),
    "select id from orders where paid and amount": ("AND needs conditions", "amount", "compare"),
    "select id from orders where not amount": ("NOT needs conditions", "amount", "compare"),
    "select case when amount then 1 end from orders": ("WHEN needs a condition", None, "compare"),
    "select case when paid then day else 1 end from orders": ("no common type", None, "cast"),
    "select coalesce(day, 1) from orders": ("no common type", None, "cast"),
    "select id.x from orders": ("not a field", "id.x", "field"),
    "select id[0] from orders": ("has no elements", None, "arrays"),
    "select cast(tags as int) from orders": ("cannot be cast", None, "element"),
    # shapes
    "select id from orders union select id, name from customers": ("1 and 2 columns", None, "same"),
    "select day from orders union all select id from customers": ("column 1", None, "cast"),
    "select id from orders where id in (select id, name from customers)": (
        "2 columns, 1 needed",
        None,
        "as many",
    ),
    "select (select id, name from customers) from orders": ("2 columns, 1 needed", None, "as many"),
    "select id from orders where day in (select id from customers)": ("compared", None, "CAST"),
    "select * from values (1, 2), (3)": ("different lengths", None, "equal"),
    "select explode(tags), explode(tags) from orders": ("two row-making", None, "LATERAL VIEW"),
    "select explode(tags) + 1 from orders": ("inside an expression", None, "LATERAL VIEW"),
    "select *": ("needs a FROM", None, None),
    "select a.x from orders lateral view posexplode(tags) a as x": ("2 columns", None, "name"),
}


@pytest.mark.parametrize(("sql", "word"), SYNTAX.items())
def test_syntax_errors_point_at_the_fault(sql: str, word: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        bind(sql, SOURCES)
    error = caught.value
    assert error.position is not None
    assert error.hint
    assert "^" in str(error)
    assert "sqlglot" not in str(error)
    if word is not None:
        assert _marked(error).startswith(word)


@pytest.mark.parametrize(("sql", "expected"), BINDING.items())
def test_binding_errors_say_what_where_and_what_to_do(
    sql: str, expected: tuple[str, str | None, str | None]
) -> None:
    message, word, hint = expected
    with pytest.raises(BindError) as caught:
        bind(sql, SOURCES)
    error = caught.value
    assert message in error.message
    if word is not None:
        assert word in _marked(error)
    if hint is not None:
        assert error.hint is not None
        assert hint in error.hint


def test_positions_count_lines() -> None:
    with pytest.raises(BindError) as caught:
        bind("select id,\n  -- a comment, from where\n  custmer\nfrom orders", SOURCES)
    assert str(caught.value) == (
        "unknown column custmer\n  3 |   custmer\n    |   ^^^^^^^\nhint: did you mean customer?"
    )


@pytest.mark.parametrize(
    "sql",
    ["insert into orders values (1)", "drop table orders", "delete from orders", "describe orders"],
)
def test_other_statements_are_refused(sql: str) -> None:
    with pytest.raises(ParseError, match="a query is needed"):
        bind(sql, SOURCES)


def test_one_query_at_a_time() -> None:
    with pytest.raises(ParseError, match="2 statements"):
        bind("select 1; select 2", SOURCES)
    with pytest.raises(ParseError, match="empty"):
        bind("  -- nothing\n", SOURCES)


def test_postgres_positions_point_into_the_text_as_written() -> None:
    with pytest.raises(BindError) as caught:
        bind("select id::text,\n custmer from orders", SOURCES, dialect="postgres")
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (2, 2)


def test_a_view_that_refers_to_itself() -> None:
    with pytest.raises(CycleError, match="a -> b -> a"):
        bind("select * from a", SOURCES, {"a": "select * from b", "b": "select * from a"})


def test_an_error_in_a_view_names_the_view() -> None:
    with pytest.raises(BindError, match="in view v: unknown column x"):
        bind("select * from v", SOURCES, {"v": "select x from orders"})


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("select 'from orders where' as s, id /* group by */ from orders -- having", ("s", "id")),
        ("select `Id`, ORDERS.CUSTOMER from Orders", ("Id", "CUSTOMER")),
        ("select `order`.`id` as `select` from orders as `order`", ("select",)),
    ],
)
def test_words_in_strings_comments_and_quotes_are_no_trap(sql: str, names: tuple[str, ...]) -> None:
    assert bind(sql, SOURCES).names == names


GARBAGE = [
    "select",
    "select from",
    ")",
    "select * from (select",
    "select case when from orders",
    "with select 1",
    "select id from orders group by",
    "select 1 +",
    "select id from orders where id in ()",
    "select id from orders where id in (select)",
    "\x00",
    "select '\\",
    "select `",
    "select id from orders limit x",
    "select id from orders order by id limit -1",
    "select sum( from orders",
    "select * from orders lateral view",
    "select ?",
    "select :x",
    "select {x}",
    "select id from orders where id = ",
    "values",
    "select * from values ()",
    "select id over (partition by) from orders",
    "(" * 400 + "select 1" + ")" * 400,
]


@pytest.mark.parametrize("sql", GARBAGE, ids=lambda text: text[:30])
def test_garbage_is_refused_with_an_error_of_ours(sql: str) -> None:
    with pytest.raises(UserError) as caught:
        bind(sql, SOURCES)
    assert "<" not in caught.value.message


def _marked(error: TrickleError) -> str:
    """The text over the carets."""
    assert error.position is not None
    line = error.position.sql.split("\n")[error.position.line - 1]
    return line[error.position.column - 1 :][: error.position.length]


@pytest.mark.parametrize(
    "sql",
    [
        "select id from orders where " + " or ".join(f"id = {n}" for n in range(800)),
        "select id from orders where id in (" + ", ".join(map(str, range(3000))) + ")",
        " union all ".join(["select id from orders"] * 150),
    ],
    ids=["or", "in", "union"],
)
def test_long_generated_queries_are_bound(sql: str) -> None:
    assert bind(sql, SOURCES).plan is not None
