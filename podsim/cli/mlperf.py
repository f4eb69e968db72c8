"""Result files of MLPerf Training: options of `podsim run`, and `podsim import-mlperf`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli import completion
from podsim.cli.ending import say
from podsim.cli.running import Format, echo
from podsim.errors import PodsimError

if TYPE_CHECKING:
    from podsim.result.base import Result
    from podsim.scenario import LoadedScenario


class Round(StrEnum):
    """Rounds whose rules result files can follow."""

    V1_1 = "1.1"
    V2_0 = "2.0"


class SubmissionDivision(StrEnum):
    """Divisions of a submission."""

    CLOSED = "closed"
    OPEN = "open"


LogFolder = Annotated[
    Path | None, typer.Option("--mlperf-log", metavar="DIR", help="Write result files as MLPerf Training has them.")
]
LogRound = Annotated[
    Round | None, typer.Option("--mlperf-round", show_default="that of the SDK", help="Rules that they follow.")
]
LogDivision = Annotated[
    SubmissionDivision | None,
    typer.Option("--mlperf-division", show_default="closed", help="Division that they are written for."),
]


@dataclass(frozen=True, slots=True)
class LogRequest:
    """What is asked of result files.

    Attributes:
        folder: Where they go.
        benchmark: The benchmark that the model is.
        round_name: Round whose rules they follow.
        round_origin: Who says so.
        division: `closed` or `open`.
    """

    folder: Path
    benchmark: str | None
    round_name: str
    round_origin: str
    division: str


def log_request(
    loaded: LoadedScenario, folder: Path | None, round_name: Round | None, division: SubmissionDivision | None
) -> LogRequest | None:
    """What is asked of result files, if anything; what can never be written is refused before it is simulated.

    Raises:
        PodsimError: The scenario is no training of a benchmark, or its round is not known.
        OutputError: The folder cannot hold result files.
    """
    if folder is None:
        for option, value in (("--mlperf-round", round_name), ("--mlperf-division", division)):
            if value is not None:
                raise PodsimError(
                    "no result files are asked for", where=option, do="add `--mlperf-log DIR`, or leave it out"
                )
        return None
    from podsim.scenario import Activity, TrainingScenario
    from podsim.validation.mlperf.benchmark import benchmark_of
    from podsim.validation.mlperf.folder import check_folder
    from podsim.validation.mlperf.rounds import round_of

    if loaded.spec.activity is not Activity.TRAINING:
        cure = "leave `--mlperf-log` out, or run a scenario of training"
        raise PodsimError(f"{loaded.name} trains nothing, and MLPerf Training is about training", do=cure)
    spec = loaded.of(TrainingScenario)
    benchmark = benchmark_of(spec.benchmark, loaded.name)
    check_folder(folder)
    sdk = spec.software.sdk
    chosen = (round_name.value, "as asked") if round_name else (round_of(sdk), f"that of SDK {sdk}")
    return LogRequest(folder, benchmark.name, *chosen, (division or SubmissionDivision.CLOSED).value)


def write_log(result: Result, request: LogRequest) -> None:
    """Write the result files, and tell what they are."""
    from podsim.result.result import RunResult
    from podsim.validation.mlperf.write import write_result_files

    assert isinstance(result, RunResult)
    written = write_result_files(result, request.benchmark, request.folder, request.round_name, request.division)
    count, by = len(written.paths), f"{written.notes[0]} (the round is {request.round_origin})"
    say(f"wrote {request.folder}: {count} result files, {by}")
    for note in written.notes[1:]:
        say(note)


def import_mlperf(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG", help="Result files, one run in each.")],
    scenario: Annotated[
        str | None,
        typer.Option(
            show_default="the shipped one of that benchmark, batch and pod",
            help="What to compare with.",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key of the scenario.")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
) -> None:
    """Compare logged runs of MLPerf Training with what is predicted, phase by phase."""
    from podsim.validation.mlperf.compare import compare_logs
    from podsim.validation.mlperf.show import show

    compared = compare_logs(logs, scenario, overrides or ())
    as_json = output_format is Format.JSON
    echo(show(compared, as_json=as_json), as_json)
