"""Expressions of PostgreSQL's SQL over edge values, by family: what the dialect has to get right."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from sqlglot import exp

from spark_trickle import TrickleError
from spark_trickle.sql.parse import unknown
from spark_trickle.sql.pg.queries import query_in
from spark_trickle.sql.postgres import parse_postgres

INTS = ["0", "1", "-1", "7", "-7", "3", "2147483647", "-2147483648"]
LONGS = ["9223372036854775807", "-9223372036854775808", "0", "-3"]
EXACT = ["0.00", "1.5", "-2.5", "0.01", "99999999.99", "-0.005", "10", "3"]
FLOATS = ["0", "1.5", "-2.5", "0.1", "1e300", "1e-300", "-0.5", "3"]
TEXTS = ["''", "'abc'", "'Straße'", "'a%b_c'", "' x '", "'äöü'", "NULL", "'aXbXc'"]
DATES = ["2024-02-29", "2023-12-31", "1969-07-20", "2000-01-01", "1582-10-10"]
TIMES = [
    "2024-02-29 23:59:59.5",
    "1970-01-01 00:00:00",
    "1969-12-31 23:59:59",
    "2024-01-31 12:00:00",
]


def _pairs(
    form: str, left: list[str], right: list[str], kind: str, other: str | None = None
) -> list[str]:
    return [
        form.format(f"('{a}'::{kind})", f"('{b}'::{other or kind})")
        for a, b in product(left, right)
    ]


def _each(form: str, values: list[str], kind: str) -> list[str]:
    return [form.format(f"('{v}'::{kind})") for v in values]


def _texts(*forms: str) -> list[str]:
    return [form.format(f"({v}::text)") for form in forms for v in TEXTS]


FAMILIES: dict[str, list[str]] = {
    "integer division and remainder": [
        *_pairs("{} / {}", INTS[1:], INTS[1:5], "int"),
        *_pairs("{} % {}", INTS[1:], ["3", "-3", "7"], "int"),
        *_pairs("{} / {}", LONGS, ["3", "-7"], "bigint"),
        "7 / 0",
        "7 % 0",
        "(-2147483648)::int / -1",
        "7::smallint / 2::smallint",
        "7 / 2::bigint",
    ],
    "integer arithmetic": [
        *_pairs("{} + {}", INTS, ["1", "-1"], "int"),
        *_pairs("{} * {}", INTS, ["2"], "int"),
        *_pairs("{} - {}", LONGS, ["1"], "bigint"),
        "32767::smallint + 1::smallint",
        "2147483647 + 1::bigint",
        "- (-2147483648)::int",
        "abs(-7)",
        "abs((-2147483648)::int)",
        "mod(-7, 3)",
        "sign(-3)",
        "1 + NULL",
    ],
    "numeric scale and division": [
        *_pairs("{} / {}", EXACT, ["3", "0.07", "-8.00"], "numeric(12,2)"),
        *_pairs(
            "{} / {}",
            ["1", "2", "10", "20000", "123456789"],
            ["3", "7", "9999", "10000"],
            "numeric(12,0)",
        ),
        *_pairs("{} * {}", EXACT, ["1.25", "-0.01"], "numeric(12,2)"),
        *_pairs("{} + {}", EXACT, ["0.005"], "numeric(12,2)", "numeric(10,3)"),
        *_pairs("{} % {}", EXACT, ["0.7"], "numeric(12,2)"),
        "1.0 / 3",
        "1 / 3.0",
        "2.0 / 3 * 3",
        "1e5 / 7",
        "10.0 / 0",
        "0.1 + 0.2",
        "1.10 * 1.10",
        "1e-5 * 3",
        "5::numeric / 2",
        "1::numeric / 3::numeric",
        "0.00001 / 3",
        "100000.0 / 3",
        "1 / 30000.0",
        "12345678901234567890.5 + 1",
    ],
    "rounding and casts of numbers": [
        *_each("{}::int", ["0.5", "1.5", "2.5", "-0.5", "-1.5", "-2.5", "0.49"], "numeric"),
        *_each("{}::int", ["0.5", "1.5", "2.5", "-0.5", "-1.5", "2.51"], "float8"),
        *_each("round({})", EXACT, "numeric(12,2)"),
        *_each("round({}, 1)", ["0.05", "0.15", "-0.25", "2.35"], "numeric(12,2)"),
        *_each("round({}, -1)", ["5", "15", "-25", "14"], "numeric(12,2)"),
        *_each("ceil({})", EXACT, "numeric(12,2)"),
        *_each("floor({})", EXACT, "numeric(12,2)"),
        *_each("trunc({})", EXACT, "numeric(12,2)"),
        *_each("trunc({}, 1)", EXACT, "numeric(12,2)"),
        *_each("round({})", ["0.5", "1.5", "2.5", "-0.5", "-1.5", "1e300"], "float8"),
        *_each("ceil({})", FLOATS, "float8"),
        *_each("floor({})", FLOATS, "float8"),
        *_each("{}::numeric(5,1)", ["0.05", "-0.05", "9999.94", "9999.95"], "numeric"),
        "300::smallint",
        "40000::smallint",
        "'12'::int",
        "' 12 '::int",
        "'12.5'::int",
        "'abc'::int",
        "round(5)",
        "ceil(5)",
        "round(2.5::float8, 1)",
        "1.5::float8::numeric",
        "trunc(-1.7)",
        "5::text",
        "1.50::numeric(5,2)::text",
        "1.5::numeric::text",
        "true::int",
        "5::boolean",
        "0::boolean",
        "2.5::text",
        "true::text",
        "'t'::boolean",
        "'of'::boolean",
        "'o'::boolean",
        "sign(-2.5)",
        "sqrt(2::float8)",
        "sqrt(-1::float8)",
        "sqrt(4.0)",
        "greatest(1, NULL, 3)",
        "least(2, 1.5)",
        "greatest('a', 'b')",
        "12345::bigint::int",
        "3000000000::bigint::int",
    ],
    "double precision": [
        *_pairs("{} + {}", FLOATS, ["0.1", "1e300"], "float8"),
        *_pairs("{} * {}", FLOATS, ["0.1", "1e300", "1e-300"], "float8"),
        *_pairs("{} / {}", FLOATS, ["3", "1e-300", "0"], "float8"),
        "1 + 0.5::float8",
        "0.1::float8 = 0.1",
        "1e308::float8 * 10",
        "-(0.5::float8)",
        "2 ^ 3",
        "power(2, 3)",
        "exp(1)",
        "ln(2)",
        "5.5::float8 % 2",
        "1.5::float4 + 1",
        "1.5::real::float8",
        "1e40::float8::real",
    ],
    "|| and concat": [
        *_texts(
            "{} || 'x'", "'x' || {} || 1", "concat({}, 'y', NULL)", "concat_ws('-', {}, 'z', NULL)"
        ),
        "'a' || NULL",
        "1 || 'a'",
        "'a' || 1.50::numeric(5,2)",
        "true || 'a'",
        "concat(true)",
        "concat(1, 2)",
        "1 || 2",
        "'a' || 1.5::float8",
        "'d' || date '2024-01-02'",
        "concat_ws(NULL, 'a')",
    ],
    "functions of texts": [
        *_texts(
            "length({})",
            "octet_length({})",
            "upper({})",
            "lower({})",
            "reverse({})",
            "btrim({})",
            "ltrim({})",
            "rtrim({})",
            "replace({}, 'X', '--')",
            "md5({})",
        ),
        *_texts(
            "left({}, 2)",
            "left({}, -1)",
            "left({}, 0)",
            "right({}, 2)",
            "right({}, -1)",
            "strpos({}, 'X')",
            "position('b' in {})",
            "starts_with({}, 'a')",
        ),
        *_texts(
            "lpad({}, 5, '*')",
            "lpad({}, 2)",
            "rpad({}, 5, 'xy')",
            "repeat({}, 2)",
            "repeat({}, -1)",
            "split_part({}, 'X', 2)",
            "split_part({}, 'X', 9)",
            "translate({}, 'aX', 'b')",
            "trim(both 'ab' from {})",
            "ltrim({}, 'a')",
            "rtrim({}, 'cX')",
        ),
        "replace('abc', '', 'x')",
        "strpos('abc', '')",
        "lpad('abc', -1)",
        "split_part('a,b', ',', 0)",
        "split_part('a,b', ',', -1)",
        "split_part('ab', '', 1)",
        "initcap('ab cd')",
        "to_hex(255)",
        "chr(65)",
        "ascii('a')",
        "format('%s', 1)",
        "quote_literal('a')",
        "btrim('xx', '')",
        "length('a' || chr(0))",
        "upper(5)",
    ],
    "substring": [
        *_texts(
            "substring({}, 2)",
            "substring({}, 2, 1)",
            "substring({}, 0, 2)",
            "substring({}, -1, 3)",
            "substring({} from 1 for 2)",
            "substr({}, 2, 100)",
        ),
        "substring('abc', 1, -1)",
        "substring('abc', 2147483647, 10)",
        "substring('abc', 2, 2147483647)",
        "substring('abcdef' from 'b.d')",
        "substring('abc' for 2)",
        "substring('abc', 1, 0)",
        "substring('abc', NULL)",
        "substring('abc' from 0)",
    ],
    "LIKE and regular expressions": [
        *_texts(
            "{} LIKE 'a%'",
            "{} LIKE '%b_c'",
            "{} ILIKE 'A%'",
            "{} NOT LIKE '%x%'",
            "{} ~ '^a'",
            "{} ~ 'c$'",
            "{} ~ '[a-c]+X'",
            "{} !~ 'b'",
            "{} ~* '^AB'",
            "{} ~ '^(a|x).*c$'",
        ),
        "'a%b' LIKE 'a\\%b'",
        "'a\\b' LIKE 'a\\\\b'",
        "'axb' LIKE 'a!%b' ESCAPE '!'",
        "'a%b' LIKE 'a!%b' ESCAPE '!'",
        "'ab' LIKE 'a\\b'",
        "'a' LIKE 'a\\'",
        "'a' || e'\\n' LIKE 'a_'",
        "('a' || e'\\n') ~ 'a$'",
        "('a' || e'\\n' || 'b') ~ 'a.b'",
        "'5' ~ '\\d'",
        "'a5' ~ '^\\w+$'",
        "'foo' ~ 'o{2}'",
        "'foo' ~ '(?i)FOO'",
        "'foo' ~ 'f(?=o)'",
        "'a.b' ~ 'a\\.b'",
        "'ab' SIMILAR TO 'a(b|c)'",
        "regexp_replace('foo', 'o', 'x')",
        "'a' ~ NULL",
        "'aa' ~ '(a)\\1'",
        "'x' ~ '[[:alpha:]]'",
        "'Ä' ILIKE 'ä'",
        "'ä' ~* 'Ä'",
    ],
    "dates and times": [
        *_each("{} + 1", DATES, "date"),
        *_each("{} - 60", DATES, "date"),
        *_pairs("{} - {}", DATES, ["2024-01-01", "1582-10-15"], "date"),
        *_each("{} + interval '1 month'", DATES, "date"),
        *_each("{} - interval '1 year 2 days'", TIMES, "timestamp"),
        *_each("{} + interval '1 month 1 day 01:30:00'", TIMES, "timestamp"),
        *_each("{} + interval '90 minutes'", TIMES, "timestamptz"),
        *[
            f
            for unit in ("year", "month", "day", "dow", "isodow", "doy", "week", "quarter")
            for f in _each(f"extract({unit} from {{}})", DATES, "date")
        ],
        *[
            f
            for unit in ("hour", "minute", "second", "epoch")
            for f in _each(f"extract({unit} from {{}})", TIMES, "timestamptz")
        ],
        *[
            f
            for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
            for f in _each(f"date_trunc('{unit}', {{}})", TIMES, "timestamp")
        ],
        *_each("date_trunc('month', {})", TIMES, "timestamptz"),
        *_each("to_char({}, 'YYYY-MM-DD HH24:MI:SS')", TIMES, "timestamp"),
        *_each("to_char({}, 'DD/MM/YYYY')", DATES[:4], "date"),
        *_each("{}::date", TIMES, "timestamp"),
        *_each("{}::timestamp", DATES, "date"),
        *_each("{}::text", TIMES, "timestamp"),
        *_each("{}::text", DATES, "date"),
        *_pairs("{} - {}", TIMES, TIMES[1:2], "timestamp"),
        "date '2024-01-31' + 1.5",
        "'2024-01-31'::date = '2024-01-31'",
        "date '2024-02-30'",
        "'Jan 1 2024'::date",
        "'infinity'::date",
        "age(date '2024-01-01')",
        "date '2024-01-01' < timestamp '2024-01-01 00:00:01'",
        "date_part('year', date '2024-05-05')",
        "make_date(2024, 2, 29)",
        "make_date(2023, 2, 29)",
        "to_char(1234.5, '9999.99')",
        "to_char(date '2024-01-01', 'Mon')",
        "interval '1 day' * 2",
        "timestamp '2024-01-01' at time zone 'UTC'",
        "extract(century from date '2024-01-01')",
        "'2024-01-01 12:00+02'::timestamptz = '2024-01-01 10:00Z'::timestamptz",
        "date '2024-01-31' + interval '1 month' = timestamp '2024-02-29'",
        "extract(epoch from date '1970-01-02')",
        "date_trunc('decade', timestamp '2024-01-01')",
        "'12:30'::time",
        "now() = now()",
    ],
    "NULL, comparison and conditions": [
        "NULL = NULL",
        "NULL IS NULL",
        "NULL IS NOT NULL",
        "1 NOT BETWEEN 0 AND 2",
        "1 NOTNULL",
        "true IS NOT TRUE",
        "'a' NOT ILIKE 'A!%' ESCAPE '!'",
        "1 IS DISTINCT FROM NULL",
        "NULL IS NOT DISTINCT FROM NULL",
        "1 IN (2, NULL)",
        "1 IN (1, NULL)",
        "1 NOT IN (2, NULL)",
        "NULL AND false",
        "NULL OR true",
        "NOT NULL::boolean",
        "coalesce(NULL, 2)",
        "nullif(1, 1)",
        "nullif(1, 2)",
        "nullif('a', 'b')",
        "1 BETWEEN 0 AND 2",
        "2 BETWEEN SYMMETRIC 3 AND 1",
        "'1' = 1",
        "'a' < 'B'",
        "'a' = 'a '",
        "(1, 2) = (1, 2)",
        "(1, NULL) = (1, 2)",
        "(1, 2) < (1, 3)",
        "true > false",
        "CASE WHEN NULL THEN 1 ELSE 2 END",
        "CASE 1 WHEN 1 THEN 'a' WHEN NULL THEN 'b' END",
        "CASE WHEN true THEN 1 ELSE 2.5 END",
        "CASE WHEN true THEN 1 ELSE 'x' END",
        "coalesce(1, 2.5)",
        "1 = 1.0",
        "1 = ANY(ARRAY[1,2])",
        "3 = ANY(ARRAY[1,2,NULL])",
        "1 < ALL(ARRAY[2,3])",
        "true IS TRUE",
        "NULL IS TRUE",
        "NULL::boolean IS NOT FALSE",
        "NULL IS UNKNOWN",
        "'2024-01-01' < date '2024-01-02'",
        "'a' = 1",
        "1.5 > 1",
        "0.1::float8 > 0.1",
        "1 <> 2",
        "1 != 1",
        "NULL::int + 1",
        "ARRAY[1,2]",
        "ARRAY[1,2] || 3",
        "(ARRAY[1,2])[1]",
        "array_length(ARRAY[1,2], 1)",
        "'{1,2}'::int[]",
        "ARRAY['a', NULL]",
        "num_nulls(1, NULL)",
        "'A' = 'a'",
        "1::int8 = 1::int2",
        "@ -5",
        "5 # 3",
        "~1",
        "1 << 2",
        "6 & 3",
        "'a' COLLATE \"C\" < 'b'",
        "gen_random_uuid()",
        "'550e8400-e29b-41d4-a716-446655440000'::uuid::text",
        "'550E8400-E29B-41D4-A716-446655440000'::uuid::text",
        "random() < 2",
        "1::bit",
        "'{}'::jsonb",
        "$$it's$$",
        "E'a\\tb'",
        "'a\\nb'",
        "U&'\\0061'",
        "B'101'",
        "1e3",
        "1e-3",
        "0x1F",
        "1_000",
        "123456789012345678901234567890",
        "12345678901234567890123456789012345678901234567890",
    ],
}

COLUMNS = (
    "i + j",
    "i / 3",
    "n / m",
    "n * m",
    "n + i",
    "i::text || s",
    "upper(p)",
    "left(s, i % 3)",
    "substring(s, i % 3, 2)",
    "coalesce(n, i)",
    "d + (i % 10)",
    "CASE WHEN i > 0 THEN n ELSE m END",
    "n / nullif(i, 0)",
    "s || p",
    "s < p",
    "i = n",
    "f * 2",
    "d - date '2024-01-01'",
    "date_trunc('month', ts)",
    "extract(year from ts)",
    "nullif(s, '')",
    "round(n, 1)",
    "n::int",
    "greatest(i, j)",
    "strpos(s, p)",
    "repeat(p, 2)",
)
AGGREGATES = (
    "count(*)",
    "count(s)",
    "count(DISTINCT p)",
    "sum(i)",
    "sum(n)",
    "sum(i::bigint)",
    "avg(i)",
    "avg(n)",
    "avg(i::bigint)",
    "avg(DISTINCT i)",
    "min(s)",
    "max(d)",
    "min(n)",
    "bool_and(i > 0)",
    "bool_or(i > 0)",
    "count(*) FILTER (WHERE i > 0)",
    "avg(i) FILTER (WHERE i > 5)",
    "sum(i) FILTER (WHERE i > 1000000)",
    "sum(n) / count(*)",
    "max(ts) - min(ts)",
    "sum(i) * 2",
    "avg(n) > 1",
)


ORDERED = ("string_agg(p, ',' ORDER BY p, i)", "string_agg(s, '' ORDER BY i DESC)")


def expressions() -> list[tuple[str, str]]:
    """Family and expression, each once."""
    found = {text: family for family, texts in FAMILIES.items() for text in texts}
    return [(family, text) for text, family in found.items()]


@lru_cache(maxsize=4096)
def refused(text: str) -> str | None:
    """Why an expression is refused before it runs; None: it is not."""
    try:
        holder = exp.Paren(this=parse_postgres(f"SELECT {text} AS x")[0])
        query_in(holder.this, unknown, {})
    except TrickleError as error:
        return error.message
    return None
