"""`podsim check`: do scenarios still give what they gave?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from podsim.cli.comparing import print_wide
from podsim.cli.counting import counted
from podsim.cli.ending import NOTHING_COMPARED, print_data, say
from podsim.cli.pages import ReportFile, check_report, write_report
from podsim.errors import PodsimError
from podsim.format import format_counted

if TYPE_CHECKING:
    from podsim.many.checks.baseline import Baseline
    from podsim.many.checks.cases import Case, Measured
    from podsim.many.checks.verdict import Verdict

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
    from podsim.many.checks.cases import cases_of, file_of
    from podsim.many.checks.run import measure_all
    from podsim.many.checks.verdict import check as verdict_on

    _check_wishes(against, reason, accept=accept, baseline=baseline, report=report)
    check_report(report)
    file = baseline or _beside(paths[0])
    paths = [file_of(path) for path in paths]
    cases = list(cases_of(paths, file.parent))
    known = None if accept else _known(file, paths, against, given=baseline is not None)
    with counted("scenarios") as tell:
        now = measure_all(cases, tell)
    if accept:
        _accept(file, now, reason)
        return
    compared_with = f"revision {against}" if against else str(file) if known else ""
    verdict = verdict_on(now, known, compared_with)
    _show(verdict, cases, known, output_format)
    write_report(report, verdict.report)
    if not verdict.holds or verdict.is_empty:
        raise typer.Exit(NOTHING_COMPARED if verdict.is_empty else _DOES_NOT_HOLD)


def _check_wishes(
    against: str | None, reason: str, *, accept: bool, baseline: Path | None, report: Path | None
) -> None:
    wrong = (
        (baseline and against, "`--against` does without a baseline", "leave `--against` or `--baseline` out"),
        (accept and against, "`--accept` writes a baseline, which `--against` does without", "leave one of them out"),
        (
            accept and not reason.strip(),
            "a baseline needs a reason",
            'add `--reason "…"`, for those who review the change',
        ),
        (accept and report, "`--report` shows a verdict, and `--accept` gives none", "leave one of them out"),
        (reason and not accept, "`--reason` belongs to `--accept`", "add `--accept`, or leave it out"),
    )
    for is_wrong, what, do in wrong:
        if is_wrong:
            raise PodsimError(what, do=do)


def _beside(path: Path) -> Path:
    return (path if path.is_dir() else path.parent) / _BASELINE


def _known(file: Path, paths: list[Path], against: str | None, *, given: bool) -> Baseline | None:
    """What to compare with; nothing but expectations where no baseline is there or asked for."""
    from podsim.many.checks.baseline import read_baseline
    from podsim.many.checks.run import of_revision

    if against is not None:
        return of_revision(against, paths, file.parent)
    if given or file.exists():
        return read_baseline(file)
    say(f"no baseline: looking at expectations alone; `--accept --reason …` writes {file}")
    return None


def _accept(file: Path, now: Mapping[str, Measured], reason: str) -> None:
    from podsim.many.checks.baseline import Baseline, read_baseline, write_baseline
    from podsim.many.checks.cases import NOT_READ

    wrong = next((each["reason"] for each in now.values() if each["status"] == NOT_READ), None)
    if wrong is not None:
        raise PodsimError(f"this is not accepted as it cannot be read: {wrong}", do="mend the file, then accept")
    before = read_baseline(file) if file.exists() else Baseline()
    after = before.with_measured(now, reason)
    write_baseline(file, after)
    for key in sorted({*before.tolerances} - {*after.tolerances}):
        say(f"dropped the tolerance of `{key}`, which nothing uses any more")
    say(f"wrote {file}: {format_counted(len(now), 'scenario')}")


def _show(verdict: Verdict, cases: list[Case], known: Baseline | None, output_format: CheckFormat) -> None:
    from podsim.many.checks import ci

    match output_format:
        case CheckFormat.TEXT:
            print_wide(verdict.report())
        case CheckFormat.MARKDOWN:
            print_data(f"{ci.as_comment(verdict)}\n")
        case CheckFormat.GITHUB:
            print_data(f"{ci.as_github(verdict, *_places(verdict, cases, known))}\n")
        case CheckFormat.JUNIT:
            print_data(f"{ci.as_junit(verdict)}\n")
        case CheckFormat.JSON:
            print_data(f"{verdict.to_json()}\n")


def _places(verdict: Verdict, cases: list[Case], known: Baseline | None) -> tuple[dict[str, str], dict[str, int]]:
    """Paths of scenarios and of inputs that changed, as seen from the repository, and the lines that changed."""
    from podsim.git import first_change
    from podsim.many.checks.cases import input_file

    top = _workspace()
    places = {case.name: _seen_from(top, case.path) for case in cases}
    lines: dict[str, int] = {}
    for issue in verdict.issues:
        for name in issue.files:
            file = input_file(name, cases[0].home)
            if file is None or name in places:
                continue
            places[name] = _seen_from(top, file)
            agreed = frozenset(known.scenarios[issue.case]["inputs"].values()) if known else frozenset()
            line = first_change(file, partial(_is_one_of, agreed), file.read_bytes())
            if line is not None:
                lines[places[name]] = line
    return places, lines


def _is_one_of(digests: frozenset[str], content: bytes) -> bool:
    return sha256(content).hexdigest() in digests


def _workspace() -> Path:
    """The folder from which GitHub names files: the checkout, or the repository, or where the command runs."""
    from podsim.git import top_of

    given = os.environ.get("GITHUB_WORKSPACE")
    try:
        return Path(given) if given else top_of(Path.cwd(), "", "")
    except PodsimError:
        return Path.cwd()


def _seen_from(top: Path, file: Path) -> str:
    path, folder = file.resolve(), top.resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(file)
