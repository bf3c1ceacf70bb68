"""``trickle bench``: measure, show progress, print the table, keep record and picture."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from spark_trickle.cli import output
from spark_trickle.cli.outcome import ending
from spark_trickle.errors import UserError

if TYPE_CHECKING:
    from spark_trickle.tpch.bench import BenchOptions

app = typer.Typer(help="Measure how much faster deltas are.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Measure how much faster deltas are."""


@app.command()
@ending
def tpch(
    sf: Annotated[float, typer.Option(help="Scale: 1 has 6 million lineitems.")] = 1.0,
    churn: Annotated[
        float, typer.Option(help="Fraction of the rows that a cycle changes.")
    ] = 0.001,
    cycles: Annotated[int, typer.Option(help="Cycles that are measured; one warms up.")] = 3,
    queries: Annotated[str, typer.Option(help="Which of the 22, such as 1,3,18.")] = "",
    ends_only: Annotated[bool, typer.Option(help="Orders come and go, nothing else.")] = False,
    full: Annotated[bool, typer.Option(help="Measure mode FULL too.")] = True,
    auto: Annotated[bool, typer.Option(help="Measure mode AUTO too.")] = True,
    alone: Annotated[bool, typer.Option(help="Measure the queries by themselves too.")] = True,
    opponents: Annotated[
        bool, typer.Option(help="Measure plain Spark and DuckDB over clean files too.")
    ] = True,
    memory: Annotated[str, typer.Option(help="Memory of the Spark driver.")] = "4g",
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("bench/results"),
) -> None:
    """The 22 queries of TPC-H as stream tables, against recomputing them over clean files."""
    from spark_trickle.tpch.bench import BY_DELTA, CHOSEN, ENDS, IN_FULL, SCATTERED, BenchOptions

    options = BenchOptions(
        scale=sf,
        fraction=churn,
        cycles=cycles,
        numbers=_numbers(queries),
        modes=(BY_DELTA, *((IN_FULL,) if full else ()), *((CHOSEN,) if auto else ())),
        alone=alone,
        kinds=(ENDS,) if ends_only else (SCATTERED,),
    )
    _run(options, memory, out, opponents=opponents)


def _numbers(text: str) -> tuple[int, ...]:
    from spark_trickle.tpch import queries

    try:
        chosen = tuple(int(word) for word in text.split(",") if word.strip())
    except ValueError:
        chosen = (0,)
    if any(number not in queries.NUMBERS for number in chosen):
        raise UserError(f"{text!r} does not name queries", hint="give numbers from 1 to 22: 1,3,18")
    return chosen or tuple(queries.NUMBERS)


def _run(options: BenchOptions, memory: str, out: Path, *, opponents: bool) -> None:
    import spark_trickle
    from spark_trickle.tpch import bench, chart, data, results
    from spark_trickle.tpch.opponents import Opponents

    settings = spark_trickle.Settings(spark={"spark.driver.memory": memory})
    with _bar() as bar, tempfile.TemporaryDirectory(prefix="trickle-bench-") as temporary:
        task = bar.add_task("start", total=None)

        def told(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        folder = data.generate(options.scale, progress=told)
        with spark_trickle.connect(Path(temporary) / "lake", settings=settings) as lake:
            others = Opponents(lake, Path(temporary)) if opponents else None
            measured = bench.run(
                lake, folder, options, lambda p: told(p.what, p.done, p.total), others
            )
    if others is not None and others.duck is None:
        output.console.print(
            "DuckDB is not installed, so its column is empty: pip install 'spark-trickle[bench]'"
        )
    found = results.lines(measured)
    output.console.print(results.table(found), highlight=False, soft_wrap=True)
    name = f"tpch-sf{options.scale:g}-{options.kinds[0]}-{options.fraction:g}"
    out.mkdir(parents=True, exist_ok=True)
    title = f"TPC-H-derived queries at scale {options.scale:g}, {options.fraction:.2%} changed"
    for suffix, text in (
        ("json", results.record(options, measured)),
        ("txt", results.table(found) + "\n"),
        ("svg", chart.svg(title, found)),
    ):
        (out / f"{name}.{suffix}").write_text(text, encoding="utf-8")
    output.console.print(f"saved as {out / name}.json, .txt and .svg", style="dim")


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=output.console,
        transient=True,
    )
