"""What the compiler must know about Spark's functions: which kind each one is.

The lists were taken from the function registry of Spark 4.2. A name that is in no list is a plain
function of its arguments.
"""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.ir.aggregates import function_name
from spark_trickle.ir.trees import holds


def _words(text: str) -> list[str]:
    return text.split()


AGGREGATES = frozenset(
    _words(
        """
        any any_value approx_count_distinct approx_percentile approx_top_k
        approx_top_k_accumulate approx_top_k_combine array_agg avg bit_and bit_or bit_xor
        bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list
        collect_set corr count count_if count_min_sketch covar_pop covar_samp every first
        first_value histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
        kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
        kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min
        min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx
        regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
        schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum
        theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
        tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
        tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp
        variance vector_avg vector_sum
        """
    )
)
"""Functions that turn many rows into one value."""

WINDOW_ONLY = frozenset(
    _words("cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number")
)
"""Functions that need an OVER clause."""

GENERATORS = frozenset(
    _words(
        "explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack "
        "variant_explode variant_explode_outer"
    )
)
"""Functions that turn one row into many."""

VOLATILE = frozenset(
    _words(
        """
        curdate current_catalog current_database current_date current_path current_schema
        current_time current_timestamp current_timezone current_user input_file_block_length
        input_file_block_start input_file_name java_method localtimestamp
        monotonically_increasing_id now rand randn random randstr reflect session_user shuffle
        spark_partition_id try_reflect uniform user uuid version
        """
    )
)
"""Functions whose value depends on more than their arguments."""

VOLATILE_CODE, UNPROVEN_CODE = "VOLATILE_FUNCTION", "UNPROVEN_FUNCTION"

ORDER_DEPENDENT = frozenset(
    _words("any_value array_agg collect_list collect_set first first_value last last_value")
)
"""Aggregates whose value depends on the order in which rows arrive."""

SORTING = frozenset(_words("array_sort sort_array"))
"""Functions whose value does not depend on the order of the elements they are given."""

UNIT_FIRST = frozenset(
    _words(
        "date_add date_diff dateadd datediff timediff timestampadd timestampdiff time_diff time_trunc"
    )
)
"""With three arguments, the first one is a unit such as DAY, not a column."""

EMPTY_COUNTS = frozenset(_words("approx_count_distinct count count_if regr_count"))
"""Aggregates that are 0 over no rows."""

EMPTY_ARRAYS = frozenset(_words("array_agg collect_list collect_set"))
"""Aggregates that are an empty array over no rows."""

EMPTY_SKETCHES = frozenset(
    name for name in AGGREGATES if "sketch" in name or "bitmap" in name or "top_k" in name
)
"""Aggregates that are neither NULL nor 0 over no rows."""

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def unwrapped(call: exp.Expr) -> exp.Expr:
    """The call inside FILTER, WITHIN GROUP and IGNORE NULLS."""
    while isinstance(call, _WRAPPERS):
        call = call.this
    return call


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate call, with its FILTER and the like around it."""
    call = unwrapped(node)
    return isinstance(call, exp.Func) and function_name(call) in AGGREGATES


def is_generator(node: exp.Expr) -> bool:
    """Whether a node is a call that makes many rows out of one."""
    return isinstance(node, exp.Func) and function_name(node) in GENERATORS


def is_volatile(node: exp.Expr) -> bool:
    """Whether the value of a call depends on more than its arguments."""
    if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp | exp.CurrentUser | exp.SessionUser):
        return True
    if not isinstance(node, exp.Func):
        return False
    name = function_name(node)
    # unix_timestamp() without arguments reads the clock; with arguments it is a conversion.
    if name in ("unix_timestamp", "to_unix_timestamp"):
        return not list(node.iter_expressions())
    # Without an initialisation vector of its own, aes_encrypt makes one up.
    if name == "aes_encrypt":
        return len(list(node.iter_expressions())) < 5
    return name in VOLATILE


def is_collated(node: exp.Expr) -> bool:
    """Whether a node gives a text another collation."""
    if isinstance(node, exp.Cast):
        # The type's own words: the name of a collation among them reads like a column.
        return holds(node.to, exp.Column, exp.Collate)
    name = function_name(node)
    if name in _WITH_TYPES:
        texts = (text.name.lower() for text in node.find_all(exp.Literal) if text.is_string)
        return any("collat" in text for text in texts)
    return isinstance(node, exp.Collate) or name == "collate"


_WITH_TYPES = frozenset(
    {"from_json", "from_csv", "from_xml", "from_avro", "variant_get", "try_variant_get"}
)
"""Functions that are given types as texts."""
