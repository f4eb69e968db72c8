"""Running scenarios, by their activity.

Parameters of `run` are also options of the command, so this module imports nothing of the simulation on import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from podsim.draws import Draws, Seeds
from podsim.errors import PodsimError
from podsim.options import PYTHON_ALONE, SCENARIO_NAME, TIMES, VARIANT, Engine, Fit, Overrides
from podsim.watch import Watch, watched

if TYPE_CHECKING:
    from podsim.program.size import Follow
    from podsim.result.inference import ForwardResult, GenerationResult
    from podsim.result.result import RunResult
    from podsim.runs.settings import Settings
    from podsim.scenario import LoadedScenario

    Result: TypeAlias = RunResult | GenerationResult | ForwardResult

    class ResultOfRun(RunResult, GenerationResult, ForwardResult):  # type: ignore[misc]
        """Metrics of all kinds of result, for type checkers: no type shows which kind a scenario gives."""


Source: TypeAlias = "str | Path | Mapping[str, object] | LoadedScenario"


def run(
    scenario: Annotated[Source, SCENARIO_NAME],
    *,
    variant: Annotated[str | None, VARIANT] = None,
    overrides: Overrides = (),
    explicit: bool = False,
    record: Annotated[bool, PYTHON_ALONE] = False,
    influence: bool = False,
    uncertainty: Annotated[int | Draws | None, TIMES] = None,
    noise: Annotated[int | Seeds | None, TIMES] = None,
    seed: int = 0,
    fit: Fit = "refuse",
    engine: Engine = "auto",
    watch: Watch = watched,
    follow: Follow | None = None,
) -> ResultOfRun:
    """Simulate a scenario of training, text generation or forward passes.

    Args:
        scenario: A scenario file, or the name of a shipped one.
        variant: One of the variants named in the file.
        overrides: Replace keys, e.g. system=bow_pod64.
        explicit: Simulate every IPU of every replica, and every layer; the result is the same, more slowly.
        record: Keep the timeline, for `trace` of the result.
        influence: Measure the effect of every assumption, even if products have to be planned again; takes longer.
        uncertainty: Number of simulations with assumed and calibrated inputs sampled from their ranges.
        noise: Number of repetitions of a training run with noise, e.g. 100, for percentiles of its times.
        seed: Seed of these samples, or of the noise.
        fit: Whether a given layout that does not fit is refused, or simulated with a warning.
        engine: Engine of the simulation; the result is the same, and `auto` takes the fastest one that can run it.
        watch: Passes on the names of the steps of a search for `parallelism: auto`, or of reading a graph; a line in a
            notebook shows them if left out.
        follow: Progress callback of a long simulation: receives the approximate number of events before it starts, and
            follows it.

    Note:
        In Python, `scenario` may also be a mapping or a loaded scenario, and `overrides` a mapping of keys to values.

    Returns:
        The result: metrics with their ranges, breakdown, memory, and its assumptions. It is a RunResult, a
        GenerationResult or a ForwardResult; `simulate`, `generate` and `infer` each return one of these types.

    Raises:
        SpecError: The scenario or a file it names is wrong; lists every problem with its place.
        ModelError: The dimensions of the model do not go together.
        DoesNotFitError: The model does not fit the memories.
        MissingDataError: A number that is needed is not known.
        PodsimError: No sample of the uncertain inputs is a possible run, or noise is requested of a run without noise.
    """
    from podsim.program.size import unseen
    from podsim.runs.settings import Settings
    from podsim.scenario import load_scenario

    settings = Settings(
        explicit=explicit,
        record=record,
        influence=influence,
        uncertainty=Draws(uncertainty, seed) if isinstance(uncertainty, int) else uncertainty,
        noise=Seeds(noise, seed) if isinstance(noise, int) else noise,
        watch=watch,
        follow=follow or unseen,
        fit=fit,
        engine=engine,
    )
    return cast("ResultOfRun", run_loaded(load_scenario(scenario, variant, overrides), settings))


def run_loaded(loaded: LoadedScenario, settings: Settings) -> Result:
    """Return the result of a scenario under the given settings, repeated with sampled inputs if these ask for it."""
    from podsim.scenario.activity import Activity

    if settings.noise is not None and loaded.spec.activity is not Activity.TRAINING:
        what = f"noise is known of session calls that train, not of {loaded.spec.activity.label}"
        raise PodsimError(what, do="leave --noise out")
    result: Result
    match loaded.spec.activity:  # of which only the code for this one is imported
        case Activity.TRAINING:
            from podsim.runs.train import training

            result = training(loaded, settings)
        case Activity.GENERATION:
            from podsim.runs.generation import generation

            result = generation(loaded, settings)
        case Activity.FORWARD:
            from podsim.runs.forward import passes

            result = passes(loaded, settings)
    if settings.uncertainty is None:
        return result
    from podsim.result.influence import StandsOn
    from podsim.result.uncertainty import uncertainty

    stands_on = result.assumptions
    assert isinstance(stands_on, StandsOn)
    return replace(result, uncertainty=uncertainty(stands_on, settings.uncertainty, settings.watch))


def simulate(scenario: Source, **parameters: Any) -> RunResult:
    """Run a scenario of training with the parameters of `run`; other activities are refused."""
    return cast("RunResult", _only("TrainingScenario", scenario, **parameters))


def generate(scenario: Source, **parameters: Any) -> GenerationResult:
    """Run a scenario of text generation with the parameters of `run`; other activities are refused."""
    return cast("GenerationResult", _only("GenerationScenario", scenario, **parameters))


def infer(scenario: Source, **parameters: Any) -> ForwardResult:
    """Run a scenario of forward passes with the parameters of `run`; other activities are refused."""
    return cast("ForwardResult", _only("ForwardScenario", scenario, **parameters))


def _only(kind: str, scenario: Source, variant: str | None = None, overrides: Overrides = (), **parameters: Any) -> Any:
    import podsim.scenario

    loaded = podsim.scenario.load_scenario(scenario, variant, overrides)
    loaded.require(getattr(podsim.scenario, kind))
    return run(loaded, **parameters)
