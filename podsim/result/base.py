"""Common part of all results: scenario, metrics, sources, reports and JSON."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from podsim.draws import Range
from podsim.errors import PodsimError
from podsim.escaped import short
from podsim.format import (
    format_count,
    format_energy_j,
    format_error,
    format_figure,
    format_percent,
    format_power_w,
    format_significant,
    format_span,
)
from podsim.lazy import LazySequence
from podsim.metrics import (
    CONDITION,
    FULLEST,
    METRICS,
    PER_SECOND,
    POWER,
    SPENT,
    TOKENS,
    metric_of,
    metrics_of,
    value_at_path,
)
from podsim.report.chart import Sheet
from podsim.report.report import Part, Report, Section, Tile, Topic, headline_table, with_range
from podsim.result.division import division_blocks
from podsim.result.evidence import Envelope
from podsim.result.influence import blind_ranges_note, measured_ranges, range_text, verdict_of
from podsim.result.power import Cost, Energy, Meter, WorkDone, cost_of
from podsim.result.rows import Reference
from podsim.result.shared import Simulated
from podsim.result.standing import inputs_blocks, inputs_chart, source_blocks, uncertainty_table
from podsim.scenario.costs import CostSpec
from podsim.scenario.without_effect import WithoutEffect
from podsim.show.answers import JsonAnswer
from podsim.show.frames import frame_of, unit_of_figure

if TYPE_CHECKING:
    from pandas import DataFrame

    from podsim.draws import Uncertainty
    from podsim.engine.trace import Trace
    from podsim.program.passes_in_order import Passes
    from podsim.program.task import Program
    from podsim.search.choice import Choice

_INPUTS: Final = "Assumptions by influence"
_MOST_FIGURES: Final = 4
_ENERGY_OF: Final = ("sample", "token", "request", "run")
SCHEMA_VERSION: Final = 1
"""Schema version of the JSON of results; it changes if a field changes its meaning or is removed."""
_FIRST: Final = (
    "name description version schema_version simulated verdict warnings notes without_effect envelope references"
)
_LAST: Final = "ranges assumptions inputs event_count engine scenario hardware choice uncertainty"
_IF_GIVEN: Final = {
    **{key: key for key in ("event_count", "hardware", "choice", "uncertainty", TOKENS, "faults", "noise", "drift")},
    **{key: key for key in (CONDITION, "learning_rate", "notes", "shared_ps")},
    "engine": "event_count",
}
"""Keys of the JSON that are omitted instead of null, each with the key whose absence omits it."""


def _spent(path: str, told: str) -> Any:
    """Return a property for a figure of power, energy or cost; its value is None if unknown."""
    return property(partial(value_at_path, path), doc=told)


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(JsonAnswer):
    """Common part of all results.

    Attributes:
        name: Name of the scenario.
        description: Its description, as the file has it.
        version: Version of podsim that made the result.
        simulated: Pod, chip, clock and software stack, and the differences from the file.
        references: Measured and published figures to compare with.
        warnings: Warnings to read before using the numbers.
        notes: Advice about the run that changes none of its numbers.
        without_effect: Keys of the scenario that do not change this result.
        envelope: Features of this run that no validated run has.
        assumptions: Inputs that are neither published nor measured and change the result, by influence: `key`, `value`,
            …
        inputs: Path and SHA-256 of every file read.
        event_count: Number of events, including those of repetitions that were extrapolated; None if several engines
            ran.
        engine: Name of the engine, `simpy` or `compiled`.
        scenario: The scenario as resolved.
        hardware: All keys of pod and stack, with their values as they were written.
        choice: Search for the layout, if the scenario leaves it open.
        uncertainty: Result of sampling the inputs from their ranges, if requested.
        trace: Timeline, if recorded. This and all following attributes are not part of the JSON.
        passes: Operations of the passes in the timeline, by name of the pass.
        stash: Bytes that a forward pass stores until its backward pass has ended, by name of the pass.
        program: Function that compiles the program of the timeline for every IPU, if recorded.
        meter: Machines whose power and price count.
        prices: Prices, if given.
    """

    KIND: ClassVar[str]
    """Activity of the run, as `podsim.metrics` names it."""
    SPECIFIC_KEYS: ClassVar[tuple[str, ...]] = ()
    """Keys of the JSON that only this kind of result has, in order."""
    name: str
    description: str
    version: str
    simulated: Simulated
    references: tuple[Reference, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
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

    mean_power_w = _spent("energy.mean_power_w", "Mean power of the machines in use, with hosts and switches. [W]")
    energy_per_sample_j = _spent("energy.per_j.sample", "Energy of a sample. [J]")
    energy_per_token_j = _spent("energy.per_j.token", "Energy of a token that is generated. [J]")
    energy_per_request_j = _spent("energy.per_j.request", "Energy of a request that is served. [J]")
    energy_per_run_j = _spent("energy.per_j.run", "Energy of a training run with an end. [J]")
    cost_per_hour = _spent("cost.per_hour", "Cost of an hour of work, in the currency of its prices.")
    cost_per_million_samples = _spent("cost.per_million.sample", "Cost of a million samples.")
    cost_per_million_tokens = _spent("cost.per_million.token", "Cost of a million tokens that are generated.")
    cost_per_run = _spent("cost.per_run", "Cost of a training run with an end, in the currency of its prices.")

    @abstractmethod
    def headline(self) -> Iterator[Tile]:
        """Yield tiles with the most important metrics and their ranges."""

    @abstractmethod
    def conclusion(self) -> str:
        """Return a one-line summary for charts."""

    @abstractmethod
    def _sections(self) -> Iterator[Section]:
        """Yield the report sections that only this kind of result has."""

    @abstractmethod
    def work(self) -> WorkDone:
        """Return the time by kind and the rates of work of the IPUs in use."""

    @property
    @abstractmethod
    def shares_by_basis(self) -> Mapping[str, float]:
        """Shares of the broken-down time by basis of its inputs, such as `published`; empty if unknown."""

    @cached_property
    def ranges(self) -> Mapping[str, Range]:
        """80 % prediction intervals by metric, computed on first use.

        A metric without uncertain inputs has no interval. No metric has one if an input has not been moved.
        """
        return measured_ranges(self)

    @cached_property
    def verdict(self) -> tuple[str, ...]:
        """Warnings to read first: missing validation, bias, and dependence on assumed inputs."""
        return tuple(verdict_of(self))

    def without_ranges(self) -> Self:
        """Return a copy without ranges and verdict, which cost one run for each end of each uncertain input."""
        bare = copy(self)
        vars(bare).update(ranges={}, verdict=())
        return bare

    @cached_property
    def energy(self) -> Energy | None:
        """Power and energy; None where chip, machine or host server do not say what they draw."""
        return None if self.meter is None or self.meter.missing else Energy(self.meter, self.work())

    @cached_property
    def cost(self) -> Cost | None:
        """Cost of the run; None without prices."""
        if self.meter is None or self.prices is None:
            return None
        return cost_of(self.prices, self.meter, self.work(), self.energy)

    @property
    def title(self) -> str:
        """The description, marked as that of the file if something was changed; without any the name."""
        return self.simulated.titled(self.description) or self.name

    @property
    def about(self) -> tuple[str, str]:
        """Two lines under the title: the machine, and where the scenario comes from with what was changed."""
        return self.simulated.machine, f"{self.name}, podsim {self.version}; {self.simulated.difference}"

    def figures(self) -> Iterator[tuple[str, float | None]]:
        """Yield each metric with its value; a metric that is a mapping yields `key.part` for each part."""
        for metric in metrics_of(self.KIND):
            value = metric.get(self)
            if isinstance(value, Mapping):
                yield from ((f"{metric.key}.{part}", number) for part, number in value.items())
            else:
                yield metric.key, value
        yield from ((metric.key, value) for metric in SPENT if (value := metric.get(self)) is not None)

    @property
    def figures_line(self) -> str:
        """The first of its figures in a line, in the order of tables."""
        known = ((METRICS[key], value) for key, value in self.figures() if key in METRICS and value is not None)
        told = [
            f"{'' if metric.label == metric.counted else f'{metric.label} '}{format_figure(metric, value)}"
            + (f" {metric.counted}/s" if metric.counted else "")
            for metric, value in known
        ]
        return "; ".join(told[:_MOST_FIGURES])

    def predicted(self, quantity: str) -> float | None:
        """Return the predicted value of a metric, or None if the result does not have it."""
        value = getattr(self, quantity)
        return None if value is None else float(value)

    def error_of(self, reference: Reference) -> float | None:
        """Return predicted ÷ measured - 1, or None if the result has no such number."""
        predicted = self.predicted(reference.quantity)
        return None if predicted is None else predicted / reference.measured - 1

    def __repr__(self) -> str:
        """Return five lines: scenario, metrics, and the attributes with more."""
        more = f"{type(self).__name__}: .ranges, .verdict, .plot(), .to_frame(), .to_json(); {len(self.warnings)}"
        warnings = f"{more} warning{'s' * (len(self.warnings) != 1)}"
        return "\n".join(short(each) for each in (*self._summary_lines(), warnings))

    def _summary_lines(self) -> Sequence[str]:
        return self.title, *self.about, self.figures_line

    def report(self) -> Report:
        """Return the result as a report: metrics with ranges, breakdown, memory, sources and uncertainty.

        Returns:
            The report from which text, Markdown, notebooks, pages and charts are made; sections are computed on first
            use.
        """
        headline = list(self.headline())
        fitted = {"calibration": " (constants were fitted to it)"}
        compared = (reference for reference in self.references if self.error_of(reference) is not None)
        sources = "; ".join(dict.fromkeys(f"{each.label}{fitted.get(each.role, '')}" for each in compared))
        measured = [f"Measured: {sources}"] if sources else []
        return Report(
            title=self.title,
            about=self.about,
            version=self.version,
            inputs=self.inputs,
            verdict=self.verdict,
            warnings=self.warnings,
            notes=[*self.notes, *(f"{key.key} changes nothing: {key.reason}" for key in self.without_effect)],
            tiles=headline,
            sections=[
                Section(
                    "Headline", [headline_table(headline, *measured, *blind_ranges_note(self))], short=True, paged=False
                ),
                *self._sections(),
                Section(_INPUTS, LazySequence(lambda: inputs_blocks(self.assumptions)), Topic.INPUTS, short=True),
                Section("How sure", [uncertainty_table(self.uncertainty)] if self.uncertainty else [], short=True),
                Section("Sources", LazySequence(self._sources)),
            ],
            caption=f"{self.title}\n{self.conclusion()}",
        )

    @property
    def _division(self) -> Section:
        return Section("Division", division_blocks(self.choice) if self.choice else [], short=True)

    def _sources(self) -> Iterator[Part]:
        rows = []
        for reference in self.references:
            error = self.error_of(reference)
            off = "" if error is None else format_error(error)
            rows.append(
                (
                    reference.label,
                    reference.quantity,
                    f"{reference.measured:.6g}",
                    off,
                    reference.role,
                    reference.source,
                )
            )
        return source_blocks(self.assumptions, rows, self.inputs)

    def _tile(self, key: str, more: str = "", *, label: str = "", notes: Sequence[str] = ()) -> Tile:
        """Return the tile of a metric, with its label, unit, range and the measured values."""
        metric = METRICS[key]
        value, unit = metric.get(self), f" {metric.head}" if metric.unit == PER_SECOND else ""
        name = label or metric.label[:1].upper() + metric.label[1:]
        told = "" if value is None else f"{format_figure(metric, value)}{unit}"
        return Tile(name, f"{told}{more}", (*self._measured(key), *notes), self._range(key), key)

    def _range(self, key: str) -> str:
        return range_text(self, key)

    def _bracketed_range(self, key: str) -> str:
        """Return the range of a metric in brackets, to follow its value in a sentence."""
        known = self._range(key)
        return f" ({known})" if known else ""

    def _measured(self, quantity: str) -> list[str]:
        """Return the measured values of a quantity, the error of the prediction, and MLPerf's scores, in words."""
        metric = metric_of(quantity)
        unit = "/s" if metric.unit == PER_SECOND else ""
        notes = []
        for reference in self.references:
            if reference.quantity == quantity and (error := self.error_of(reference)) is not None:
                measured = format_figure(metric, reference.measured)
                notes.append(f"measured {measured}{unit}, error {format_error(error)}")
                if reference.score is not None:
                    score = format_figure(metric, reference.score)
                    logs = "" if score == measured else f"; {measured} is the time in its logs"
                    notes.append(f"MLPerf's published score {score}{logs}")
        return notes

    def _pod_share_note(self, share: float) -> list[str]:
        """Return the used share of the whole pod's peak, if some of the IPUs are idle."""
        count = self.simulated.ipu_count
        of_all = f"of all {format_count(count)} IPUs {format_percent(share)}"
        return [] if self.simulated.ipus_used == count else [of_all]

    def spent_tiles(self) -> Iterator[Tile]:
        """Yield tiles with mean power and its range, energy, and the cost if prices are given."""
        if self.energy is not None:
            span = format_span(*map(format_power_w, self.energy.range_w))
            notes = (f"range {span}", *self._measured(POWER))
            yield Tile("Power", format_power_w(self.energy.mean_power_w), notes, key=POWER)
            per_j = {name: energy_j for name in _ENERGY_OF if (energy_j := self.energy.per_j.get(name)) is not None}
            told = [(f"{format_energy_j(per_j[name])}/{name}", self._range(f"energy_per_{name}_j")) for name in per_j]
            if told:
                yield Tile("Energy", told[0][0], tuple(with_range(*pair) for pair in told[1:]), told[0][1])
        elif self.meter and self.meter.missing:
            yield Tile("Power", f"not known without {' and '.join(self.meter.missing)}")
        if self.cost is not None and self.cost.per_hour is not None:
            yield _cost_tile(self.cost, self.cost.per_hour)

    def _records(self) -> Sequence[Mapping[str, Any]]:
        fullest = METRICS[FULLEST].get(self)
        row = {"scenario": self.name, **dict(self.figures())}
        return [row if fullest is None else row | {FULLEST: fullest}]

    def to_frame(self, *, ranges: bool = True) -> DataFrame:
        """Return a data frame of one row: the metrics, in the columns of `podsim sweep`, and their ranges.

        Args:
            ranges: Add columns `<metric>_low` and `<metric>_high` with the 80 % prediction interval of each metric that
                has one. They take about 80 ms per result; switch them off for frames of many results.

        Returns:
            The row, with the units of its columns in `attrs["unit"]`; the ends of an interval have the metric's unit.
        """
        known, currency = self.ranges if ranges else {}, self.cost.currency if self.cost else ""
        row: dict[str, Any] = {}
        units: dict[str, str] = {}
        for name, value in self._records()[0].items():
            row[name] = value
            if found := known.get(name):
                ends = {f"{name}_low": found.low, f"{name}_high": found.high}
                row |= ends
                units |= dict.fromkeys(ends, unit_of_figure(name, currency) or "")
        return frame_of([row], units, currency)

    def specific_numbers(self) -> Mapping[str, object]:
        """Return the numbers that only this kind of result has, in a fixed order of keys."""
        return {key: getattr(self, key) for key in self.SPECIFIC_KEYS}

    def to_dict(self) -> dict[str, object]:
        """Return plain types in a fixed order of keys, without the trace."""
        stored: dict[str, object] = dict.fromkeys(_FIRST.split())
        stored |= {key: getattr(self, key) for key in stored if key != "schema_version"}
        stored |= {**self.specific_numbers(), **{key: getattr(self, key) for key in _LAST.split()}}
        stored |= {
            "schema_version": SCHEMA_VERSION,
            "references": [{**asdict(reference), "error": self.error_of(reference)} for reference in self.references],
            "inputs": [{"path": path, "sha256": digest} for path, digest in self.inputs],
            "hardware": dict(self.hardware),
        }
        left_out = {key for key, given in _IF_GIVEN.items() if stored.get(given) in (None, {}, ())}
        return {key: plain(value) for key, value in stored.items() if key not in left_out}


def tornado_sheet(result: Result) -> Sheet:
    """Return a tornado chart: the change of a result's headline metric with each input.

    Raises:
        PodsimError: No assumed or calibrated input changes the result.
    """
    chart = inputs_chart(result.assumptions)
    if chart is None:
        raise PodsimError("no assumed or calibrated input moves this result", do="leave --tornado out")
    sections = [Section("", [chart], plotted=True)]
    return replace(result.report(), sections=sections, caption=f"{result.title}\n{chart.title}").sheet()


def _cost_tile(cost: Cost, per_hour: float) -> Tile:
    whole, of, parts = per_hour, "hour of work", (cost.fixed_per_hour, cost.energy_per_hour)
    if cost.per_run is not None:
        whole, of, parts = cost.per_run, "run", (cost.fixed_per_run, cost.energy_per_run)
    told = ("no price" if part is None else f"{_amount(part)} {cost.currency}" for part in parts)
    notes = [f"{name} {text}" for name, text in zip(("fixed", "energy"), told, strict=True)]
    notes += [f"{_amount(price)} {cost.currency} per million {name}s" for name, price in cost.per_million.items()]
    if (busy := cost.duty_cycle) < 1:
        notes.append(f"at work {format_percent(busy, 0)} of the time")
    return Tile("Cost", f"{_amount(whole)} {cost.currency} per {of}", tuple(notes))


def _amount(value: float) -> str:
    """Format an amount of money: two decimals from one unit on, significant digits below.

    >>> _amount(1234.567), _amount(0.0123456), _amount(0.0)
    ('1,234.57', '0.0123', '0')
    """
    return f"{value:,.2f}" if abs(value) >= 1 else format_significant(value)


def plain(value: object) -> object:
    """Convert dataclasses, mappings and sequences to dictionaries and lists."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value
