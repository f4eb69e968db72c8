"""`podsim.whatif`: what each change of a machine brings, for one workload or several.

Every scenario is run as it is and with each change, and compared as `podsim compare` does. With the division kept, a
larger memory brings nothing; chosen anew, it is compared with the best division of the machine as it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from statistics import geometric_mean
from typing import Final

from podsim._version import __version__
from podsim.draws import Range
from podsim.errors import PodsimError, SpecError
from podsim.format import format_error, format_figure, format_span
from podsim.metrics import SHARE, Metric, metric_of
from podsim.options import Factors, Overrides
from podsim.report.chart import FASTER, SLOWER, Axis, Bar, Bars, Chart
from podsim.report.report import Report, Section
from podsim.report.table import Cell, Cells, Table, columns
from podsim.result.base import Result, plain
from podsim.runs import Source, run
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.assumptions import hardware_keys
from podsim.scenario.parameters import PARAMETERS
from podsim.scenario.wording import flow, known_here
from podsim.show.answers import Answered
from podsim.study.compare.difference import difference
from podsim.study.compare.metrics import COMPARED
from podsim.study.compare.report import why
from podsim.study.compare.sides import of_result
from podsim.study.compare.subject import Subject
from podsim.study.sweep.axes import NUMBER_AND_UNIT
from podsim.watch import Tell, telling, untold
from podsim.workers import mapped

TWICE: Final[Mapping[str, float]] = dict.fromkeys(
    ("clock", "links", "memory", "exchange", "streaming", "host_links"), 2.0
)
"""What is asked where nothing is: what twice as much of each would bring."""
_DIGITS: Final = 12
_LEAST: Final = 1e-6
"""The least factor; the largest is one over it."""
_ROOM: Final = 1.25
"""Of an axis beyond its longest bar, for the text beside it."""
_REPLAN: Final = "parallelism=auto"
_MOST_TOLD: Final = 4
_KEYS: Final = {"replanned": "anew"}
"""Keys of JSON that have other names here."""
_RANGES: Final = "80 %: what unsure inputs leave open, and what changes are off by where two runs were published"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change brings to a workload.

    Attributes:
        change: Its name and its factor, such as `links x2`.
        keys: Keys of the scenario that it changes.
        value: The headline with it; None if such a run is impossible.
        range: Its middle 80 %, if that is known.
        share: Its relative change; None if such a run is impossible.
        share_range: The middle 80 % of that, if it is known.
        cause: The kind of time that moved most.
        reason: Why there is no such run, or why nothing changes.
        beyond: Whether no published run is like it, while one is like the run without the change.
    """

    change: str
    keys: tuple[str, ...] = ()
    value: float | None = None
    range: Range | None = None
    share: float | None = None
    share_range: Range | None = None
    cause: str = ""
    reason: str = ""
    beyond: bool = False

    @property
    def gain(self) -> float | None:
        """How many times as much; None if such a run is impossible."""
        return None if self.share is None else 1 + self.share


@dataclass(frozen=True, slots=True)
class Effects:
    """What changes bring to a workload, the most first.

    Attributes:
        scenario: Its name.
        metric: Key of its headline.
        replanned: Whether its division over the IPUs is chosen anew for each machine.
        value: The headline without a change.
        range: Its middle 80 %, if that is known.
        alone: What the choice of a division alone brought, as a share; None where the division is kept.
        effects: One for each change.
        inputs: (path, SHA-256) of every file read.
    """

    scenario: str
    metric: str
    replanned: bool
    value: float
    range: Range | None
    alone: float | None
    effects: tuple[Effect, ...]
    inputs: tuple[tuple[str, str], ...]

    @property
    def division(self) -> str:
        """What is done with its division, in words."""
        return "division chosen anew" if self.replanned else "division kept"

    @property
    def title(self) -> str:
        """Its name and what is done with its division."""
        return f"{self.scenario}, {self.division}"

    @property
    def label(self) -> str:
        """Its headline in words."""
        return metric_of(self.metric).label


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(Answered):
    """What changes bring to workloads.

    Attributes:
        workloads: Each with its division kept, and after that with its division chosen anew if that was asked for.
    """

    workloads: tuple[Effects, ...]

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """(path, SHA-256) of every file read."""
        return tuple(dict.fromkeys(each for workload in self.workloads for each in workload.inputs))

    def together(self, *, replanned: bool) -> list[tuple[str, float]]:
        """Changes with the geometric mean of what they multiply, over all workloads, the most first.

        A change that is impossible for one of them is left out.

        Args:
            replanned: Of workloads whose division is chosen anew, or of those where it is kept.

        Returns:
            Names of changes with these means, as factors.
        """
        sides = [{each.change: each.gain for each in side.effects} for side in self._sides(replanned=replanned)]
        gains = {change: [side[change] for side in sides] for change in (sides[0] if sides else ())}
        found = [
            (change, geometric_mean([gain for gain in each if gain])) for change, each in gains.items() if all(each)
        ]
        return sorted(found, key=lambda each: -each[1])

    def _sides(self, *, replanned: bool) -> list[Effects]:
        return [side for side in self.workloads if side.replanned is replanned]

    def report(self) -> Report:
        """The answer as data: a table of all workloads if there are several, and a chart of each."""
        sections: list[Section] = []
        verdict: list[str] = []
        for replanned in (False, True):
            sides, mean = self._sides(replanned=replanned), self.together(replanned=replanned)
            if len(sides) > 1:
                sections.append(_together(sides, dict(mean)))
                most = (f"{change} brings most, {format_error(gain - 1)}" for change, gain in mean[:1])
                verdict += [f"together, {sides[0].division}: {each}" for each in most]
            sections += map(_section, sides)
            verdict += map(_verdict, sides)
        beyond = {side.title: [each.change for each in side.effects if each.beyond] for side in self.workloads}
        return Report(
            title=f"What each change brings to {', '.join(dict.fromkeys(side.scenario for side in self.workloads))}",
            about=[_as_it_is(side) for side in self.workloads],
            version=__version__,
            inputs=self.inputs,
            verdict=verdict,
            warnings=[
                f"no published run is like {name}, with {'any of ' * (len(each) > 1)}{', '.join(each)}"
                for name, each in beyond.items()
                if each
            ],
            notes=[_RANGES] if any(each.share_range for side in self.workloads for each in side.effects) else [],
            sections=sections,
        )

    def _told(self) -> Iterator[str]:
        yield from self.report().verdict[:_MOST_TOLD]

    def _records(self) -> list[dict[str, object]]:
        """A row for each change of each workload."""
        return [
            {
                "scenario": side.scenario,
                "anew": side.replanned,
                "metric": side.metric,
                "change": each.change,
                "value": each.value,
                "share": each.share,
                "share_low": each.share_range and each.share_range.low,
                "share_high": each.share_range and each.share_range.high,
                "cause": each.cause or each.reason,
            }
            for side in self.workloads
            for each in side.effects
        ]

    def _units(self) -> dict[str, str]:
        shares = dict.fromkeys(("share", "share_low", "share_high"), SHARE)
        units = {metric_of(side.metric).unit for side in self.workloads}
        return shares | {"value": units.pop()} if len(units) == 1 else shares

    def to_dict(self) -> dict[str, object]:
        """Plain types only."""
        sides = [{each.name: plain(getattr(side, each.name)) for each in fields(side)} for side in self.workloads]
        return {"workloads": [{_KEYS.get(name, name): each for name, each in side.items()} for side in sides]}

    def to_json(self) -> str:
        """All of it as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)


def whatif(
    *scenarios: Source,
    times: Factors = TWICE,
    overrides: Overrides = (),
    replan: bool = False,
    processes: int | None = None,
    tell: Tell | None = None,
) -> WhatIf:
    """Find what each change of a machine or a scenario would bring to its headline, one change at a time.

    Args:
        scenarios: Scenario files, or names of shipped ones; in Python mappings or loaded ones, too.
        times: What to multiply, and by how much: clock, tiles, memory, exchange, links, ipu_links, gw_links,
            host_links, streaming, or the full key of a number; the most usual, each x2, if left out; in Python a
            mapping of names to factors, too.
        overrides: Replace a key of all scenarios; in Python a mapping of key paths to values, too.
        replan: Choose the division over the IPUs again as well, for the machine as it is and with each change.
        processes: Scenarios at a time; as many as there are cores if left out.
        tell: Is told how many are done, and of how many; a line in a notebook shows it if left out.

    Returns:
        The effects of each change on each workload.

    Raises:
        PodsimError: A scenario is wrong or cannot be run as it is, or nothing is known by the name of a change.
    """
    times = _factors(times)
    if not scenarios or not times:
        what = "there is nothing to change" if scenarios else "there is no scenario"
        raise PodsimError(what, do="name scenarios and changes, for example `links=2`")
    for name, factor in times.items():
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not _LEAST <= factor <= 1 / _LEAST:
            do = f"write a number from {_LEAST:g} to {1 / _LEAST:g}, for example `links=2`"
            raise PodsimError(f"{name}={factor} is no factor", do=do)
    loaded = [load_scenario(each, None, overrides) for each in scenarios]
    for each in loaded:
        for name, factor in times.items():
            _assignments(each, name, factor)
    asked = [(each, False) for each in loaded if not each.auto]
    asked += [(each, True) for each in loaded if each.auto or replan]
    found: dict[int, Effects] = {}
    work = partial(_numbered, asked, dict(times))
    with telling(tell, "workloads") as told:
        told(0, len(asked))
        for portion in mapped(work, range(len(asked)), processes=processes):
            found |= dict(portion)
            told(len(found), len(asked))
    return WhatIf(tuple(found[number] for number in sorted(found)))


def _factors(times: Factors) -> Mapping[str, float]:
    """Factors by the names of changes, each of which has one."""
    if isinstance(times, Mapping):
        return times
    factors: dict[str, float] = {}
    for text in times:
        name, _, factor = text.partition("=")
        if name in factors:
            do = f"write one factor for `{name}`, and run the command again for another"
            raise PodsimError(f"{name} is given more than once", where="--times", do=do)
        try:
            factors[name] = float(factor)
        except ValueError:
            what, do = "this is not NAME=FACTOR", "write for example `--times links=2 clock=1.1`"
            raise PodsimError(what, where=f"--times {text}", do=do) from None
    return factors


def _numbered(asked: Sequence[tuple[LoadedScenario, bool]], times: Mapping[str, float], number: int) -> Effects:
    loaded, replan = asked[number]
    return effects_of(loaded, times, replan=replan)


def effects_of(loaded: LoadedScenario, times: Mapping[str, float], *, replan: bool, progress: Tell = untold) -> Effects:
    """What changes bring to one workload; arguments as of `whatif`, but that `progress` counts changes."""
    given = None
    if replan and loaded.auto is None:
        given = run(loaded)
        loaded = load_scenario(loaded, None, (_REPLAN,))
    base = run(loaded)
    subject = of_result(base, base.name, "")
    metric = COMPARED[subject.activity][0].figure
    value = subject.metrics[metric.key]
    alone = None if given is None else value / (given.predicted(metric.key) or value) - 1
    effects: list[Effect] = []
    for name, factor in times.items():
        progress(len(effects), len(times))
        effects.append(_effect(loaded, base, subject, name, factor, replan=replan))
    ranked = tuple(sorted(effects, key=lambda each: -math.inf if each.share is None else each.share, reverse=True))
    return Effects(base.name, metric.key, replan, value, base.ranges.get(metric.key), alone, ranked, base.inputs)


def _effect(
    loaded: LoadedScenario, base: Result, subject: Subject, name: str, factor: float, *, replan: bool
) -> Effect:
    """One change; `subject` is the run without it, ready to be compared."""
    title = f"{name} x{factor:g}"
    changes = _assignments(loaded, name, factor)
    keys = tuple(changes)
    if not changes:
        return Effect(title, reason="there is none here")
    try:
        result = run(load_scenario(loaded, None, [f"{key}={text}" for key, text in changes.items()]))
    except SpecError as error:
        reasons = (f"{each.key}: {each.message}" for each in error.problems)
        return Effect(title, keys, reason="; ".join(reasons))
    except PodsimError as error:
        return Effect(title, keys, reason=error.message)
    row = difference(subject, of_result(result, result.name, "")).headline
    found = Effect(title, keys, row.b, result.ranges.get(row.metric.figure.key), row.change)
    if not row.change:
        kept = "" if replan else ", with the division as it is"
        return replace(found, reason=f"changes nothing{kept}")
    ends = None if row.change_range is None else Range(*row.change_range)
    beyond = base.envelope.inside and not result.envelope.inside
    return replace(found, share_range=ends, cause=why(row), beyond=beyond)


def _assignments(loaded: LoadedScenario, name: str, factor: float) -> dict[str, str]:
    """The keys that a change sets, with their values; empty if this machine has none of them.

    Raises:
        PodsimError: Nothing is known by this name, or it is no number.
    """
    hardware = dict(hardware_keys(loaded.spec))
    if name in PARAMETERS:
        return {key: _scaled(key, hardware[key], factor) for key in PARAMETERS[name] if key in hardware}
    path = tuple(name.split("."))
    written = hardware.get(name) or loaded.document.at(path)
    if written is None:
        do = known_here(name, PARAMETERS, "use one, or the full key of a number")
        raise PodsimError(f"{loaded.name} has no number `{name}` to change", where=f"--times {name}={factor:g}", do=do)
    return {name: _scaled(name, written if isinstance(written, str) else flow(written), factor)}


def _scaled(key: str, written: str, factor: float) -> str:
    """A number with its unit, times a factor."""
    match = NUMBER_AND_UNIT.fullmatch(written)
    if match is None:
        raise PodsimError(f"`{key}` is {written}, which is no number", do="name the key of a number")
    number = float(f"{float(match[1]) * factor:.{_DIGITS}g}")
    return f"{int(number) if number.is_integer() else number} {match[2] or ''}".strip()


def _together(sides: Sequence[Effects], mean: Mapping[str, float]) -> Section:
    """Changes by workloads, and their geometric mean."""
    by_name = [{each.change: each for each in side.effects} for side in sides]
    rows: list[Cells] = []
    for change in dict.fromkeys((*mean, *(each.change for each in sides[0].effects))):
        shares = [side[change].share for side in by_name]
        rows.append((change, *map(_share, (*shares, mean[change] - 1 if change in mean else None))))
    heads = columns("change", *(f">{side.scenario}" for side in sides), ">together")
    title = f"Each change alone, {sides[0].division}: {', '.join(dict.fromkeys(side.label for side in sides))}"
    note = "together: the geometric mean of what each multiplies"
    return Section(title, [Table(heads, rows, title, [note])], short=True)


def _section(side: Effects) -> Section:
    """What each change brings to a workload, as bars and as their numbers."""
    metric = metric_of(side.metric)
    rows: list[Cells] = []
    bars: list[Bar] = []
    for each in side.effects:
        value = "–" if each.value is None else Cell(format_figure(metric, each.value), each.value)
        rows.append((each.change, _share(each.share), _span(each), value, each.cause or each.reason))
        if each.share is not None:
            fill = FASTER if each.share > 0 else SLOWER
            bars.append(Bar(each.change, 0.0, 100 * each.share, fill, format_error(each.share)))
    table = Table(columns("change", f">{side.label}", ">80 %", f">{_unit(metric) or 'then'}", "most of it"), rows)
    if not bars:
        return Section(side.title, [replace(table, title=side.title)], short=True)
    reached = [0.0, *(bar.end for bar in bars)]
    chart = Chart(
        title=side.title,
        description=f"Bars of what each change alone brings to the {side.label} of {side.scenario}.",
        drawn=Bars(bars, Axis(f"change of {side.label}", "%", (_ROOM * min(reached), _ROOM * max(reached) or 1.0))),
        numbers=table,
    )
    return Section(side.title, [chart], short=True, plotted=True)


def _verdict(side: Effects) -> str:
    """What a reader must know first of a workload."""
    best = side.effects[0]
    if best.share is None:
        return f"{side.title}: no change is possible"
    if best.share <= 0:
        return f"{side.title}: no change brings anything"
    span = f" (80 %: {_span(best)} %)" if best.share_range else ""
    return f"{side.title}: {best.change} brings most, {format_error(best.share)}{span}"


def _as_it_is(side: Effects) -> str:
    metric, span = metric_of(side.metric), side.range
    ends = "" if span is None else format_span(*(format_figure(metric, end) for end in (span.low, span.high)))
    told = f"{side.title}: {side.label} {format_figure(metric, side.value)} {_unit(metric)}".strip()
    told += f" as it is (80 %: {ends})" if ends else " as it is"
    return told if side.alone is None else f"{told}; the choice of a division alone: {format_error(side.alone)}"


def _share(share: float | None) -> str | Cell:
    return "–" if share is None else Cell(format_error(share), share)


def _span(each: Effect) -> str:
    """The range of a change in per cent; empty without one."""
    span = each.share_range
    return "" if span is None else format_span(*(format_error(end).removesuffix(" %") for end in (span.low, span.high)))


def _unit(metric: Metric) -> str:
    return f"{metric.counted}/s" if metric.counted else ""
