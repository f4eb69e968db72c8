"""Commands about how far to trust predictions: `validate`, `calibrate`, `import-mlperf` and `reproduce`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from podsim.cli.asking import asks
from podsim.cli.ending import BEYOND_LIMITS, print_data, say
from podsim.cli.outputs import Format, RunFormat, inputs_of, show, tell_written
from podsim.errors import PodsimError

if TYPE_CHECKING:
    from podsim.validation.reproduce import Comparison

_MOST_NAMED: Final = 20
_PERCENT: Final = 100


class Role(StrEnum):
    """The use that a row is put to."""

    CALIBRATION = "calibration"
    HOLD_OUT = "hold_out"


@asks()
def validate(
    output_format: Format = "table",
    role: Role | None = None,
    group: Sequence[str] = (),
    summary: bool = False,
    max_mean: float | None = None,
    max_worst: float | None = None,
    preregister: Path | None = None,
    score: Path | None = None,
    coverage: bool = False,
    noise: bool = False,
    seed: int = 0,
) -> None:
    """Compare predictions with published measurements.

    Args:
        role: Only rows of this role.
        group: Only groups with this in their name.
        summary: Print errors by group alone.
        max_mean: Exit with 4 if the mean error of the rows is larger.
        max_worst: Exit with 4 if an error of the rows is larger.
        preregister: Write predictions of all shipped scenarios, to be measured later.
        score: Compare such a file, with measurements filled in, instead.
        coverage: Print how runs lie in ranges that other origins give them; seconds.
        noise: Print how much logged runs differ, and runs with noise; half a minute.
        seed: Seed of the noise.
    """
    given = {key for key, value in locals().items() if value is not False and value not in (None, ())}
    given -= {"output_format", "seed"}
    from podsim.draws import Seeds
    from podsim.show.progress import track

    Seeds(1, seed)  # refuses what is none
    of_role = None if role is None else role.value.replace("_", "-")
    if coverage:
        if given != {"coverage"}:
            what = "--coverage looks at ranges, not at errors, and goes with --format alone"
            raise PodsimError(what, do="leave the other options out, or give them in a command without --coverage")
        from podsim.result.evidence import residuals
        from podsim.validation.coverage import coverage as left_out
        from podsim.validation.show import RangesHeld

        show(RangesHeld(left_out(residuals())), output_format)
    elif noise:
        if not given <= {"noise", "role"}:
            what = (
                "--noise looks at how much runs differ, not at errors, and goes with --format, --role and --seed alone"
            )
            raise PodsimError(what, do="leave the other options out, or give them in a command without --noise")
        from podsim.validation.noise import noisy_rows
        from podsim.validation.show import NoiseHeld

        show(NoiseHeld(noisy_rows(of_role, seed, lambda names: track(names, "simulating")), seed), output_format)
    elif preregister is not None:
        if given != {"preregister"} or output_format != "table":
            raise PodsimError("--preregister compares nothing", do="leave the other options out")
        from podsim.validation.preregister import preregister as write

        write(preregister, lambda names: track(names, "predicting"))
        tell_written(preregister)
    else:
        _compare(score, output_format, of_role, group, {"--max-mean": max_mean, "--max-worst": max_worst}, summary)


def _compare(
    score: Path | None,
    output_format: Format,
    role: str | None,
    groups: Sequence[str],
    limits: Mapping[str, float | None],
    summary_only: bool,
) -> None:
    """Compare, print, and end with 4 if a limit is broken."""
    for option, percent in limits.items():
        if percent is not None and not 0 <= percent < math.inf:
            raise PodsimError(f"`{percent}` is no percentage", where=option, do=f"write `{option} 5` for 5 %")
    from podsim.show.markdown import to_csv
    from podsim.show.progress import track
    from podsim.validation.compare import validation
    from podsim.validation.comparison import verdicts_on
    from podsim.validation.freedom import freedom
    from podsim.validation.preregister import score as scored
    from podsim.validation.show import Accuracy

    if score is None:
        everything = validation(lambda names: track(names, "simulating"))
    else:
        before = scored(score)
        since = f"; changed since: {', '.join(before.changed)}" if before.changed else ""
        say(f"predicted by podsim {before.version}{since}")
        everything = before.found
    chosen = everything.only(role, groups)
    if not chosen.comparisons:
        known = ", ".join(dict.fromkeys(row.group for row in everything.comparisons))
        raise PodsimError(
            "no row with a prediction is left", do=f"leave `--role` out, or `--group` with part of: {known}"
        )
    shares = (percent if percent is None else percent / _PERCENT for percent in limits.values())
    verdicts = verdicts_on(chosen.comparisons, *shares)
    has_runs = any(row.scenarios for row in chosen.comparisons)
    fitted = freedom(chosen.comparisons) if has_runs and not summary_only else None
    accuracy = Accuracy(chosen, verdicts, summary_only, fitted)
    show(accuracy, output_format, own={"csv": lambda: to_csv(accuracy.rows())})
    if not all(verdict.is_kept for verdict in verdicts):
        raise typer.Exit(BEYOND_LIMITS)


@asks()
def calibrate(
    measured: Path | None = None,
    write_stack: Path | None = None,
    output_format: Format = "table",
    force: bool = False,
) -> None:
    """Refit the calibrated constants on their rows, or those of a software stack on measurements of your own.

    Args:
        measured: Measurements of your cluster, to fit its stack.
        write_stack: Write that stack there.
    """
    from podsim.result.files import check_new, check_outputs, write_atomically
    from podsim.show.progress import track
    from podsim.validation.show_fits import FittedStack, Refitted

    if measured is None:
        if write_stack is not None:
            what = "--write holds the constants of your cluster, which need its measurements"
            raise PodsimError(what, do="give them with `--with FILE.csv`, or leave `--write` out")
        from podsim.validation.calibrate import calibrate as fit_again
        from podsim.validation.noise_fit import noise_fits

        show(Refitted((*fit_again(lambda steps: track(steps, "refitting")), *noise_fits())), output_format)
        return
    from podsim.validation.cluster import fit_cluster, stack_of
    from podsim.validation.measurements import read_measurements

    outputs = {"write": write_stack}
    check_outputs(outputs, [("the measurements", measured)])
    if write_stack is not None:
        check_new(write_stack, force=force)
    fitted = fit_cluster(read_measurements(measured), lambda names: track(names, "fitting:"))
    if write_stack is not None:
        check_outputs(outputs, inputs_of(fitted.loaded))
        write_atomically(write_stack, stack_of(fitted, measured, write_stack).encode())
        tell_written(write_stack)
    show(FittedStack(fitted), output_format)


@asks()
def import_mlperf(
    logs: Sequence[Path],
    scenario: str | None = None,
    overrides: Sequence[str] = (),
    output_format: RunFormat = "table",
) -> None:
    """Compare logged runs of MLPerf Training with what is predicted, phase by phase.

    Args:
        logs: Result files, one run in each.
        scenario: What to compare with; the shipped one of that benchmark, batch and pod if left out.
        overrides: Replace keys, e.g. system=bow_pod64.
    """
    from podsim.validation.mlperf.compare import compare_logs
    from podsim.validation.mlperf.show import LoggedRuns

    show(LoggedRuns(compare_logs(logs, scenario, overrides)), output_format)


@asks()
def reproduce(only: str = "", charts: Path | None = None, write: bool = False) -> None:
    """Make every figure of the accuracy page and of the notebooks again, and compare hashes.

    Exit code 4 if one differs. Notebooks are run in a clone of the repository alone.

    Args:
        only: Figures of what has this in its name: mlperf.
        charts: Write the charts of notebooks there.
        write: Agree on what is made now: for developers.
    """
    from podsim.result.files import write_atomically
    from podsim.scenario import data_file
    from podsim.show.progress import track
    from podsim.validation import reproduce as module

    if write and only:
        raise PodsimError("all figures are agreed on together", where="--write", do="leave --only out")
    if charts is not None:
        charts.mkdir(parents=True, exist_ok=True)

    def keep(name: str, shown: Any) -> None:
        if charts is not None and hasattr(shown, "_repr_png_"):
            write_atomically(charts / f"{name}.png", shown._repr_png_())
            tell_written(charts / f"{name}.png")

    root = module.repository()
    now = module.reproduced(lambda names: track(names, "reproducing:"), root, only, keep)
    if write:
        path = data_file(module.FILE)
        module.write(now, path)
        tell_written(path)
        return
    comparison = module.compared(now, root)
    print_data("".join(f"{line}\n" for line in _lines(comparison)))
    if not comparison.holds:
        raise typer.Exit(BEYOND_LIMITS)


def _lines(comparison: Comparison) -> Iterator[str]:
    from podsim.validation.reproduce import kind_of

    now, agreed = comparison.now, comparison.agreed
    yield f"podsim {now.version}, commit {comparison.commit}"
    yield f"figures agreed on with podsim {agreed.version}"
    for what, ours, theirs in (("data", now.data, agreed.data), ("lock file", now.lock, agreed.lock)):
        same = "the same" if ours == theirs else "others than figures were agreed on with"
        yield f"{what} {ours[:12]}: {same}" if ours else f"{what} not here: not compared"
    wrong = {*comparison.differing, *comparison.added}
    held = Counter(kind_of(name) for name in now.figures if name not in wrong)
    for kind, count in Counter(map(kind_of, now.figures)).items():
        yield f"{kind}: {held[kind]} of {count} figures are what they were"
    told = {"differs": comparison.differing, "is missing": comparison.missing, "is new": comparison.added}
    for what, names in told.items():
        yield from (f"{what}: {name}" for name in names[:_MOST_NAMED])
        if len(names) > _MOST_NAMED:
            yield f"{what}: {len(names) - _MOST_NAMED} more"
    if comparison.holds:
        yield f"all {len(now.figures)} figures are reproduced"
    else:
        yield "not all figures are reproduced: what moved is in CHANGELOG.md, or is the fault of this machine"
