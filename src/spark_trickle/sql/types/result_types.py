"""Result types of Spark's functions, by name; a name that is not here has type UNKNOWN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.ir.decimals import decimal_parameters, decimal_type
from spark_trickle.ir.trees import duplicate
from spark_trickle.sql.text import Text
from spark_trickle.sql.types import coercion as c


@dataclass(frozen=True)
class TypedCall:
    """A function call whose arguments carry their types."""

    name: str
    node: exp.Expression
    given: list[exp.Expression]
    text: Text


def result_type(call: TypedCall) -> exp.DataType:
    """The type of a call; raises BindError where an argument has a type Spark refuses."""
    if len(call.given) == 1 and isinstance(call.given[0], exp.Distinct):
        call = replace(call, given=list(call.given[0].expressions))
    fixed = FIXED.get(call.name)
    if fixed is not None:
        return fixed
    rule = RULES.get(call.name)
    if rule is None or (not call.given and call.name not in ("array", "map")):
        return c.UNKNOWN
    return rule(call)


def _type(node: exp.Expression) -> exp.DataType:
    return node.type or c.UNKNOWN


def _first(call: TypedCall) -> exp.DataType:
    return _type(call.given[0])


def _second(call: TypedCall) -> exp.DataType:
    return _type(call.given[1]) if len(call.given) > 1 else c.UNKNOWN


def _number(call: TypedCall) -> None:
    type = _type(call.given[0])
    fits = c.is_numeric(type) or c.is_interval(type) or c.is_unknown(type)
    if not fits and type.this != c.Type.TEXT:
        raise call.text.error(
            call.node,
            f"{call.name} needs a number, but this is {c.spell(type)}",
            hint="cast the argument, or use count, min or max",
        )


def _sum(call: TypedCall) -> exp.DataType:
    _number(call)
    type = _type(call.given[0])
    if type.this in c.INTEGERS:
        return c.BIGINT
    decimal = decimal_parameters(type)
    if decimal is not None:
        return decimal_type(min(38, decimal[0] + 10), decimal[1])
    if type.this in (*c.FLOATS, c.Type.TEXT, c.Type.NULL):
        return c.DOUBLE
    return type


def _average(call: TypedCall) -> exp.DataType:
    _number(call)
    type = _type(call.given[0])
    decimal = decimal_parameters(type)
    if decimal is not None:
        return c.bounded(min(38, decimal[0] + 4), min(38, decimal[1] + 4))
    if c.is_interval(type) or type.this == c.Type.UNKNOWN:
        return type
    return c.DOUBLE


def _extreme(call: TypedCall) -> exp.DataType:
    type = _type(call.given[0])
    if not c.is_orderable(type):
        raise call.text.error(
            call.node,
            f"{call.name} needs values with an order, but this is {c.spell(type)}",
            hint=None,
        )
    return type


def _predicate(call: TypedCall) -> exp.DataType:
    type = _type(call.given[0])
    if not c.is_unknown(type) and type.this not in (c.Type.BOOLEAN, c.Type.TEXT):
        raise call.text.error(
            call.node,
            f"{call.name} needs a condition, but this is {c.spell(type)}",
            hint="compare it with something",
        )
    return c.BIGINT if call.name == "count_if" else c.BOOLEAN


def _common(call: TypedCall) -> exp.DataType:
    result: exp.DataType = c.NULL
    for argument in call.given:
        result = c.common(result, _type(argument)) or c.UNKNOWN
    return result


def _array(call: TypedCall) -> exp.DataType:
    return c.array_of(_common(call))


def _array_of_first(call: TypedCall) -> exp.DataType:
    return c.array_of(_type(call.given[0]))


def _element(call: TypedCall) -> exp.DataType:
    return c.element_of(_type(call.given[0]))


def _named_struct(call: TypedCall) -> exp.DataType:
    fields: list[exp.Expr] = []
    for key, value in zip(call.given[::2], call.given[1::2], strict=False):
        fields.append(exp.ColumnDef(this=exp.to_identifier(key.name), kind=duplicate(_type(value))))
    return exp.DataType(this=c.Type.STRUCT, expressions=fields, nested=True)


def _whole(call: TypedCall) -> exp.DataType:
    """ceil and floor: of a decimal a decimal without fraction, of anything else BIGINT."""
    decimal = decimal_parameters(_type(call.given[0]))
    if len(call.given) > 1 or _type(call.given[0]).this == c.Type.UNKNOWN:
        return c.UNKNOWN
    if decimal is None:
        return c.BIGINT
    return c.bounded(decimal[0] - decimal[1] + 1, 0)


def _round(call: TypedCall) -> exp.DataType:
    type = _type(call.given[0])
    decimal = decimal_parameters(type)
    if decimal is None:
        return type if c.is_numeric(type) else c.UNKNOWN
    precision, scale = decimal
    digits = call.given[1] if len(call.given) > 1 else exp.Literal.number(0)
    if not (isinstance(digits, exp.Literal) and digits.is_int):
        return c.UNKNOWN
    kept = min(int(digits.name), scale)
    return c.bounded(precision - scale + 1 + kept, kept)


def _absolute(call: TypedCall) -> exp.DataType:
    type = _type(call.given[0])
    return type if c.is_numeric(type) or c.is_interval(type) else c.UNKNOWN


def _date_or_time(call: TypedCall) -> exp.DataType:
    """Two arguments count days; three have a unit first and work on timestamps."""
    if call.name in ("datediff", "date_diff", "timestampdiff"):
        return c.INT if len(call.given) == 2 else c.BIGINT
    return c.DATE if len(call.given) == 2 else c.UNKNOWN


def _concat(call: TypedCall) -> exp.DataType:
    type = _type(call.given[0])
    if type.this == c.Type.ARRAY:
        return type
    return (
        c.STRING
        if all(
            _type(a).this not in (c.Type.UNKNOWN, c.Type.ARRAY, c.Type.BINARY) for a in call.given
        )
        else c.UNKNOWN
    )


def _text(call: TypedCall) -> exp.DataType:
    """A part of a text is a text, a part of bytes is bytes."""
    type = _type(call.given[0])
    return type if type.this in (c.Type.BINARY, c.Type.UNKNOWN) else c.STRING


def _by(call: TypedCall) -> exp.DataType:
    """max_by and min_by; with a number of rows, an array."""
    type = _type(call.given[0])
    return c.array_of(type) if len(call.given) > 2 else type


def _arithmetic(call: TypedCall) -> exp.DataType:
    """The functions that stand for an operator."""
    operator = _OPERATORS[call.name.removeprefix("try_")]
    if len(call.given) != 2:
        return c.UNKNOWN
    left, right = map(_type, call.given)
    if not (c.is_numeric(left) and c.is_numeric(right)):
        return c.UNKNOWN
    if c.Type.DECIMAL in (left.this, right.this) and not {left.this, right.this} & set(c.FLOATS):
        if any(isinstance(argument, exp.Literal) for argument in call.given):
            return c.UNKNOWN
        a, b = c.as_decimal(left), c.as_decimal(right)
        return c.UNKNOWN if a is None or b is None else c.decimal_result(operator, a, b)
    if operator is exp.Div and left.this not in c.FLOATS and right.this not in c.FLOATS:
        return c.DOUBLE
    return c.common(left, right) or c.UNKNOWN


_OPERATORS: dict[str, type[exp.Expr]] = {
    "add": exp.Add,
    "subtract": exp.Sub,
    "multiply": exp.Mul,
    "divide": exp.Div,
    "mod": exp.Mod,
    "pmod": exp.Mod,
}


def _map(call: TypedCall) -> exp.DataType:
    keys = _common(replace(call, given=call.given[::2]))
    values = _common(replace(call, given=call.given[1::2]))
    return c.map_of(keys, values)


def _map_part(call: TypedCall) -> exp.DataType:
    type = _type(call.given[0])
    if type.this != c.Type.MAP or len(type.expressions) != 2:
        return c.UNKNOWN
    return c.array_of(type.expressions[0 if call.name == "map_keys" else 1])


def _window(_: TypedCall) -> exp.DataType:
    fields = [
        exp.ColumnDef(this=exp.to_identifier(n), kind=duplicate(c.TIMESTAMP))
        for n in ("start", "end")
    ]
    return exp.DataType(this=c.Type.STRUCT, expressions=fields, nested=True)


def _percentile(call: TypedCall) -> exp.DataType:
    several = len(call.given) > 1 and _type(call.given[1]).this == c.Type.ARRAY
    number = c.is_numeric(_type(call.given[0]))
    if not number or several:
        return c.UNKNOWN
    return c.DOUBLE if call.name in ("percentile", "median") else _type(call.given[0])


def _names(type: exp.DataType, names: str) -> dict[str, exp.DataType]:
    return dict.fromkeys(names.split(), type)


FIXED: dict[str, exp.DataType] = {
    **_names(
        c.BIGINT,
        "approx_count_distinct array_position bigint count crc32 factorial grouping_id "
        "monotonically_increasing_id regr_count unix_micros unix_millis unix_seconds "
        "unix_timestamp to_unix_timestamp width_bucket xxhash64 bitmap_count hll_sketch_estimate",
    ),
    **_names(
        c.INT,
        "ascii bit_count bit_length char_length character_length cardinality day dayofmonth "
        "dayofweek dayofyear dense_rank find_in_set hash hour instr int len length levenshtein "
        "locate minute month ntile octet_length quarter rank regexp_count regexp_instr row_number "
        "second size array_size spark_partition_id unix_date weekday weekofyear year "
        "json_array_length position",
    ),
    **_names(c.plain(c.Type.TINYINT), "grouping tinyint"),
    **_names(c.plain(c.Type.SMALLINT), "smallint"),
    **_names(c.FLOAT, "float"),
    **_names(
        c.DOUBLE,
        "acos acosh asin asinh atan atan2 atanh cbrt corr cos cosh cot covar_pop covar_samp csc "
        "cume_dist degrees double e exp expm1 hypot kurtosis ln log log10 log1p log2 "
        "months_between percent_rank pi pow power radians rand randn random regr_avgx regr_avgy "
        "regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy rint sec sign signum sin "
        "sinh skewness sqrt std stddev stddev_pop stddev_samp tan tanh var_pop var_samp variance",
    ),
    **_names(
        c.STRING,
        "array_join base64 bin btrim char chr collation concat_ws conv current_catalog "
        "current_database current_schema current_timezone current_user decode date_format dayname elt format_number format_string "
        "from_unixtime get_json_object hex initcap input_file_name lcase listagg lower lpad ltrim string_agg "
        "mask md5 monthname parse_url printf quote randstr regexp_extract regexp_replace "
        "regexp_substr repeat replace rpad rtrim sha sha1 sha2 soundex space split_part "
        "string substring_index to_char to_csv to_json to_varchar to_xml "
        "translate trim typeof ucase upper url_decode url_encode uuid version "
        "schema_of_json schema_of_csv user session_user",
    ),
    **_names(c.plain(c.Type.BINARY), "aes_encrypt binary encode to_binary unbase64 unhex"),
    **_names(
        c.BOOLEAN,
        "array_contains arrays_overlap between boolean contains endswith equal_null exists forall "
        "ilike isnan isnotnull isnull like luhn_check map_contains_key regexp regexp_like rlike "
        "startswith is_valid_utf8 is_variant_null",
    ),
    **_names(
        c.DATE,
        "add_months curdate current_date date date_from_unix_date date_sub last_day make_date "
        "next_day to_date trunc try_to_date",
    ),
    **_names(
        c.TIMESTAMP,
        "current_timestamp date_trunc from_utc_timestamp now timestamp timestamp_micros "
        "timestamp_millis timestamp_seconds to_timestamp_ltz to_utc_timestamp "
        "make_timestamp make_timestamp_ltz to_timestamp try_make_timestamp try_to_timestamp",
    ),
    **_names(c.TIMESTAMP_NTZ, "localtimestamp make_timestamp_ntz to_timestamp_ntz"),
    **_names(c.array_of(c.STRING), "regexp_extract_all split json_object_keys"),
}

TypeRule = Callable[[TypedCall], exp.DataType]


def _rules(rule: TypeRule, names: str) -> dict[str, TypeRule]:
    return dict.fromkeys(names.split(), rule)


RULES: dict[str, TypeRule] = {
    **_rules(_sum, "sum try_sum"),
    **_rules(_average, "avg mean try_avg"),
    **_rules(_extreme, "min max"),
    **_rules(_predicate, "count_if bool_and bool_or every any some"),
    **_rules(
        _first,
        "any_value array_append array_compact array_distinct array_except array_insert "
        "array_intersect array_prepend array_remove array_union bit_and bit_or bit_xor filter "
        "first first_value lag last last_value lead map_filter "
        "nth_value nullif nullifzero positive reverse slice sort_array array_sort shuffle zeroifnull",
    ),
    **_rules(_second, "nvl2"),
    **_rules(_text, "left right substr substring overlay"),
    **_rules(_by, "max_by min_by"),
    **_rules(_arithmetic, "mod pmod try_add try_subtract try_multiply try_divide try_mod"),
    **_rules(_map, "map"),
    **_rules(_map_part, "map_keys map_values"),
    **_rules(_window, "window"),
    **_rules(_percentile, "percentile median percentile_approx approx_percentile"),
    **_rules(_absolute, "abs negative"),
    **_rules(_whole, "ceil ceiling floor"),
    **_rules(_round, "round bround"),
    **_rules(_common, "greatest least ifnull nvl coalesce nanvl"),
    **_rules(_array, "array"),
    **_rules(_array_of_first, "array_agg array_repeat collect_list collect_set sequence"),
    **_rules(_element, "array_max array_min element_at try_element_at get"),
    **_rules(_named_struct, "named_struct"),
    **_rules(_date_or_time, "date_add date_diff dateadd datediff timestampdiff"),
    **_rules(_concat, "concat"),
}
