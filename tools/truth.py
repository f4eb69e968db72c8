"""Commands for developers on podsim's accuracy: `./dev truth --help` lists them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from podsim.cli.ending import BEYOND_LIMITS, print_data, run_to_the_end, say
from podsim.cli.outputs import Format, RunFormat, show, tell_written
from podsim.cli.usage import Commands, parsed
from podsim.draws import Seeds
from podsim.errors import PodsimError
from podsim.result.files import write_atomically
from podsim.scenario import data_file
from podsim.show.markdown import to_csv
from podsim.show.progress import track
from podsim.validation.show import Accuracy
from tools import reproduce as figures
from tools.mlperf.compare import compare_logs
from tools.mlperf.show import LoggedRuns
from tools.noise import noisy_rows
from tools.noise_fit import noise_fits
from tools.noise_of_runs import NoiseHeld
from tools.preregister import preregister as predict
from tools.preregister import score as scored
from tools.refit import Refitted, calibrate
from tools.vendor_kernels import VendorKernels, compared

AnyFormat = Annotated[Format, typer.Option("--format", help="What to print.")]
_MOST_NAMED: Final = 20
app = typer.Typer(cls=Commands, help=__doc__, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.command()
def refit(output_format: AnyFormat = "table") -> None:
    """Fit podsim's own constants again to the rows that are marked for it."""
    show(Refitted((*calibrate(lambda steps: track(steps, "refitting")), *noise_fits())), output_format)


@app.command()
def noise(
    output_format: AnyFormat = "table",
    role: Annotated[str | None, typer.Option(help="calibration or hold-out.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
) -> None:
    """Compare how much logged runs differ with runs that have noise; half a minute."""
    Seeds(1, seed)  # refuses an invalid seed
    show(NoiseHeld(noisy_rows(role, seed, lambda names: track(names, "simulating")), seed), output_format)


@app.command()
def kernels(output_format: AnyFormat = "table") -> None:
    """Compare kernels on the vendor's model of a chip with their predicted cycles."""
    show(VendorKernels(compared()), output_format)


@app.command()
def preregister(path: Path) -> None:
    """Write predictions of all shipped scenarios, to be measured later."""
    predict(path, lambda names: track(names, "predicting"))
    tell_written(path)


@app.command()
def score(path: Path, output_format: AnyFormat = "table") -> None:
    """Compare predictions that were written before with measurements that were filled in."""
    found = scored(path)
    since = f"; changed since: {', '.join(found.changed)}" if found.changed else ""
    say(f"predicted by podsim {found.version}{since}")
    accuracy = Accuracy(found.found)
    show(accuracy, output_format, own={"csv": lambda: to_csv(accuracy.rows())})


@app.command()
def mlperf(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG", help="Result files, one run in each.")],
    scenario: Annotated[
        str | None,
        typer.Option(show_default="the shipped one of that benchmark, batch and pod", help="What to compare with."),
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key.")] = None,
    output_format: Annotated[RunFormat, typer.Option("--format", help="What to print.")] = "table",
) -> None:
    """Compare logged runs of MLPerf Training with what is predicted, phase by phase."""
    show(LoggedRuns(compare_logs(logs, scenario, overrides or ())), output_format)


@app.command()
def reproduce(
    only: Annotated[str, typer.Option(metavar="TEXT", help="Figures of what has this in its name: mlperf.")] = "",
    charts: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write the charts of notebooks there.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Agree on what is made now.")] = False,
) -> None:
    """Make every figure of the accuracy page and of the notebooks again, and compare hashes.

    Exit code 4 if one differs.
    """
    if write and only:
        raise PodsimError("all figures are agreed on together", where="--write", do="leave --only out")
    if charts is not None:
        charts.mkdir(parents=True, exist_ok=True)

    def keep(name: str, shown: Any) -> None:
        if charts is not None and hasattr(shown, "_repr_png_"):
            write_atomically(charts / f"{name}.png", shown._repr_png_())
            tell_written(charts / f"{name}.png")

    root = figures.repository()
    now = figures.reproduced(lambda names: track(names, "reproducing:"), root, only, keep)
    if write:
        path = data_file(figures.FILE)
        figures.write(now, path)
        tell_written(path)
        return
    found = figures.compared(now, root)
    print_data("".join(f"{line}\n" for line in _lines(found)))
    if not found.holds:
        raise typer.Exit(BEYOND_LIMITS)


def _lines(found: figures.Comparison) -> list[str]:
    now, agreed = found.now, found.agreed
    lines = [f"podsim {now.version}, commit {found.commit}", f"figures agreed on with podsim {agreed.version}"]
    for what, ours, theirs in (("data", now.data, agreed.data), ("lock file", now.lock, agreed.lock)):
        lines.append(f"{what} {ours[:12] or 'not here'}: {_same(ours, theirs)}")
    counts, wrong = Counter(map(figures.kind_of, now.figures)), {*found.differing, *found.added}
    for kind, count in counts.items():
        held = sum(figures.kind_of(name) == kind and name not in wrong for name in now.figures)
        lines.append(f"{kind}: {held} of {count} figures are what they were")
    told = {"differs": found.differing, "is missing": found.missing, "is new": found.added}
    for what, names in told.items():
        lines += [f"{what}: {name}" for name in names[:_MOST_NAMED]]
        if len(names) > _MOST_NAMED:
            lines.append(f"{what}: {len(names) - _MOST_NAMED} more")
    if found.holds:
        return [*lines, f"all {len(now.figures)} figures are reproduced"]
    return [*lines, "not all figures are reproduced: what moved is in CHANGELOG.md, or is the fault of this machine"]


def _same(ours: str, theirs: str) -> str:
    return "not compared" if not ours else "the same" if ours == theirs else "others than figures were agreed on with"


def main() -> None:
    """Run a command; errors a developer can mend are printed without a traceback."""
    sys.exit(run_to_the_end(lambda: parsed(app, "truth")))


if __name__ == "__main__":
    main()
