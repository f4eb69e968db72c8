"""`podsim check`: do scenarios still give what they gave?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from podsim.cli.comparing import print_wide
from podsim.cli.counting import counted
from podsim.cli.ending import NOTHING_COMPARED, print_data, say
from podsim.cli.flags import ReportFile
from podsim.cli.outputs import check_paths, write_report
from podsim.errors import PodsimError
from podsim.format import format_counted

if TYPE_CHECKING:
    from podsim.study.check.cases import Case, Measured
    from podsim.study.check.verdict import Verdict

_BASELINE: Final = "podsim-baseline.json"
_DOES_NOT_HOLD: Final = 1


class CheckFormat(StrEnum):
    """How a verdict is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    GITHUB = "github"
    JUNIT = "junit"
    JSON = "json"


def check(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Scenario files, folders of them, or shipped names.")
    ],
    baseline: Annotated[
        Path | None, typer.Option(help=f"What was agreed on; {_BASELINE} beside the first path if it is there.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="REVISION", help="Compare with what this git revision gives instead.")
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Agree on what is given now: rewrite the baseline.")] = False,
    reason: Annotated[str, typer.Option(help="Why; kept in the baseline.")] = "",
    output_format: Annotated[CheckFormat, typer.Option("--format", help="What to print.")] = CheckFormat.TEXT,
    report: ReportFile = None,
) -> None:
    """Compare what scenarios give with a baseline, and with what they expect.

    Exit code 1 if that does not hold, 5 if there is nothing to compare with.
    """
    from podsim.study.check.baseline import read_baseline
    from podsim.study.check.cases import cases_of, file_of
    from podsim.study.check.run import measure_all, of_revision
    from podsim.study.check.verdict import verdict_on

    for is_wrong, what, do in (
        (baseline and against, "`--against` does without a baseline", "leave `--against` or `--baseline` out"),
        (accept and against, "`--accept` writes a baseline, which `--against` does without", "leave one of them out"),
        (accept and not reason.strip(), "a baseline needs a reason", 'add `--reason "…"`, for the review of it'),
        (accept and report, "`--report` shows a verdict, and `--accept` gives none", "leave one of them out"),
        (reason and not accept, "`--reason` belongs to `--accept`", "add `--accept`, or leave it out"),
    ):
        if is_wrong:
            raise PodsimError(what, do=do)
    check_paths(None, report=report)
    file = baseline or (paths[0] if paths[0].is_dir() else paths[0].parent) / _BASELINE
    files = [file_of(path) for path in paths]
    cases = list(cases_of(files, file.parent))
    known, compared_with = None, ""
    if against:
        known, compared_with = of_revision(against, files, file.parent), f"revision {against}"
    elif not accept and (baseline or file.exists()):
        known, compared_with = read_baseline(file), str(file)
    elif not accept:
        say(f"no baseline: looking at expectations alone; `--accept --reason …` writes {file}")
    with counted("scenarios") as tell:
        now = measure_all(cases, tell)
    if accept:
        _accept(file, now, reason)
        return
    verdict = verdict_on(now, known, compared_with)
    _show(verdict, cases, output_format)
    write_report(report, verdict.report)
    if not verdict.holds or verdict.is_empty:
        raise typer.Exit(NOTHING_COMPARED if verdict.is_empty else _DOES_NOT_HOLD)


def _accept(file: Path, now: Mapping[str, Measured], reason: str) -> None:
    from podsim.study.check.baseline import Baseline, read_baseline, write_baseline
    from podsim.study.check.cases import NOT_READ

    wrong = next((each["reason"] for each in now.values() if each["status"] == NOT_READ), None)
    if wrong is not None:
        raise PodsimError(f"this is not accepted as it cannot be read: {wrong}", do="mend the file, then accept")
    before = read_baseline(file) if file.exists() else Baseline()
    after = before.with_measured(now, reason)
    write_baseline(file, after)
    for key in sorted({*before.tolerances} - {*after.tolerances}):
        say(f"dropped the tolerance of `{key}`, which nothing uses any more")
    say(f"wrote {file}: {format_counted(len(now), 'scenario')}")


def _show(verdict: Verdict, cases: list[Case], output_format: CheckFormat) -> None:
    from podsim.study.check import ci

    match output_format:
        case CheckFormat.TEXT:
            print_wide(verdict.report())
        case CheckFormat.MARKDOWN:
            print_data(f"{ci.as_comment(verdict)}\n")
        case CheckFormat.GITHUB:
            print_data(f"{ci.as_github(verdict, cases)}\n")
        case CheckFormat.JUNIT:
            print_data(f"{ci.as_junit(verdict)}\n")
        case CheckFormat.JSON:
            print_data(f"{verdict.to_json()}\n")
