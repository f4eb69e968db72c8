"""`podsim validate`: comparisons with published figures, ranges and noise, and limits on errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli.ending import BEYOND_LIMITS, say
from podsim.cli.outputs import tell_written
from podsim.cli.running import echo
from podsim.errors import PodsimError

if TYPE_CHECKING:
    from podsim.validation.comparison import Validation


class ValidationFormat(StrEnum):
    """How comparisons are printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    CSV = "csv"


class Role(StrEnum):
    """The use that a row is put to."""

    CALIBRATION = "calibration"
    HOLD_OUT = "hold_out"

    @property
    def as_written(self) -> str:
        """As the tables have it."""
        return self.value.replace("_", "-")


@dataclass(frozen=True, slots=True)
class ValidateRequest:
    """The question that is asked of the comparisons.

    Attributes:
        output_format: How they are printed.
        role: Only rows of this role.
        groups: Only groups whose name holds one of these texts.
        summary_only: Whether rows are left out.
        max_mean: Limit on the mean of the sizes of the errors. [%]
        max_worst: Limit on the size of the largest error. [%]
        score: A file of predictions with measurements, to look at instead of the published figures.
    """

    output_format: ValidationFormat
    role: Role | None = None
    groups: Sequence[str] = ()
    summary_only: bool = False
    max_mean: float | None = None
    max_worst: float | None = None
    score: Path | None = None


_PERCENT = 100


def _checked(option: str, percent: float | None) -> float | None:
    """A limit as a share; what is no number cannot be kept or broken."""
    if percent is None:
        return None
    if not 0 <= percent < math.inf:
        raise PodsimError(f"`{percent}` is no percentage", where=option, do=f"write `{option} 5` for 5 %")
    return percent / _PERCENT


def validate_as_asked(asked: ValidateRequest) -> bool:
    """Compare, print, and tell whether all limits are kept.

    Raises:
        PodsimError: No row is left to look at, or a limit is no number.
    """
    limits = _checked("--max-mean", asked.max_mean), _checked("--max-worst", asked.max_worst)
    from podsim.validation.comparison import verdicts_on
    from podsim.validation.freedom import freedom
    from podsim.validation.show import show

    everything = _published() if asked.score is None else _scored(asked.score)
    found = everything.only(asked.role and asked.role.as_written, asked.groups)
    if not found.comparisons:
        groups = ", ".join(dict.fromkeys(row.group for row in everything.comparisons))
        raise PodsimError(
            "no row with a prediction is left", do=f"leave `--role` out, or `--group` with part of: {groups}"
        )
    verdicts = verdicts_on(found.comparisons, *limits)
    has_runs = any(row.scenarios for row in found.comparisons)
    chosen = freedom(found.comparisons) if has_runs and not asked.summary_only else None
    text = show(found, asked.output_format.value, verdicts, summary_only=asked.summary_only, chosen=chosen)
    echo(text, asked.output_format is not ValidationFormat.TABLE)
    return all(verdict.is_kept for verdict in verdicts)


def _published() -> Validation:
    """The published figures."""
    from podsim.show.progress import track
    from podsim.validation.compare import validation

    return validation(lambda names: track(names, "simulating"))


def _scored(path: Path) -> Validation:
    """Predictions that were written before; tells what has changed since."""
    from podsim.validation.preregister import score

    scored = score(path)
    since = f"; changed since: {', '.join(scored.changed)}" if scored.changed else ""
    say(f"predicted by podsim {scored.version}{since}")
    return scored.found


def preregister_alone(path: Path, asked: ValidateRequest) -> None:
    """Write predictions, and compare nothing.

    Raises:
        PodsimError: Something is asked of comparisons, too.
    """
    from podsim.show.progress import track
    from podsim.validation.preregister import preregister

    if asked != ValidateRequest(ValidationFormat.TABLE):
        raise PodsimError("--preregister compares nothing", do="leave the other options out")
    preregister(path, lambda names: track(names, "predicting"))
    tell_written(path)


def _coverage_alone(asked: ValidateRequest, preregister: Path | None, *, noise: bool) -> None:
    """Print how published runs lie in their ranges, which says nothing of errors.

    Raises:
        PodsimError: Something else is asked for, too.
    """
    from podsim.result.evidence import residuals
    from podsim.validation.coverage import coverage
    from podsim.validation.show import show_coverage

    if noise or preregister is not None or asked != ValidateRequest(asked.output_format):
        what = "--coverage looks at ranges, not at errors, and goes with --format alone"
        raise PodsimError(what, do="leave the other options out, or give them in a command without --coverage")
    text = show_coverage(coverage(residuals()), asked.output_format.value)
    echo(text, asked.output_format is not ValidationFormat.TABLE)


def _noise_alone(asked: ValidateRequest, preregister: Path | None, seed: int) -> None:
    """Print how much runs differ, which says nothing of errors.

    Raises:
        PodsimError: Something else is asked for, too.
    """
    from podsim.show.progress import track
    from podsim.validation.noise import noisy_rows
    from podsim.validation.show import show_noisy

    if preregister is not None or asked != ValidateRequest(asked.output_format, asked.role):
        what = "--noise looks at how much runs differ, not at errors, and goes with --format, --role and --seed alone"
        raise PodsimError(what, do="leave the other options out, or give them in a command without --noise")
    rows = noisy_rows(asked.role and asked.role.as_written, seed, lambda names: track(names, "simulating"))
    text = show_noisy(rows, seed, asked.output_format.value)
    echo(text, asked.output_format is not ValidationFormat.TABLE)


def validate(
    output_format: Annotated[
        ValidationFormat, typer.Option("--format", help="What to print.")
    ] = ValidationFormat.TABLE,
    role: Annotated[Role | None, typer.Option(help="Only rows of this role.")] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--group", metavar="TEXT", help="Only groups with this in their name; repeat.")
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Print errors by group alone.")] = False,
    max_mean: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="Exit with 4 if the mean error of the rows is larger."),
    ] = None,
    max_worst: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Exit with 4 if an error of the rows is larger.")
    ] = None,
    preregister: Annotated[
        Path | None, typer.Option(help="Write predictions of all shipped scenarios, to be measured later.")
    ] = None,
    score: Annotated[
        Path | None, typer.Option(help="Compare such a file, with measurements filled in, instead.")
    ] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Print how runs lie in ranges that other origins give them; seconds.")
    ] = False,
    noise: Annotated[
        bool, typer.Option("--noise", help="Print how much logged runs differ, and runs with noise; half a minute.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
) -> None:
    """Compare predictions with published measurements."""
    from podsim.draws import Seeds

    asked = ValidateRequest(output_format, role, tuple(groups or ()), summary, max_mean, max_worst, score)
    if coverage:
        _coverage_alone(asked, preregister, noise=noise)
    elif noise:
        _noise_alone(asked, preregister, Seeds(1, seed).seed)
    elif preregister is not None:
        preregister_alone(preregister, asked)
    elif not validate_as_asked(asked):
        raise typer.Exit(BEYOND_LIMITS)
