"""Which way a refresh goes: what rules it out, then its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.keys.needs import Need
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import InvariantError, TrickleError, UnsupportedQueryError
from spark_trickle.ir.types import Side
from spark_trickle.maintain.gather.finding import domain
from spark_trickle.maintain.records.history import RefreshReport, measured
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.job import Choice, Pinned, StagedRefresh, source_size
from spark_trickle.maintain.refresh.strategy import choose
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import ScanPlan

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run


def ruled(
    stream: StreamTable, asked: str, compiled: CompiledQuery, pinned: Mapping[str, Pinned]
) -> Choice | None:
    """The way that has to be gone, whatever it costs; None: it is a question of cost."""
    judged = compiled.verdict
    if not stream.populated:
        return Choice("FULL", "INITIALIZE", "the stream table has no contents yet")
    if asked == "FULL":
        return Choice("FULL", "ASKED", "FULL was asked for")
    if isinstance(judged, FullOnly):
        if asked == "DIFFERENTIAL":
            raise UnsupportedQueryError(
                judged.message, code=judged.code, position=judged.position, hint=judged.hint
            )
        return Choice("FULL", judged.code, judged.message)
    if any(source.changes is None for source in pinned.values()):
        return Choice("FULL", "HISTORY_EXPIRED", "the changes of a source are gone")
    if asked == "DIFFERENTIAL":
        return Choice(_by_delta(compiled), "ASKED", "DIFFERENTIAL was asked for")
    return None


def cheapest(
    catalog: Catalog,
    stream: StreamTable,
    compiled: CompiledQuery,
    pinned: Mapping[str, Pinned],
    report: RefreshReport,
) -> Choice:
    """The way that AUTO goes."""
    with catalog.reading() as connection:
        history = measured(connection, stream.uuid)
    reads = share_read(compiled, pinned)
    choice = choose(history, report.delta_rows, source_size(pinned)[0], reads)
    if choice.mode != "DIFFERENTIAL":
        return choice
    return Choice(_by_delta(compiled), choice.code, choice.text, choice.budget)


def _by_delta(compiled: CompiledQuery) -> str:
    return "TOPK" if compiled.topk is not None else "DIFFERENTIAL"


def share_read(compiled: CompiledQuery, pinned: Mapping[str, Pinned]) -> float | None:
    """About what a delta reads of all bytes of the sources, from metadata; None: nobody knows.

    The largest scan of the delta counts: of a source that equalities tie to changed rows as much
    as if values were spread evenly, of others all of it.
    """
    plans = {name: source.relation() for name, source in pinned.items()}
    total = sum(plan.bytes for plan in plans.values())
    changed = frozenset(name for name, source in pinned.items() if source.changed_rows)
    if not total or not changed or compiled.timed:
        return None
    only = frozenset(n for n in changed if (c := pinned[n].changes) is not None and c.insert_only)
    most = 0.0
    for delta in compiled.delta(changed, only).parts:
        for need in delta.needs:
            plan = plans.get(need.source)
            if plan is not None and need.side is not Side.DELTA:
                rows = _rows(delta.needs, need, plans, pinned, frozenset())
                most = max(most, plan.bytes * rows / max(1, plan.rows))
    return most / total


def _rows(
    needs: tuple[Need, ...],
    need: Need,
    plans: Mapping[str, ScanPlan],
    pinned: Mapping[str, Pinned],
    above: frozenset[int],
) -> float:
    """About how many rows a scan of the delta needs."""
    if need.side is Side.DELTA:
        return float(pinned[need.source].changed_rows) if need.source in pinned else 1.0
    plan = plans.get(need.source)
    if plan is None:  # a part that is stored: as small as what ties to it
        return 1.0
    shares = [1.0]
    for column, bounds in need.keys.items():
        for origins in bounds:
            if any(number in above for number, _ in origins):
                continue
            values = sum(
                _rows(needs, needs[n], plans, pinned, above | {n}) for n in {n for n, _ in origins}
            )
            shares.append(values / domain(plan, column))
    return plan.rows * min(shares)


def bounded(
    choice: Choice,
    run: Run,
    work: Callable[[Choice], StagedRefresh],
    give_up: Callable[[], None],
) -> StagedRefresh:
    """Go the way that was chosen; a delta that overruns its budget is given up for a full run."""
    if choice.budget is None:
        return work(choice)
    from spark_trickle.calls import interrupted
    from spark_trickle.spark.budget import Budget

    with Budget(choice.budget) as budget:
        run.budget = budget
        try:
            return work(choice)
        except InvariantError:
            raise
        except TrickleError:
            if interrupted() or not budget.over:
                raise
        finally:
            run.budget = None
    give_up()
    told = f"the delta was cancelled after {choice.budget:.1f} s; it was chosen by {choice.reason}"
    return work(Choice("FULL", "OVERRUN", told))
