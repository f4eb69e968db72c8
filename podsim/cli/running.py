"""Running a scenario, and the list of what is shipped; no parser is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podsim.cli.ending import say
from podsim.cli.outputs import RunFormat, load_asked, print_json, show, tell_written, write_chart
from podsim.errors import PodsimError

if TYPE_CHECKING:
    from podsim.cli.asking import Ask


def run_plainly(scenario: str) -> None:
    """Simulate a scenario as the command does without options."""
    from podsim.runs import run

    run_scenario(partial(run, scenario=scenario))


def run_scenario(
    ask: Ask,
    output_format: RunFormat = "table",
    trace: Path | None = None,
    chakra: Path | None = None,
    plot: Path | None = None,
    tornado: Path | None = None,
    report: Path | None = None,
) -> None:
    """Simulate a scenario by `podsim.run`, write the files that are asked for, and print the result."""
    if chakra is not None:
        from podsim.chakra.write import check_folder

        check_folder(chakra)
    from podsim.engine.compiled import is_available
    from podsim.show.progress import follow, track

    asked: dict[str, Any] = ask.keywords
    loaded = load_asked(asked, trace=trace, plot=plot, tornado=tornado, report=report)
    record = any(path is not None for path in (trace, chakra, plot, report))
    is_compiled = asked.get("engine") != "simpy" and not record and is_available()
    doing = "reading:" if loaded.spec.activity == "forward" else "choosing: trying"
    result = ask.func(
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


def print_list(words: Sequence[str], output_format: RunFormat = "table") -> None:
    """Print the catalogue, or the entries that contain all words; refuse words that nothing has."""
    from podsim.scenario.catalogue import LISTS, catalogue

    matching = catalogue().matching(words)
    if not any(getattr(matching, each) for each in LISTS):
        what = f"nothing that is shipped has {' and '.join(f'`{word}`' for word in words)} in its name or description"
        raise PodsimError(what, do="use fewer or shorter words; `podsim list` shows all")
    if output_format == "json":
        print_json(matching.to_dict())
    else:
        sys.stdout.write(f"{matching!r}\n")
