"""Commands over many runs: `whatif`, `sweep`, `plan`, `compare` and `check`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from podsim.cli.asking import Ask, asks
from podsim.cli.ending import BEYOND_LIMITS, NOTHING_COMPARED, say
from podsim.cli.outputs import FORMAT, Format, Page, Plot, TextFormat, counted, show, tell_written
from podsim.errors import InfeasibleError, PodsimError
from podsim.format import format_counted
from podsim.options import Shell

_DOES_NOT_HOLD: Final = 1


@asks("podsim.study.whatif.whatif")
def whatif(ask: Ask, output_format: TextFormat = "text", plot: Plot = None, report: Page = None) -> None:
    """Rank what twice the links, clock or memory would bring, each alone, for one workload or several."""
    with counted("workloads") as tell:
        answer = ask.func(*ask.args, **ask.keywords, tell=tell)
    show(answer, output_format, plot, report)


@asks("podsim.study.sweep.sweep")
def sweep(ask: Ask, plot: Plot = None, metric: str | None = None, report: Page = None) -> None:
    """Simulate every point of a study, and go on where it was stopped.

    Args:
        metric: Column that points are compared by, and that the chart shows; throughput if left out.
    """
    from podsim.result.files import check_outputs
    from podsim.scenario.library import find
    from podsim.study.sweep import sheet_of
    from podsim.study.sweep_report import check_metric

    if metric is not None:
        check_metric(metric)
    given = ask.keywords
    file = find(given["study"], "study", ())
    table = Path(given.setdefault("output", f"{file.stem}.parquet"))
    check_outputs({"table": table, "plot": plot, "report": report}, [("the study", file)])
    with counted("points", f"the same command{' without --restart' * given['restart']}") as tell:
        swept = ask(
            tell=tell, look=lambda count: say(f"looking for those of {count:,} combinations that `where` lets through")
        )
    if swept.simulated:
        tell_written(table)
    else:
        say(f"{table} holds this study already")
    show(swept, "table", plot, report, shown=swept.report(metric), sheet=lambda shown: sheet_of(swept, shown))
    if "failed" in swept.by_status:
        raise typer.Exit(1)


@asks("podsim.study.plan.plan")
def plan(
    ask: Ask,
    output_format: Format = "table",
    plot: Plot = None,
    save: Annotated[Path | None, Shell(("--save-dir",), "DIR")] = None,
    report: Page = None,
) -> None:
    """Rank systems and divisions by what counts, within limits, and say what rules the others out.

    Args:
        save: Write the best scenario there, ready to run.
    """
    from podsim.result.files import check_outputs, files_read, write_atomically
    from podsim.show.markdown import to_csv
    from podsim.study.plan.report import option_table

    goal = Path(ask.keywords["goal"])
    check_outputs({"plot": plot, "report": report}, [("the goal", goal)])
    aside = Path(f"{goal.stem if goal.is_file() else goal}.journal")
    with counted("candidates") as tell:
        answer = ask(tell=tell, say=say, aside=aside)
    own = {"csv": lambda: to_csv(option_table(answer, [*answer.ranked, *answer.ruled_out]))}
    show(answer, output_format, plot, report, own=own)
    if save is not None and answer.best is not None:
        check_outputs({name: save / name for name in answer.best.files}, files_read(answer.inputs))
        save.mkdir(parents=True, exist_ok=True)
        for name, text in answer.best.files.items():
            write_atomically(save / name, text.encode())
            tell_written(save / name)
    if not answer.ranked:
        loosen = "loosen the limit that rules most out, or " if answer.goal.bounds else ""
        raise InfeasibleError("nothing reaches the goal", do=f"{loosen}add systems")


@asks("podsim.study.compare.compare")
def compare(
    ask: Ask,
    output_format: TextFormat = "text",
    unchanged: Annotated[bool, Shell(("--all",))] = False,
    precision: Annotated[int, Shell(least=2, most=15)] = 4,
    plot: Plot = None,
    report: Page = None,
    fail_on: Literal["worse"] | None = None,
) -> None:
    """Compare results with the first: what changed and why, time by kind, and what differs in the inputs.

    Args:
        unchanged: Show what is the same, too.
        precision: Significant digits.
        fail_on: Exit with 4 if a metric is worse than that of A, beyond their ranges.
    """
    from podsim.show.progress import track

    answer = ask(watch=lambda names: track(names, "comparing:"))
    show(answer, output_format, plot, report, shown=answer.report(unchanged=unchanged, precision=precision))
    if fail_on is not None and answer.is_worse:
        raise typer.Exit(BEYOND_LIMITS)


@asks("podsim.study.check.measure.check")
def check(
    ask: Ask,
    accept: bool = False,
    reason: str = "",
    output_format: Annotated[Literal["text", "markdown", "github", "junit", "json"], FORMAT] = "text",
    report: Page = None,
) -> None:
    """Compare what scenarios give with a baseline, and with what they expect.

    Exit code 1 if that does not hold, 5 if there is nothing to compare with.

    Args:
        accept: Agree on what is given now: rewrite the baseline.
        reason: Why; kept in the baseline.
    """
    from podsim.study.check.measure import BASELINE, folder_of, paths_left_out
    from podsim.study.check.measure import accept as agree
    from podsim.study.check.verdict import as_comment, as_github, as_junit

    baseline, against = ask.keywords.get("baseline"), ask.keywords.get("against")
    for is_wrong, what, do in (
        (baseline and against, "`--against` does without a baseline", "leave `--against` or `--baseline` out"),
        (accept and against, "`--accept` writes a baseline, which `--against` does without", "leave one of them out"),
        (accept and not reason.strip(), "a baseline needs a reason", 'add `--reason "…"`, for the review of it'),
        (accept and report, "`--report` shows a verdict, and `--accept` gives none", "leave one of them out"),
        (reason and not accept, "`--reason` belongs to `--accept`", "add `--accept`, or leave it out"),
    ):
        if is_wrong:
            raise PodsimError(what, do=do)
    if not ask.args:
        paths, baseline = paths_left_out(baseline)
        ask = partial(ask.func, *paths, **ask.keywords)
    file = Path(baseline or folder_of(ask.args[0]) / BASELINE)
    if accept:
        with counted("scenarios") as tell:
            count, unused = agree(ask.args, file, reason, tell)
        for key in unused:
            say(f"dropped the tolerance of `{key}`, which nothing uses any more")
        say(f"wrote {file}: {format_counted(count, 'scenario')}")
        return
    if not against and file.exists():
        ask.keywords["baseline"] = file
    with counted("scenarios") as tell:
        verdict = ask(tell=tell)
    if verdict.agreed is None:
        say(f"no baseline: looking at expectations alone; `--accept --reason …` writes {file}")
    formats = {"markdown": as_comment, "github": as_github, "junit": as_junit}
    own = {name: partial(made, verdict) for name, made in formats.items()}
    show(verdict, output_format, report=report, own=own)
    if not verdict.holds or verdict.is_empty:
        raise typer.Exit(NOTHING_COMPARED if verdict.is_empty else _DOES_NOT_HOLD)
