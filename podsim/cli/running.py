"""Running a scenario: what is written, reported and printed after it; no parser is imported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podsim.cli.ending import say
from podsim.cli.outputs import Format, check_not_inputs, check_paths, show, tell_written, write_chart

if TYPE_CHECKING:
    from podsim.scenario import LoadedScenario


def run_plainly(scenario: str) -> None:
    """Simulate a scenario as the command does without options."""
    from podsim.runs import run

    run_scenario(run, {"scenario": scenario})


def run_scenario(
    ask: Callable[..., Any],
    asked: dict[str, Any],
    output_format: Format = Format.TABLE,
    trace: Path | None = None,
    chakra: Path | None = None,
    tornado: Path | None = None,
    plot: Path | None = None,
    report: Path | None = None,
) -> None:
    """Simulate a scenario by `podsim.run`, write the files that are asked for, and print the result."""
    check_paths(trace, plot, tornado, report=report)
    if chakra is not None:
        from podsim.chakra.write import check_folder

        check_folder(chakra)
    from podsim.engine.compiled import is_available
    from podsim.show.progress import follow, track

    loaded = load_asked(asked, trace=trace, plot=plot, tornado=tornado, report=report)
    record = any(path is not None for path in (trace, chakra, plot, report))
    is_compiled = asked.get("engine") != "simpy" and not record and is_available()
    doing = "reading:" if loaded.spec.activity == "forward" else "choosing: trying"
    result = ask(
        loaded,
        record=record,
        watch=lambda names: track(names, doing),
        follow=lambda count: follow(count, say, is_compiled=is_compiled),
        **asked,
    )
    if trace is not None:
        from podsim.result.perfetto import write_trace

        write_trace(result, trace)
        tell_written(trace)
    if chakra is not None:
        from podsim.chakra.write import write_chakra

        write_chakra(result, chakra)
        tell_written(chakra)
    if tornado is not None:
        from podsim.result.base import tornado_sheet

        write_chart(tornado, lambda: tornado_sheet(result), result.inputs)
    show(result, output_format, plot, report)


def load_asked(asked: dict[str, Any], **outputs: Path | None) -> LoadedScenario:
    """Take the scenario out of what is asked for and load it; no output may overwrite what it reads."""
    from podsim.scenario import load_scenario

    scenario = asked.pop("scenario")
    loaded = load_scenario(scenario, asked.pop("variant", None), asked.pop("overrides", ()))
    check_not_inputs(scenario, loaded, asked.get("arrivals"), **outputs)
    return loaded
