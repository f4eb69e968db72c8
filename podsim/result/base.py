"""The common part of all results: what they are about, what they stand on, and how they are written."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from podsim.draws import Range
from podsim.errors import PodsimError
from podsim.format import format_figure
from podsim.harmless import short
from podsim.metrics import METRICS, SPENT, metrics_of
from podsim.result.bill import Cost
from podsim.result.evidence import Envelope
from podsim.result.power import Energy, Meter, WorkDone
from podsim.result.ranges import measured_ranges, verdict_of
from podsim.result.rows import Reference
from podsim.result.shared import Simulated
from podsim.scenario.costs import CostSpec
from podsim.scenario.without_effect import WithoutEffect

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from podsim.draws import Uncertainty
    from podsim.engine.trace import Trace
    from podsim.placement.search.choice import Choice
    from podsim.program.passes_in_order import Passes
    from podsim.program.task import Program

_MOST_FIGURES: Final = 4
SCHEMA_VERSION: Final = 1
"""Of the JSON of results; another number if a field gets another meaning or is gone."""


@dataclass(frozen=True, slots=True)
class Look:
    """What shows a result, which is of a layer above.

    Attributes:
        html: Makes its tables, for a notebook.
        figure: Draws its charts.
    """

    html: Callable[[Any], str]
    figure: Callable[[Any], Figure]


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The common part of all results.

    Attributes:
        name: Name of the scenario.
        description: Its description, as the file has it.
        version: Version of podsim that made the result.
        simulated: Pod, chip, clock and software stack, and what differs from the file.
        references: Measured and published figures to compare with.
        warnings: What a reader must know before using the numbers.
        without_effect: Keys that were written and change nothing in what is asked.
        envelope: Whether published runs like this one have been compared with predictions.
        assumptions: Inputs that are neither published nor measured and move the result, by influence: `key`, `value`, …
        inputs: Path and SHA-256 of every file read.
        event_count: Events of all repetitions that were asked for, run one by one or not, where one engine ran.
        engine: Which one, `simpy` or `compiled`.
        scenario: The scenario as resolved.
        hardware: All keys of pod and stack, with their values as they were written.
        choice: How the division was chosen, if that was left open.
        uncertainty: What came of the run with inputs drawn from their ranges, if that was asked for.
        trace: The timeline, if recorded; not part of the JSON.
        passes: Operations of the passes in the timeline, by name of the pass; not part of the JSON.
        stash: Bytes that a pass in the timeline leaves until the one back has ended, by its name; not part of the JSON.
        program: Makes the program of the timeline, with every IPU, where that was recorded; not part of the JSON.
        meter: What draws power and is paid for; not part of the JSON.
        prices: What it is paid with, if that is given; not part of the JSON.
        look: Shows it; not part of the JSON.
    """

    KIND: ClassVar[str]
    """Of what it is the result, as `podsim.metrics` names activities."""
    name: str
    description: str
    version: str
    simulated: Simulated
    references: tuple[Reference, ...] = ()
    warnings: tuple[str, ...] = ()
    without_effect: tuple[WithoutEffect, ...] = ()
    envelope: Envelope = field(default_factory=Envelope)
    assumptions: Sequence[Mapping[str, object]]
    inputs: tuple[tuple[str, str], ...]
    event_count: int | None = None
    engine: str | None = None
    scenario: Mapping[str, object]
    hardware: Sequence[tuple[str, str]] = ()
    choice: Choice | None = None
    uncertainty: Uncertainty | None = None
    trace: Trace | None = None
    passes: Passes | None = None
    stash: Mapping[str, int] = field(default_factory=dict)
    program: Callable[[], Program] | None = field(default=None, compare=False)
    meter: Meter | None = None
    prices: CostSpec | None = None
    look: Look | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """Five lines: what it is about, its figures, and where the rest is."""
        more = f"{type(self).__name__}: .ranges, .verdict, .plot(), .to_frame(), .to_json(); {len(self.warnings)}"
        warnings = f"{more} warning{'s' * (len(self.warnings) != 1)}"
        lines = (self.title, *self.about, self.figures_line, warnings)
        return "\n".join(short(each) for each in lines)

    @property
    def figures_line(self) -> str:
        """The first of its figures in a line, in the order of tables."""
        figures = [told for key, value in self.figures() if value is not None and (told := _told(key, value))]
        return "; ".join(figures[:_MOST_FIGURES])

    def _repr_html_(self) -> str | None:
        """The tables of the terminal, for notebooks."""
        return None if self.look is None else self.look.html(self)

    def plot(self) -> Figure:
        """The charts of `--plot`, as a figure of matplotlib, which a notebook shows; a timeline if it was recorded.

        Raises:
            PodsimError: The result was put together by hand, and nothing is known of its looks.
        """
        if self.look is None:
            raise PodsimError(
                "this result was not made by a run, which brings its charts", do="draw one of `podsim.run`"
            )
        return self.look.figure(self)

    def to_frame(self) -> DataFrame:
        """A frame of one row: its figures, as tables of `podsim sweep` have them, with units in `attrs["unit"]`."""
        from podsim.result.frames import figures_frame

        return figures_frame(self)

    @property
    def title(self) -> str:
        """The description, marked as that of the file if something was changed; without any the name."""
        return self.simulated.titled(self.description) or self.name

    @property
    def about(self) -> tuple[str, str]:
        """Two lines under the title: the machine, and where the scenario comes from with what was changed."""
        return self.simulated.machine, f"{self.name}, podsim {self.version}; {self.simulated.difference}"

    @abstractmethod
    def own(self) -> Mapping[str, object]:
        """The numbers of this kind of result, in a fixed order of keys."""

    @abstractmethod
    def work(self) -> WorkDone:
        """What the IPUs in use do, and what comes of it."""

    @property
    def shares_by_basis(self) -> Mapping[str, float]:
        """Shares of the time that is divided by what they stand on, such as `published`; empty if not known."""
        return {}

    @cached_property
    def ranges(self) -> Mapping[str, Range]:
        """The middle 80 % of what figures may be, by name, measured when it is first asked for.

        A figure has none where it is certain, and all have none where an input that moves them was not measured.
        """
        return measured_ranges(self)

    @cached_property
    def verdict(self) -> tuple[str, ...]:
        """What a reader must know first: what most of the answer stands on, and how like it is to what was compared."""
        return verdict_of(self)

    @cached_property
    def energy(self) -> Energy | None:
        """Power and energy; None where chip, machine or host server do not say what they draw."""
        return None if self.meter is None or self.meter.missing else Energy(self.meter, self.work())

    @cached_property
    def cost(self) -> Cost | None:
        """What it costs; None where no price is given."""
        if self.meter is None or self.prices is None:
            return None
        return Cost(self.prices, self.meter, self.work(), self.energy)

    @property
    def mean_power_w(self) -> float | None:
        """Mean power of the machines in use, with their host servers and switches. [W]"""
        return self.energy.mean_power_w if self.energy else None

    @property
    def energy_per_sample_j(self) -> float | None:
        """Energy of a sample. [J]"""
        return self._per_j("sample")

    @property
    def energy_per_token_j(self) -> float | None:
        """Energy of a token that is generated. [J]"""
        return self._per_j("token")

    @property
    def energy_per_request_j(self) -> float | None:
        """Energy of a request that is served. [J]"""
        return self._per_j("request")

    @property
    def energy_per_run_j(self) -> float | None:
        """Energy of a training run with an end. [J]"""
        return self._per_j("run")

    @property
    def cost_per_hour(self) -> float | None:
        """Cost of an hour of work, in the currency of its prices."""
        return self.cost.per_hour if self.cost else None

    @property
    def cost_per_million_samples(self) -> float | None:
        """Cost of a million samples."""
        return self.cost.per_million.get("sample") if self.cost else None

    @property
    def cost_per_million_tokens(self) -> float | None:
        """Cost of a million tokens that are generated."""
        return self.cost.per_million.get("token") if self.cost else None

    @property
    def cost_per_run(self) -> float | None:
        """Cost of a training run with an end, in the currency of its prices."""
        return self.cost.per_run if self.cost else None

    def _per_j(self, what: str) -> float | None:
        return self.energy.per_j.get(what) if self.energy else None

    def spent(self) -> Mapping[str, object]:
        """Energy and cost as plain numbers; None where they are not known."""
        energy, cost = self.energy, self.cost
        return {"energy": energy.to_dict() if energy else None, "cost": cost.to_dict() if cost else None}

    def figures(self) -> Iterator[tuple[str, float | None]]:
        """The numbers of a result in one line: those of a mapping by its key, a dot and their own."""
        for metric in metrics_of(self.KIND):
            value = metric.get(self)
            if isinstance(value, Mapping):
                yield from ((f"{metric.key}.{part}", number) for part, number in value.items())
            else:
                yield metric.key, value
        spent = ((metric.key, metric.get(self)) for metric in SPENT)
        yield from ((name, value) for name, value in spent if value is not None)

    def predicted(self, quantity: str) -> float | None:
        """The predicted value of a quantity, or None if the result does not have it."""
        value = getattr(self, quantity)
        return None if value is None else float(value)

    def error_of(self, reference: Reference) -> float | None:
        """Predicted ÷ measured - 1, or None if the result has no such number."""
        predicted = self.predicted(reference.quantity)
        return None if predicted is None else predicted / reference.measured - 1

    def to_dict(self) -> dict[str, object]:
        """Plain types only, in a fixed order of keys; the trace is left out."""
        common: dict[str, object] = {
            "name": self.name,
            "description": self.description,
            "version": self.version,
            "schema_version": SCHEMA_VERSION,
            "simulated": self.simulated,
            "verdict": self.verdict,
            "warnings": self.warnings,
            "without_effect": self.without_effect,
            "envelope": self.envelope.to_dict(),
            "references": [_plain_fields(each) | {"error": self.error_of(each)} for each in self.references],
            **self.own(),
            "ranges": self.ranges,
            "assumptions": [dict(each) for each in self.assumptions],
            "inputs": [{"path": path, "sha256": digest} for path, digest in self.inputs],
        }
        if self.event_count is not None:
            common["event_count"] = self.event_count
            common["engine"] = self.engine
        common["scenario"] = self.scenario
        if self.hardware:
            common["hardware"] = dict(self.hardware)
        if self.choice is not None:
            common["choice"] = self.choice
        if self.uncertainty is not None:
            common["uncertainty"] = self.uncertainty
        return {key: plain(value) for key, value in common.items()}

    def to_json(self) -> str:
        """The result as JSON text, the same bytes for the same result."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)


def _told(key: str, value: float) -> str:
    """A figure in words; nothing of those that have no metric of their own."""
    metric = METRICS.get(key)
    if metric is None:
        return ""
    unit = f" {metric.counted}/s" if metric.counted else ""
    label = "" if metric.label == metric.counted else f"{metric.label} "
    return f"{label}{format_figure(metric, value)}{unit}"


def plain(value: object) -> object:
    """Dataclasses, mappings and sequences as dictionaries and lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain_fields(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value


def _plain_fields(value: object) -> dict[str, object]:
    assert is_dataclass(value)
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
