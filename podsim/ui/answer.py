"""The right column: parts of reports about a question, made in a process that works for the server.

All of it is what commands tell too: `run` or `serve`, `compare` with the baseline, `whatif`. What is there at once
comes first; ranges and what other machines would bring come after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from podsim import memo
from podsim.errors import DoesNotFitError, InfeasibleError, PodsimError
from podsim.format import format_error, format_figure, format_significant
from podsim.harmless import html
from podsim.importer import ONNX, Request, import_model
from podsim.metrics import PER_SECOND, metric_of
from podsim.report.chart import Chart, Curves, Mark, Series
from podsim.report.report import Part, Report, Tile
from podsim.report.table import Cells, Table, columns
from podsim.result.base import STANDS_ON, Result
from podsim.result.perfetto import write_trace
from podsim.result.serving import ServingResult
from podsim.result.where import memory_title
from podsim.runs import run
from podsim.runs.serve import serve
from podsim.scenario.expectations import FITS, expectation
from podsim.show.html_page import as_html, fragment, tiles
from podsim.study.compare.difference import difference
from podsim.study.compare.metrics import COMPARED
from podsim.study.compare.report import parts_of
from podsim.study.compare.sides import of_result
from podsim.study.compare.subject import Subject
from podsim.study.whatif import TWICE, WhatIf, effects_of
from podsim.ui.form import CHIP, SYSTEM, Form, form_of
from podsim.ui.question import Question, dropped
from podsim.ui.scaling import scaling_blocks
from podsim.units import UNITS
from podsim.watch import Tell, Watch, silent, untold

VERDICT, TILES, AGAINST, MEMORY, LOAD, HELP, SCALING, SURE = (
    *("verdict", "tiles", "against", "memory", "load", "help", "scaling", "sure"),
)
AREAS: Final = (VERDICT, TILES, AGAINST, MEMORY, LOAD, HELP, SCALING, SURE)
"""Parts of the page, from above."""
_RED: Final = "#9a1c1c"
_MEASURING: Final = "its range is being measured"


@dataclass(frozen=True, slots=True)
class Job:
    """What an answer is made with."""

    scratch: Path
    tell: Tell = untold
    watch: Watch = silent


@dataclass(frozen=True, slots=True)
class Answer:
    """HTML by area, of which those that are not named stay as they are, and a line for those who listen to the page."""

    parts: Mapping[str, str] = field(default_factory=dict)
    fits: bool = True
    summary: str = ""


def form(job: Job, question: Question) -> Form:
    """What can be moved in the scenario of a question, from the numbers of the pod and the chip that were chosen."""
    named = tuple(each for each in question.moved if each[0] in (SYSTEM, CHIP))
    try:
        return form_of(question, replace(question.as_written, moved=named).loaded(job.scratch))
    except PodsimError:  # such as more replicas than this pod has room for
        return form_of(question, question.as_written.loaded(job.scratch))


def at_once(job: Job, question: Question, baseline: Question) -> Answer:
    """Verdict, figures without ranges, the difference from the baseline and memory: what is there while one drags."""
    return _answered(job, question, baseline, ranged=False)


def in_full(job: Job, question: Question, baseline: Question) -> Answer:
    """The same with ranges, and what the answer stands on."""
    return _answered(job, question, baseline, ranged=True)


def _answered(job: Job, question: Question, baseline: Question, *, ranged: bool) -> Answer:
    try:
        result = simulated(job, question, ranged=ranged)
    except PodsimError as error:
        return _refused(job, question, error)
    result = result if ranged else result.without_ranges()
    page = result.report()
    shown = list(page.tiles)
    if not ranged:
        shown[0] = replace(shown[0], notes=shown[0].notes or (_MEASURING,))
    expected = question.loaded(job.scratch).spec.expect
    fits = f'<p class="verdict good"><strong>Fits.</strong> {html(_fits(result))}</p>'
    seen = [_with_target(each, expected) for each in _charts(page, "What requests see")]
    told = [f"The service {result.conclusion()}."] if seen and ranged else []
    parts = {
        VERDICT: f"{fits}{_targets(result, expected)}{_stands_on(result, ranged=ranged)}",
        TILES: tiles(shown),
        AGAINST: fragment(_against(job, result, question, baseline, ranged=ranged), AGAINST),
        MEMORY: fragment(_blocks(page, "Memory"), MEMORY),
        LOAD: fragment([*told, *seen], LOAD),
    }
    if ranged:
        parts[SURE] = fragment(_blocks(page, STANDS_ON), SURE)
    return Answer(parts, summary=f"Fits. {_headline(result, shown[0])}")


def _blocks(page: Report, *titles: str) -> list[Part]:
    return [block for section in page.sections if section.title in titles for block in section.blocks]


def _charts(page: Report, *titles: str) -> list[Chart]:
    return [block for block in _blocks(page, *titles) if isinstance(block, Chart)]


def simulated(job: Job, question: Question, *, ranged: bool = True, record: bool = False) -> Any:
    """The result of a question, as `podsim run` or `podsim serve` has it."""
    loaded = question.loaded(job.scratch)
    if question.serves:
        return serve(loaded, watch=job.watch) if ranged else serve(loaded, uncertainty=None, watch=job.watch)
    return run(loaded, watch=job.watch, record=record)


def _fits(result: Result) -> str:
    if isinstance(result, ServingResult) or result.memory.fullest_ipu() is None:  # type: ignore[attr-defined]
        return result.simulated.machine
    return f"{memory_title(result.memory)}."  # type: ignore[attr-defined]


def _headline(result: Result, first: Tile) -> str:
    if isinstance(result, ServingResult):
        return f"Saturates at {format_significant(result.saturation.rate_per_s)} requests/s"
    return f"{first.label} {first.value}"


def _targets(result: Result, expected: Mapping[str, Any] | None) -> str:
    """Whether figures are what the scenario expects of them, as `podsim check` says."""
    known, lines = dict(result.figures()), []
    for name, text in (expected or {}).items():
        if name == FITS:
            continue
        target = expectation(name, text)
        value = known.get(target.metric)
        word = "not known" if value is None else "met" if target.holds(value) else "missed"
        figure = _instead(target.metric, known) if value is None else format_figure(metric_of(target.metric), value)
        kind = "near" if word == "met" else "danger"
        label = html(f"{metric_of(target.metric).label} {target.text}")
        lines.append(f'<p class="{kind}"><strong>Target {word}:</strong> {label}: {html(figure)}</p>')
    return "".join(lines)


def _instead(metric: str, known: Mapping[str, float | None]) -> str:
    """What to aim at where an answer has no such figure, such as a percentile where there is no single time."""
    begin = metric.rpartition("_")[0]
    names = [name for name, value in known.items() if value is not None and name.startswith(begin)]
    if not names:
        return "this answer has no such figure"
    return f"this answer has {', '.join(names)} instead, which `expect:` of a scenario file can name"


def _with_target(chart: Chart, expected: Mapping[str, Any] | None) -> Chart:
    """A chart of percentiles over load with a line at the most that is expected of this kind of time."""
    if not isinstance(chart.drawn, Curves):
        return chart
    limits = []
    for name, text in (expected or {}).items():
        metric = metric_of(name)
        of_it = name != FITS and metric.label.lower().startswith(chart.drawn.y.label)
        if of_it and math.isfinite(most_s := expectation(name, text).high):
            limits.append((f"target, {metric.label} {text}", most_s))
    ends = chart.drawn.x.ends
    if not limits or ends is None:
        return chart
    per_s = UNITS["s"][chart.drawn.y.unit]
    lines = [Series(name, Mark.LINE, ends, (most_s / per_s,) * 2, _RED, (1, 2)) for name, most_s in limits]
    return replace(chart, drawn=replace(chart.drawn, series=[*chart.drawn.series, *lines]))


def _refused(job: Job, question: Question, error: PodsimError) -> Answer:
    """Why there is no such run, and what would fill the memories where that is the reason."""
    title = "Does not fit." if isinstance(error, InfeasibleError) else "Cannot be run."
    cure = f"<p><strong>What to do:</strong> {html(error.do)}</p>" if error.do else ""
    text = html(f"{error.where}: {error.message}" if error.where else error.message).replace("\n", "<br>")
    memory = ""
    if isinstance(error, DoesNotFitError) and not question.anew and not question.serves:
        with suppress(PodsimError):
            over = run(question.loaded(job.scratch), fit="warn")
            memory = fragment(_blocks(over.without_ranges().report(), "Memory"), MEMORY)
    verdict = f'<div class="verdict bad" role="alert"><p><strong>{title}</strong> {text}</p>{cure}</div>'
    others = dict.fromkeys(AREAS, "")
    return Answer({**others, VERDICT: verdict, MEMORY: memory}, fits=False, summary=title)


def _stands_on(result: Result, *, ranged: bool) -> str:
    """How near measurements are, in red where none is; what most of the answer stands on, and warnings."""
    near = "Published runs like this one have been compared with predictions."
    if result.envelope.inside:
        first = f'<p class="near">{near}</p>'
    else:
        first = (
            f'<p class="danger"><strong>No measurement is near:</strong> {html("; ".join(result.envelope.outside))}</p>'
        )
    text = result.envelope.text
    told = [each for each in result.verdict if not text or text not in each] if ranged else []
    verdict = [f'<p class="stands">{html(each[:1].upper() + each[1:])}.</p>' for each in told]
    warnings = [f'<p class="warning"><strong>Warning:</strong> {html(each)}</p>' for each in result.warnings]
    return "".join((first, *verdict, *warnings))


def _against(job: Job, result: Result, question: Question, baseline: Question, *, ranged: bool) -> Iterator[Part]:
    """Where time goes: beside the baseline, or alone where that is the same."""
    if baseline == question:
        yield from _alone(result)
        return
    try:
        found = difference(_baseline(job, baseline, ranged=ranged), _subject(result, question, ranged=ranged))
    except PodsimError as error:
        yield f"There is nothing to compare with: {error.message}"
        yield from _alone(result)
        return
    yield "A is the baseline, B is this."
    yield from parts_of(found, "B")
    if not found.waterfalls:
        yield from _alone(result)


def _baseline(job: Job, baseline: Question, *, ranged: bool) -> Subject:
    """The baseline ready to be compared, which stays while other things move."""

    def make() -> Subject:
        return _subject(simulated(job, baseline, ranged=ranged), baseline, ranged=ranged)

    return memo.ASKED.get((baseline, ranged), make) if baseline.is_settled else make()


def _subject(result: Result, question: Question, *, ranged: bool) -> Subject:
    return of_result(result, question.scenario, "", ranged=ranged)


def _alone(result: Result) -> Sequence[Part]:
    return _charts(result.without_ranges().report(), "Where time goes", "Decode step")


def further(job: Job, question: Question, baseline: Question) -> Answer:
    """What limits the run, what each change of the machine would bring, what each moved thing did, and scaling."""
    try:
        loaded = question.loaded(job.scratch)
        found = effects_of(loaded, TWICE, replan=question.anew, progress=job.tell)
        ranking = [part for section in WhatIf((found,)).report().sections for part in section.blocks]
        limits = f"{run(loaded, watch=job.watch).without_ranges().conclusion()}."
        blocks: list[Part] = [limits, *_moved(job, question, baseline), *ranking]
        beyond = [each.change for each in found.effects if each.beyond]
        red = (
            f'<p class="danger"><strong>No measurement is near:</strong> {html(", ".join(beyond))}</p>'
            if beyond
            else ""
        )
        scaling = "" if question.serves else fragment(scaling_blocks(loaded, job.tell), SCALING)
    except PodsimError:  # the verdict says why there is no such run
        return Answer({HELP: "", SCALING: ""})
    return Answer({HELP: red + fragment(blocks, HELP), SCALING: scaling})


def _moved(job: Job, question: Question, baseline: Question) -> Iterator[Table]:
    """What each thing that was moved does alone, beside the baseline."""
    names = [key for key, _ in (*baseline.moved, *question.moved)]
    values, before = dict(question.moved), dict(baseline.moved)
    keys = [key for key in dict.fromkeys(names) if values.get(key) != before.get(key)]
    same = replace(question, moved=(), anew=False) == replace(baseline, moved=(), anew=False)
    steps = [(f"{key} {values.get(key, 'as written')}", baseline.with_value(key, values.get(key, ""))) for key in keys]
    if question.anew != baseline.anew:
        steps.append(
            ("division chosen anew" if question.anew else "division kept", replace(baseline, anew=question.anew))
        )
    if not same or not steps:
        return
    if len(steps) > 1:
        steps.append(("all together", question))
    first = _baseline(job, baseline, ranged=False)
    metric = next(each.figure for each in COMPARED[first.activity] if first.metrics.get(each.figure.key))
    start = first.metrics[metric.key] or 1.0
    rows: list[Cells] = []
    for place, (name, asked) in enumerate(steps):
        job.tell(place, len(steps))
        try:
            value = _subject(simulated(job, asked, ranged=False), asked, ranged=False).metrics[metric.key] or 0.0
            rows.append((name, format_figure(metric, value), format_error(value / start - 1), ""))
        except PodsimError as error:
            rows.append((name, "–", "–", error.message.splitlines()[0]))
    unit = f" {metric.head}" if metric.unit == PER_SECOND else ""
    heads = columns("moved alone", f">{metric.label}", ">change", "why not")
    yield Table(heads, rows, f"What was moved, each alone; the baseline has {format_figure(metric, start)}{unit}")


def report(job: Job, question: Question) -> bytes:
    """The page that `--report` writes."""
    return as_html(simulated(job, question, record=True).report()).encode(errors="replace")


def timeline(job: Job, question: Question) -> Answer:
    """The timeline of a run."""
    result = simulated(job, question, record=True)
    blocks = _blocks(result.without_ranges().report(), "Timeline") or ["A service has no timeline; its steps have."]
    return Answer({"timeline": fragment(blocks, "timeline")})


def trace(job: Job, question: Question) -> bytes:
    """The file that `--trace` writes."""
    path = job.scratch / f"trace-{abs(hash(question))}.json"
    write_trace(simulated(job, question, record=True), path)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def imported(job: Job, path: str, system: str) -> Question:
    """The question about a `config.json` or an ONNX file that was dropped on the page."""
    file = Path(path)
    text = import_model(file, Request(system=system, folder=file.parent), watch=job.watch)
    if file.suffix.lower() != ONNX:  # the scenario holds all of it
        return dropped(file.name, text)
    return dropped(file.name, text, str(file.parent), [file.name])
