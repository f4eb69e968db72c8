"""Options of `podsim plan`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class PlanFormat(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Lease(StrEnum):
    """What cost counts."""

    MACHINES = "machines"
    PARTITION = "partition"
    POD = "pod"


class DivisionRule(StrEnum):
    """Divisions to look at."""

    GIVEN = "given"
    CHOSEN = "chosen"


GoalName = Annotated[str, typer.Argument(metavar="GOAL", help="A goal file, or the scenario that is to run.")]
Systems = Annotated[
    list[str] | None, typer.Option("--system", help="A pod, or '32 of ipu_pod64'; repeat. All shipped ones otherwise.")
]
Objective = Annotated[
    str | None, typer.Option(metavar="FIGURE", help="What counts: time, cost, energy, ipus, or a key of results.")
]
Second = Annotated[str | None, typer.Option(metavar="FIGURE", help="What it is weighed against in the chart.")]
Limits = Annotated[list[str] | None, typer.Option("--limit", metavar="FIGURE=BOUND", help="E.g. 'mfu=> 10 %'; repeat.")]
Deadline = Annotated[str | None, typer.Option(metavar="TIME", help="Most time to train: 12h.")]
Budget = Annotated[str | None, typer.Option(metavar="PRICE", help="Most cost of a run: '500 USD'.")]
RackPower = Annotated[str | None, typer.Option(metavar="POWER", help="Most power of a rack: '20 kW'.")]
Latency = Annotated[str | None, typer.Option(metavar="TIME", help="Most P99 latency of requests: 2s.")]
RequestRate = Annotated[
    float | None, typer.Option(help="Requests per second to serve; those of the scenario otherwise.")
]
OneDivision = Annotated[DivisionRule | None, typer.Option(help="Look at one division alone.")]
Leased = Annotated[Lease | None, typer.Option(help="Whether cost counts machines in use, the partition or its pod.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key on all systems.")
]
Trials = Annotated[int | None, typer.Option(min=1, show_default="200", help="Most candidates; more are refused.")]
DrawCount = Annotated[
    int | None,
    typer.Option(min=0, show_default="50; 20 of requests", help="Draws of uncertain inputs, to see how sure it is."),
]
Seed = Annotated[int | None, typer.Option(min=0, show_default="0", help="Of the draws.")]
Processes = Annotated[int | None, typer.Option(min=1, show_default="all cores", help="Candidates looked at at a time.")]
JournalFile = Annotated[Path | None, typer.Option(help="Keep what was found in this file, and go on from it.")]
OutputFormat = Annotated[PlanFormat, typer.Option("--format", help="What to print.")]
SaveFolder = Annotated[
    Path | None, typer.Option("--save-dir", metavar="DIR", help="Write the best scenario there, ready to run.")
]
