"""`podsim.whatif`: the effect of each change of a machine on one workload or several.

With an unchanged layout, a larger memory has no effect. With `replan`, each change has its best layout, and is compared
with the best layout of the unchanged machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from statistics import geometric_mean
from typing import Annotated, Final

from podsim._version import __version__
from podsim.draws import Range
from podsim.errors import PodsimError, Problem, SpecError
from podsim.format import format_error, format_figure, format_interval
from podsim.metrics import METRICS, SHARE
from podsim.options import POSITIVE, SCENARIOS, Factors, Overrides, Shell
from podsim.report.chart import FASTER, SLOWER, Bar, Bars, Chart, bar_axis
from podsim.report.report import Report, Section
from podsim.report.table import Cell, Cells, Table, columns
from podsim.result.base import Result, plain
from podsim.runs import Source, run
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.assumptions import hardware_keys
from podsim.scenario.load import override_texts
from podsim.scenario.parameters import PARAMETERS
from podsim.scenario.wording import flow, known_here
from podsim.show.answers import JsonAnswer
from podsim.study.compare import difference, why, with_range
from podsim.study.points import NUMBER_AND_UNIT
from podsim.study.sides import COMPARED, Subject, result_subject
from podsim.watch import Tell, no_progress, telling
from podsim.workers import mapped

TWICE: Final[Mapping[str, float]] = dict.fromkeys(
    ("clock", "links", "memory", "exchange", "streaming", "host_links"), 2.0
)
"""Default changes: each number doubled."""
_DIGITS: Final = 12
_LEAST: Final = 1e-6
"""Smallest factor; the largest is its inverse."""
_ROOM: Final = 1.25
_DIVISION: Final = {False: "division kept", True: "division chosen anew"}
"""Text for layouts, by whether they are chosen again for each change."""
_RANGES: Final = "80 %: what unsure inputs leave open, and what changes are off by where two runs were published"


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of a change on the headline metric of a workload."""

    change: str  # name and factor, such as `links x2`
    keys: tuple[str, ...] = ()  # keys of the scenario that the change sets
    value: float | None = None  # metric with the change; None, like `share`, if the run is impossible
    range: Range | None = None  # 80 % prediction interval of `value`
    share: float | None = None  # relative change of the metric
    share_range: Range | None = None  # 80 % prediction interval of `share`
    cause: str = ""  # kind of time that changed most
    reason: str = ""  # why the run is impossible, or why nothing changes
    beyond: bool = False  # True if the change leaves the validated range


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of changes on one workload, the largest first."""

    scenario: str
    metric: str  # key of the headline metric
    replanned: bool  # True if layouts are chosen again for each change
    value: float  # metric without a change
    range: Range | None  # 80 % prediction interval of `value`
    alone: float | None  # relative change of the metric by a new layout alone; None if it was not computed
    effects: tuple[Effect, ...]
    inputs: tuple[tuple[str, str], ...]  # (path, SHA-256) of every file read

    @property
    def title(self) -> str:
        """Name of the workload, and whether its layout is chosen again."""
        return f"{self.scenario}, {_DIVISION[self.replanned]}"


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(JsonAnswer):
    """Effects of changes on workloads.

    Attributes:
        workloads: Effects with unchanged layouts, then effects with new layouts if requested.
    """

    workloads: tuple[Effects, ...]

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """(path, SHA-256) of every file read."""
        return tuple(dict.fromkeys(file for side in self.workloads for file in side.inputs))

    def mean_factors(self, *, replanned: bool) -> list[tuple[str, float]]:
        """Return each change with the mean factor by which it multiplies the metrics of all workloads.

        The mean is geometric. A change that is impossible for a workload is left out.

        Args:
            replanned: True for effects with new layouts, False for effects with unchanged layouts.

        Returns:
            Names of changes with their mean factors, the largest first.
        """
        factors: dict[str, list[float | None]] = {}
        for effect in (effect for side in self.workloads if side.replanned is replanned for effect in side.effects):
            factors.setdefault(effect.change, []).append(None if effect.share is None else 1 + effect.share)
        means = [(name, geometric_mean(filter(None, values))) for name, values in factors.items() if all(values)]
        return sorted(means, key=lambda mean: -mean[1])

    def report(self) -> Report:
        """Return a report: a table of all workloads if there are several, and a chart of each."""
        sections: list[Section] = []
        verdict: list[str] = []
        for replanned, division in _DIVISION.items():
            sides = [side for side in self.workloads if side.replanned is replanned]
            if len(sides) > 1:
                means = self.mean_factors(replanned=replanned)
                sections.append(_mean_table(sides, dict(means)))
                verdict += [
                    f"together, {division}: {change} brings most, {format_error(mean - 1)}"
                    for change, mean in means[:1]
                ]
            sections += map(_section, sides)
            verdict += map(_verdict, sides)
        beyond = {side.title: [effect.change for effect in side.effects if effect.beyond] for side in self.workloads}
        ranged = any(effect.share_range for side in self.workloads for effect in side.effects)
        return Report(
            title=f"What each change brings to {', '.join(dict.fromkeys(side.scenario for side in self.workloads))}",
            about=[_unchanged_metric(side) for side in self.workloads],
            version=__version__,
            inputs=self.inputs,
            verdict=verdict,
            warnings=[
                f"no published run is like {title}, with {'any of ' * (len(changes) > 1)}{', '.join(changes)}"
                for title, changes in beyond.items()
                if changes
            ],
            notes=[_RANGES] if ranged else [],
            sections=sections,
        )

    def _summary_lines(self) -> Iterator[str]:
        yield from self.report().verdict[:4]

    def _records(self) -> list[dict[str, object]]:
        """Return one row for each change of each workload."""
        return [
            {
                "scenario": side.scenario,
                "anew": side.replanned,
                "metric": side.metric,
                "change": effect.change,
                "value": effect.value,
                "share": effect.share,
                "share_low": effect.share_range and effect.share_range.low,
                "share_high": effect.share_range and effect.share_range.high,
                "cause": effect.cause or effect.reason,
            }
            for side in self.workloads
            for effect in side.effects
        ]

    def _units(self) -> dict[str, str]:
        shares = dict.fromkeys(("share", "share_low", "share_high"), SHARE)
        units = {METRICS[side.metric].unit for side in self.workloads}
        return shares | {"value": units.pop()} if len(units) == 1 else shares

    def to_dict(self) -> dict[str, object]:
        """Return plain types."""
        names = {"replanned": "anew"}
        return {
            "workloads": [
                {names.get(each.name, each.name): plain(getattr(side, each.name)) for each in fields(side)}
                for side in self.workloads
            ]
        }


def whatif(
    *scenarios: Annotated[Source, SCENARIOS],
    times: Factors | None = None,
    to: Annotated[Overrides, Shell(metavar="KEY=VALUE")] = (),
    overrides: Overrides = (),
    replan: bool = False,
    processes: Annotated[int | None, POSITIVE] = None,
    tell: Tell | None = None,
) -> WhatIf:
    """Find the effect of each change of a machine or a scenario on its headline metric, one change at a time.

    Args:
        scenarios: Scenario files, or names of shipped ones.
        times: Numbers to multiply, with factors: clock, tiles, memory, exchange, links, ipu_links, gw_links,
            host_links, streaming, or the full key of a number; the usual ones, each x2, by default.
        to: Key and value to set, such as system=bow_pod64; each is one change, in addition to those of `times`, which
            then has no default.
        overrides: Replace a key of all scenarios.
        replan: Also choose the layout again, for the unchanged machine and for each change.
        processes: Number of processes; by default the number of cores.
        tell: Progress callback, called as `tell(done, total)`; by default a progress line in a notebook.

    Note:
        In Python, `scenarios` may also be mappings or loaded scenarios, `times` a mapping of names to factors, and `to`
        and `overrides` mappings of keys to values.

    Returns:
        The effects of each change on each workload.

    Raises:
        PodsimError: A scenario is wrong or impossible without changes, or the name of a change is unknown.
    """
    others = override_texts(to)
    times = _factors(TWICE if times is None and not others else times or {})
    if not scenarios or not (times or others):
        what = "there is nothing to change" if scenarios else "there is no scenario"
        raise PodsimError(what, do="name scenarios and changes, for example `links=2`")
    for name, factor in times.items():
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not _LEAST <= factor <= 1 / _LEAST:
            do = f"write a number from {_LEAST:g} to {1 / _LEAST:g}, for example `links=2`"
            raise PodsimError(f"{name}={factor} is no factor", do=do)
    loaded = [load_scenario(source, None, overrides) for source in scenarios]
    for scenario in loaded:
        for name, factor in times.items():
            _assignments(scenario, name, factor)
    for text in others:
        _check_assignment(loaded, text)
    workloads = [(scenario, False) for scenario in loaded if not scenario.auto]
    workloads += [(scenario, True) for scenario in loaded if scenario.auto or replan]
    done: dict[int, Effects] = {}
    with telling(tell, "workloads") as report_progress:
        report_progress(0, len(workloads))
        make = partial(_effects_by_number, workloads, dict(times), others)
        for portion in mapped(make, range(len(workloads)), processes=processes):
            done |= dict(portion)
            report_progress(len(done), len(workloads))
    return WhatIf(tuple(done[number] for number in sorted(done)))


def _factors(times: Factors) -> Mapping[str, float]:
    """Return the factor of each change by name; raise `PodsimError` for a text that is no NAME=FACTOR."""
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


def _check_assignment(loaded: Sequence[LoadedScenario], text: str) -> None:
    """Raise `PodsimError` for a text that is no KEY=VALUE, or whose key or value is wrong in every scenario."""
    key, sign, value = text.partition("=")
    where = f"--to {text}"
    if not (sign and key.strip() and value.strip()):
        raise PodsimError("this is not KEY=VALUE", where=where, do="write for example `--to system=bow_pod64`")
    wrong = [problem for scenario in loaded if (problem := _problem_of_key(scenario, key.strip(), text))]
    if len(wrong) == len(loaded):
        raise PodsimError(wrong[0].message, where=where, do=wrong[0].do)


def _problem_of_key(loaded: LoadedScenario, key: str, text: str) -> Problem | None:
    """Return what is wrong with a replaced key itself; None if nothing is, or if only other keys do not fit it."""
    try:
        load_scenario(loaded, None, (text,))
    except SpecError as error:
        return next((problem for problem in error.problems if problem.key in (key, "")), None)
    except PodsimError:
        return None
    return None


def _effects_by_number(
    workloads: Sequence[tuple[LoadedScenario, bool]], times: Mapping[str, float], others: Sequence[str], number: int
) -> Effects:
    loaded, replan = workloads[number]
    return effects_of(loaded, times, others, replan=replan)


def effects_of(
    loaded: LoadedScenario,
    times: Mapping[str, float],
    others: Sequence[str] = (),
    *,
    replan: bool,
    progress: Tell = no_progress,
) -> Effects:
    """Compute the effects of changes on one workload.

    Args:
        loaded: The workload.
        times: Numbers to multiply, with factors.
        others: Further changes, as KEY=VALUE texts.
        replan: Choose the layout again, for the unchanged machine and for each change.
        progress: Progress callback, called as `progress(done, total)` with numbers of changes.

    Raises:
        PodsimError: The workload is impossible without changes.
    """
    with_given_layout = None
    if replan and loaded.auto is None:
        with_given_layout = run(loaded)
        loaded = load_scenario(loaded, None, ("parallelism=auto",))
    base = run(loaded)
    subject = result_subject(base, base.name, "")
    key = next(iter(COMPARED[subject.activity]))
    value = subject.metrics[key]
    alone = None if with_given_layout is None else value / (with_given_layout.predicted(key) or value) - 1
    changes = [(f"{name} x{factor:g}", _assignments(loaded, name, factor)) for name, factor in times.items()]
    changes += [(text.strip(), {text.partition("=")[0].strip(): text.partition("=")[2]}) for text in others]
    effects: list[Effect] = []
    for name, assigned in changes:
        progress(len(effects), len(changes))
        effects.append(_effect(loaded, base, subject, name, assigned, replan=replan))
    effects.sort(key=lambda effect: -math.inf if effect.share is None else effect.share, reverse=True)
    return Effects(base.name, key, replan, value, base.ranges.get(key), alone, tuple(effects), base.inputs)


def _effect(
    loaded: LoadedScenario, base: Result, subject: Subject, name: str, changes: Mapping[str, str], *, replan: bool
) -> Effect:
    """Compute the effect of one change.

    Args:
        loaded: The workload.
        base: Its result without the change.
        subject: The same result as a side of comparisons.
        name: Name of the change.
        changes: Values by key; empty if the machine has no such number.
        replan: True if layouts are chosen again, for the text of a change without effect.
    """
    effect = Effect(name, tuple(changes))
    if not changes:
        return replace(effect, reason="there is none here")
    try:
        result = run(load_scenario(loaded, None, [f"{key}={text}" for key, text in changes.items()]))
    except SpecError as error:
        return replace(effect, reason="; ".join(f"{problem.key}: {problem.message}" for problem in error.problems))
    except PodsimError as error:
        return replace(effect, reason=error.message)
    row = difference(subject, result_subject(result, result.name, "")).headline
    key = next(iter(COMPARED[subject.activity]))
    effect = replace(effect, value=row.b, range=result.ranges.get(key), share=row.change)
    if not row.change:
        return replace(effect, reason=f"changes nothing{'' if replan else ', with the division as it is'}")
    beyond = base.envelope.inside and not result.envelope.inside
    return replace(effect, share_range=row.change_range, cause=why(row), beyond=beyond)


def _assignments(loaded: LoadedScenario, name: str, factor: float) -> dict[str, str]:
    """Return the multiplied values of the numbers that a change names, by key; empty if this machine has none of them.

    Raises:
        PodsimError: The name is neither a known one nor the key of a number.
    """
    hardware = dict(hardware_keys(loaded.spec))
    numbers = {key: hardware[key] for key in PARAMETERS.get(name, ()) if key in hardware}
    if name not in PARAMETERS:
        value = hardware.get(name) or loaded.document.value_at(tuple(name.split(".")))
        if value is None:
            do = known_here(name, PARAMETERS, "use one, or the full key of a number")
            where = f"--times {name}={factor:g}"
            raise PodsimError(f"{loaded.name} has no number `{name}` to change", where=where, do=do)
        numbers = {name: value if isinstance(value, str) else flow(value)}
    for key, text in numbers.items():
        match = NUMBER_AND_UNIT.fullmatch(text)
        if match is None:
            raise PodsimError(f"`{key}` is {text}, which is no number", do="name the key of a number")
        number = float(f"{float(match[1]) * factor:.{_DIGITS}g}")
        numbers[key] = f"{int(number) if number.is_integer() else number} {match[2] or ''}".strip()
    return numbers


def _mean_table(sides: Sequence[Effects], mean: Mapping[str, float]) -> Section:
    """Return a section with a table of all changes (rows) and workloads (columns), and their geometric mean."""
    by_name = [{effect.change: effect.share for effect in side.effects} for side in sides]
    rows: list[Cells] = []
    for change in dict.fromkeys((*mean, *by_name[0])):
        shares = [side[change] for side in by_name]
        rows.append((change, *map(_share, (*shares, mean[change] - 1 if change in mean else None))))
    heads = columns("change", *(f">{side.scenario}" for side in sides), ">together")
    labels = ", ".join(dict.fromkeys(METRICS[side.metric].label for side in sides))
    title = f"Each change alone, {_DIVISION[sides[0].replanned]}: {labels}"
    note = "together: the geometric mean of what each multiplies"
    return Section(title, [Table(heads, rows, title, [note])], short=True)


def _section(side: Effects) -> Section:
    """Return a section with the effects of changes on one workload, as bars and as a table."""
    metric = METRICS[side.metric]
    rows: list[Cells] = []
    bars: list[Bar] = []
    for effect in side.effects:
        value = "–" if effect.value is None else Cell(format_figure(metric, effect.value), effect.value)
        rows.append((effect.change, _share(effect.share), _range_text(effect), value, effect.cause or effect.reason))
        if effect.share is not None:
            fill = FASTER if effect.share > 0 else SLOWER
            bars.append(Bar(effect.change, 0.0, 100 * effect.share, fill, format_error(effect.share)))
    table = Table(columns("change", f">{metric.label}", ">80 %", f">{metric.head}", "most of it"), rows)
    if not bars:
        return Section(side.title, [replace(table, title=side.title)], short=True)
    chart = Chart(
        title=side.title,
        description=f"Bars of what each change alone brings to the {metric.label} of {side.scenario}.",
        drawn=Bars(bars, bar_axis(f"change of {metric.label}", "%", bars, _ROOM)),
        numbers=table,
    )
    return Section(side.title, [chart], short=True, plotted=True)


def _verdict(side: Effects) -> str:
    """Return the verdict for one workload."""
    best = side.effects[0]
    if best.share is None:
        return f"{side.title}: no change is possible"
    if best.share <= 0:
        return f"{side.title}: no change brings anything"
    may_be_none = best.share_range is not None and best.share_range.low <= 0
    change = with_range(format_error(best.share), _range_text(best), may_be_none=may_be_none)
    return f"{side.title}: {best.change} brings most, {change}"


def _unchanged_metric(side: Effects) -> str:
    """Return the metric without changes, its range, and the effect of a new layout alone, as one line."""
    metric = METRICS[side.metric]
    text = f"{side.title}: {metric.label} {format_figure(metric, side.value)} {metric.head} as it is"
    if interval := format_interval(side.range, partial(format_figure, metric)):
        text += f" (80 %: {interval})"
    return text if side.alone is None else f"{text}; the choice of a division alone: {format_error(side.alone)}"


def _share(share: float | None) -> str | Cell:
    return "–" if share is None else Cell(format_error(share), share)


def _range_text(effect: Effect) -> str:
    """Return the range of a change, in per cent without the unit; empty without a range."""
    return format_interval(effect.share_range, lambda end: format_error(end).removesuffix(" %"))
