"""`podsim whatif`: what each change of a machine brings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.comparing import AnswerFormat, OutputFormat, print_answer
from podsim.cli.counting import counted
from podsim.cli.flags import Plot, ReportFile
from podsim.cli.outputs import check_paths, write_chart, write_report
from podsim.errors import PodsimError


def whatif(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO...",
            help="Scenario files, or names of shipped ones.",
            autocompletion=completion.scenarios,
        ),
    ],
    times: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FACTOR...",
            help="What to multiply: clock, tiles, memory, exchange, links, ipu_links, gw_links, host_links, streaming, "
            "or the full key of a number; more of them may follow.",
            show_default="the most usual, each x2",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key of all scenarios.")
    ] = None,
    replan: Annotated[
        bool, typer.Option("--replan", help="Choose the division over the IPUs anew as well, for each machine.")
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Scenarios at a time.", show_default="as many as cores")
    ] = None,
    plot: Plot = None,
    report: ReportFile = None,
    output_format: OutputFormat = AnswerFormat.TEXT,
) -> None:
    """Rank what twice the links, clock or memory would bring, each alone, for one workload or several."""
    from podsim.study.whatif import TWICE
    from podsim.study.whatif import whatif as find

    check_paths(None, plot)
    check_paths(None, report=report)
    factors = _factors([*(times or ()), *(each for each in scenarios if "=" in each)])
    names = [each for each in scenarios if "=" not in each]
    with counted("workloads") as tell:
        found = find(
            *names,
            times=factors or TWICE,
            overrides=overrides or (),
            replan=replan,
            processes=processes,
            tell=tell,
        )
    shown = found.report()
    write_chart(plot, shown.sheet, shown.inputs)
    write_report(report, lambda: shown)
    print_answer(shown, output_format, found.to_json)


def _factors(texts: Iterable[str]) -> dict[str, float]:
    """Factors by the names of changes, each of which has one."""
    found: dict[str, float] = {}
    for text in texts:
        name, _, factor = text.partition("=")
        if name in found:
            do = f"write one factor for `{name}`, and run the command again for another"
            raise PodsimError(f"{name} is given more than once", where="--times", do=do)
        try:
            found[name] = float(factor)
        except ValueError:
            what, do = "this is not NAME=FACTOR", "write for example `--times links=2 clock=1.1`"
            raise PodsimError(what, where=f"--times {text}", do=do) from None
    return found
