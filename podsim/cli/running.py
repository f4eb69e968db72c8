"""Running a scenario: what is written, reported and printed after it; no parser is imported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podsim.cli.ending import print_data, say
from podsim.cli.outputs import Format, check_not_inputs, check_paths, tell_written, write_chart, write_report
from podsim.runs import run

if TYPE_CHECKING:
    from podsim.result.base import Result

__all__ = ["check_paths", "run_plainly", "run_scenario", "show_result"]


def run_plainly(scenario: str) -> None:
    """Simulate a scenario as the command does without options."""
    run_scenario(run, {"scenario": scenario})


def run_scenario(
    ask: Callable[..., Result],
    asked: dict[str, Any],
    output_format: Format = Format.TABLE,
    trace: Path | None = None,
    chakra: Path | None = None,
    plot: Path | None = None,
    tornado: Path | None = None,
    report: Path | None = None,
) -> None:
    """Simulate a scenario, write the files that are asked for, report them, and print the result.

    Args:
        ask: `podsim.run`.
        asked: Its parameters.
        output_format: How the result is printed.
        trace: Where the timeline goes.
        chakra: The folder of Chakra execution traces.
        plot: Where the chart goes.
        tornado: Where the chart of what moves the result most goes.
        report: Where the page goes.
    """
    check_paths(trace, plot, tornado, report=report)
    if chakra is not None:
        from podsim.chakra.write import check_folder

        check_folder(chakra)
    from podsim.engine.compiled import is_available
    from podsim.scenario import Activity, load_scenario
    from podsim.show.progress import follow, track

    scenario = asked.pop("scenario")
    loaded = load_scenario(scenario, asked.pop("variant", None), asked.pop("overrides", ()))
    check_not_inputs(scenario, loaded, trace=trace, plot=plot, tornado=tornado, report=report)
    record = any(path is not None for path in (trace, chakra, plot, report))
    is_compiled = asked.get("engine") != "simpy" and not record and is_available()
    doing = "reading:" if loaded.spec.activity is Activity.FORWARD else "choosing: trying"
    result = ask(
        loaded,
        record=record,
        watch=lambda names: track(names, doing),
        follow=lambda count: follow(count, say, is_compiled=is_compiled),
        **asked,
    )
    if plot is not None or tornado is not None:
        from podsim.show.answers import sheet_of
        from podsim.show.run_charts import tornado_sheet

        write_chart(plot, lambda: sheet_of(result), result.inputs)
        write_chart(tornado, lambda: tornado_sheet(result), result.inputs)
    if trace is not None:
        from podsim.show.perfetto import write_trace

        write_trace(result, trace)
        tell_written(trace)
    if chakra is not None:
        from podsim.chakra.write import write_chakra

        write_chakra(result, chakra)
        tell_written(chakra)
    show_result(result, output_format, report)


def show_result(result: Result, output_format: Format, report: Path | None) -> None:
    """Write the page of a result if one is asked for, and print the result as tables or as JSON."""
    if report is not None:
        from podsim.pages.result_page import result_page

        write_report(report, lambda: result_page(result))
    if output_format is Format.JSON:
        print_data(f"{result.to_json()}\n")
    else:
        from podsim.show import serving_table, tables
        from podsim.show.page import print_result

        home = serving_table if result.KIND == "serving" else tables
        print_result(result, getattr(home, f"{result.KIND}_tables"))
