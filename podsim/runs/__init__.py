"""Running scenarios: the one place where the activity of a scenario decides what is done with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from podsim.engine import Engine
from podsim.errors import PodsimError
from podsim.placement.layout import Fit
from podsim.program.size import Follow, unseen
from podsim.result.influence import StandsOn
from podsim.runs.settings import Settings
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.activity import Activity
from podsim.scenario.load import Overrides
from podsim.watch import Watch, watched

if TYPE_CHECKING:
    from podsim.draws import Draws, Seeds
    from podsim.result.forward import ForwardResult
    from podsim.result.generation import GenerationResult
    from podsim.result.result import RunResult

    Result = RunResult | GenerationResult | ForwardResult

Source = str | Path | Mapping[str, object] | LoadedScenario


def run(
    scenario: Source,
    *,
    variant: str | None = None,
    overrides: Overrides = (),
    explicit: bool = False,
    record: bool = False,
    influence: bool = False,
    uncertainty: Draws | None = None,
    noise: Seeds | None = None,
    watch: Watch = watched,
    follow: Follow = unseen,
    fit: Fit = "refuse",
    engine: Engine = "auto",
) -> Result:
    """Simulate what a scenario asks of its model: training, text generation or forward passes.

    Args:
        scenario: Path, name of a shipped scenario, mapping, or a scenario already loaded.
        variant: One of the variants named in the file.
        overrides: `key.path=value` texts, or values by key path, that replace keys of the scenario; laid over
            what a loaded one has.
        explicit: Simulate every IPU of every replica, and every layer; the result is the same, more slowly.
        record: Keep the timeline, for `trace` of the result.
        influence: Measure all assumptions, those too for which products have to be planned anew, which takes longer.
        uncertainty: How often to repeat the run with its assumed and calibrated inputs drawn from their ranges.
        noise: How often to repeat a training run with noise, for percentiles of its times.
        watch: Passes on the names of the steps in which `parallelism: auto` is chosen, or a graph is read; a line in a
            notebook shows them if left out.
        follow: Is told the rough number of events of a long simulation before it starts, and follows it.
        fit: `warn` simulates a given division that does not fit all the same, and says by how much.
        engine: `simpy` or `compiled`, which give the same result; `auto` takes the faster one that can.

    Raises:
        SpecError: The scenario or a file it names is wrong; lists every problem with its place.
        ModelError: The dimensions of the model do not go together.
        DoesNotFitError: The model does not fit the memories.
        MissingDataError: A number that is needed is not known.
        PodsimError: No draw of the uncertain inputs has a run that is possible, or noise is asked of what has none.
    """
    loaded = load_scenario(scenario, variant, overrides)
    settings = Settings(
        explicit=explicit,
        record=record,
        influence=influence,
        uncertainty=uncertainty,
        noise=noise,
        watch=watch,
        follow=follow,
        fit=fit,
        engine=engine,
    )
    return run_loaded(loaded, settings)


def run_loaded(loaded: LoadedScenario, settings: Settings) -> Result:
    """The result of a scenario, simulated as settings say, and repeated with inputs drawn if they ask for it.

    Raises:
        PodsimError: As `run` does.
    """
    if settings.noise is not None and loaded.spec.activity is not Activity.TRAINING:
        what = f"noise is known of session calls that train, not of {loaded.spec.activity.words}"
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
    from podsim.result.uncertainty import uncertainty

    stands_on = result.assumptions
    assert isinstance(stands_on, StandsOn)
    return replace(result, uncertainty=uncertainty(stands_on, settings.uncertainty, settings.watch))


def simulate(
    scenario: Source,
    *,
    variant: str | None = None,
    overrides: Overrides = (),
    explicit: bool = False,
    record: bool = False,
    influence: bool = False,
    watch: Watch = watched,
    follow: Follow = unseen,
    fit: Fit = "refuse",
    engine: Engine = "auto",
) -> RunResult:
    """Simulate one weight update of a scenario of training, and the run it belongs to; see `run`."""
    from podsim.runs.train import training

    return training(
        load_scenario(scenario, variant, overrides), Settings(explicit, record, influence, watch, follow, fit, engine)
    )


def generate(
    scenario: Source,
    *,
    variant: str | None = None,
    overrides: Overrides = (),
    explicit: bool = False,
    record: bool = False,
    influence: bool = False,
    watch: Watch = watched,
    fit: Fit = "refuse",
    engine: Engine = "auto",
) -> GenerationResult:
    """Simulate the step that takes in a prompt, and the step that makes one more token; see `run`."""
    from podsim.runs.generation import generation

    return generation(
        load_scenario(scenario, variant, overrides),
        Settings(explicit, record, influence, watch, fit=fit, engine=engine),
    )


def infer(
    scenario: Source,
    *,
    variant: str | None = None,
    overrides: Overrides = (),
    explicit: bool = False,
    record: bool = False,
    influence: bool = False,
    watch: Watch = watched,
    follow: Follow = unseen,
    fit: Fit = "refuse",
    engine: Engine = "auto",
) -> ForwardResult:
    """Simulate one batch through an idle replica, and session calls of many batches; see `run`."""
    from podsim.runs.forward import passes

    return passes(
        load_scenario(scenario, variant, overrides), Settings(explicit, record, influence, watch, follow, fit, engine)
    )
