"""Right column of the page: parts of reports about a question, computed in a process of the server.

Commands give the same results: `run` or `serve`, `compare` with the baseline, `whatif`, `sweep`. Fast results come
first; ranges and the effects of other machines follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from podsim import memo
from podsim.errors import DoesNotFitError, InfeasibleError, PodsimError
from podsim.escaped import html
from podsim.format import format_error, format_figure, format_significant
from podsim.importer import ONNX, Request, import_model
from podsim.metrics import METRICS, PER_SECOND, metric_of
from podsim.report.chart import Chart, Curves, Mark, Series
from podsim.report.report import Part, Report, Topic
from podsim.report.table import Cells, Table, columns
from podsim.result.base import Result
from podsim.result.perfetto import write_trace
from podsim.result.serving import ServingResult
from podsim.result.where import memory_title
from podsim.runs import run
from podsim.runs.serve import serve
from podsim.scenario import LoadedScenario
from podsim.scenario.activity import Activity
from podsim.scenario.expectations import FITS, expectation
from podsim.show.html_page import as_html, fragment, tiles
from podsim.study.compare import difference, parts_of
from podsim.study.sides import COMPARED, Subject, result_subject
from podsim.study.sweep import sweep
from podsim.study.whatif import TWICE, WhatIf, effects_of
from podsim.ui.form import CHIP, REPLICAS, SYSTEM, Form, form_of
from podsim.ui.question import Question, dropped_question
from podsim.units import UNITS
from podsim.watch import Tell, Watch, no_progress, silent

VERDICT, TILES, AGAINST, MEMORY, LOAD = "verdict", "tiles", "against", "memory", "load"
HELP, SCALING, STANDING, TIMELINE = "help", "scaling", "standing", "timeline"
AREAS: Final = {
    VERDICT: "",
    TILES: "",
    AGAINST: "Where time goes, against the baseline",
    MEMORY: "Memory of each IPU",
    LOAD: "Latency over load",
    HELP: "What limits it, and what would help most",
    SCALING: "Scaling",
    STANDING: "What the answer stands on",
    TIMELINE: "",
}
"""Areas of the page from top to bottom, with headings."""
_RED: Final = "#9a1c1c"
_MEASURING: Final = "its range is being measured"
_PODS: Final = 4
"""End of the scaling curve, as a multiple of the pod."""
_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Job:
    """Folder for files and progress callbacks of one computation."""

    scratch: Path
    tell: Tell = no_progress
    watch: Watch = silent


@dataclass(frozen=True, slots=True)
class Answer:
    """HTML by area of the page, and a line for screen readers; other areas keep their content."""

    parts: Mapping[str, str] = field(default_factory=dict)
    fits: bool = True
    summary: str = ""


def _part(area: str, blocks: Iterable[Part], before: str = "") -> dict[str, str]:
    """Return the HTML of an area, below its heading."""
    text = before + fragment(blocks, area)
    return {area: f"<section><h2>{html(AREAS[area])}</h2>{text}</section>" if text and AREAS[area] else text}


def _paragraph(kind: str, bold: str, text: str) -> str:
    return f'<p class="{kind}"><strong>{html(bold)}</strong> {html(text)}</p>'


def form(job: Job, question: Question) -> Form:
    """Return the form of a question: its choices, and sliders around the numbers of the chosen pod and chip."""
    named = tuple(each for each in question.moved if each[0] in (SYSTEM, CHIP))
    try:
        return form_of(question, replace(question.as_written, moved=named).loaded(job.scratch))
    except PodsimError:  # such as more replicas than this pod has room for
        return form_of(question, question.as_written.loaded(job.scratch))


def at_once(job: Job, question: Question, baseline: Question) -> Answer:
    """Return the parts that are quick to compute while a slider is dragged: verdict, metrics, difference and memory."""
    return _answered(job, question, baseline, ranged=False)


def in_full(job: Job, question: Question, baseline: Question) -> Answer:
    """Return the result with ranges and with the basis of the numbers."""
    return _answered(job, question, baseline, ranged=True)


def _answered(job: Job, question: Question, baseline: Question, *, ranged: bool) -> Answer:
    try:
        result = simulated(job, question, ranged=ranged)
    except PodsimError as error:
        return _refused(job, question, error)
    shown = result if ranged else result.without_ranges()
    report, machine = shown.report(), result.simulated.machine
    first, *others = report.tiles
    if not ranged:
        first = replace(first, notes=first.notes or (_MEASURING,))
    expected = question.loaded(job.scratch).spec.expect or {}
    seen = [_with_target(chart, expected) for chart in _charts(report, Topic.REQUESTS)]
    if isinstance(result, ServingResult):
        fits, headline = machine, f"Saturates at {format_significant(result.saturation.rate_per_s)} requests/s"
    else:
        in_memory = result.memory.fullest_ipu() is not None
        fits = f"{memory_title(result.memory)}." if in_memory else machine
        headline = f"{first.label} {first.value}"
    verdict = (
        _paragraph("verdict good", "Fits.", fits),
        *_targets(result, expected),
        *_validation(result, ranged=ranged),
    )
    parts = {VERDICT: "".join(verdict), TILES: tiles([first, *others])}
    parts |= _part(AGAINST, _against(job, result, question, baseline, ranged=ranged))
    parts |= _part(MEMORY, _blocks(report, Topic.MEMORY))
    parts |= _part(LOAD, [*[f"The service {result.conclusion()}."] * bool(seen and ranged), *seen])
    if ranged:
        parts |= _part(STANDING, _blocks(report, Topic.INPUTS))
    return Answer(parts, summary=f"Fits. {headline}")


def _blocks(report: Report, topic: Topic) -> list[Part]:
    return [block for section in report.sections if section.topic is topic for block in section.blocks]


def _charts(report: Report, topic: Topic) -> list[Chart]:
    return [block for block in _blocks(report, topic) if isinstance(block, Chart)]


def simulated(job: Job, question: Question, *, ranged: bool = True, record: bool = False) -> Any:
    """Return the result of a question, as `podsim run` or `podsim serve` has it."""
    loaded = question.loaded(job.scratch)
    if question.serves:
        return serve(loaded, watch=job.watch) if ranged else serve(loaded, uncertainty=None, watch=job.watch)
    return run(loaded, watch=job.watch, record=record)


def _targets(result: Result, expected: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each expected metric that says if it is met, as in `podsim check`."""
    known = dict(result.figures())
    for name, text in expected.items():
        if name == FITS:
            continue
        target, metric = expectation(name, text), metric_of(name)
        value = known.get(target.metric)
        if value is None:  # for example a percentile without single times
            begin = target.metric.rpartition("_")[0]
            others = [name for name, value in known.items() if value is not None and name.startswith(begin)]
            instead = f"{', '.join(others)} instead, which `expect:` of a scenario file can name"
            word, figure = "not known", f"this answer has {instead if others else 'no such figure'}"
        else:
            word, figure = "met" if target.holds(value) else "missed", format_figure(metric, value)
        kind = "near" if word == "met" else "danger"
        yield _paragraph(kind, f"Target {word}:", f"{metric.label} {target.text}: {figure}")


def _with_target(chart: Chart, expected: Mapping[str, Any]) -> Chart:
    """Return a chart of percentiles over load with a line at the expected maximum."""
    drawn = chart.drawn
    if not isinstance(drawn, Curves) or drawn.x.ends is None:
        return chart
    lines = []
    for name, text in expected.items():
        label = metric_of(name).label
        if name != FITS and label.lower().startswith(drawn.y.label):
            most = expectation(name, text).high / UNITS["s"][drawn.y.unit]
            if math.isfinite(most):
                lines.append(Series(f"target, {label} {text}", Mark.LINE, drawn.x.ends, (most, most), _RED, (1, 2)))
    return replace(chart, drawn=replace(drawn, series=[*drawn.series, *lines]))


def _refused(job: Job, question: Question, error: PodsimError) -> Answer:
    """Return why the run is impossible, with the memory contents if it does not fit."""
    title = "Does not fit." if isinstance(error, InfeasibleError) else "Cannot be run."
    cure = f"<p><strong>What to do:</strong> {html(error.do)}</p>" if error.do else ""
    text = html(f"{error.where}: {error.message}" if error.where else error.message).replace("\n", "<br>")
    memory: list[Part] = []
    if isinstance(error, DoesNotFitError) and not question.replanned and not question.serves:
        with suppress(PodsimError):
            memory = _blocks(run(question.loaded(job.scratch), fit="warn").without_ranges().report(), Topic.MEMORY)
    verdict = f'<div class="verdict bad" role="alert"><p><strong>{title}</strong> {text}</p>{cure}</div>'
    parts = {**dict.fromkeys(AREAS, ""), **_part(MEMORY, memory), VERDICT: verdict}
    return Answer(parts, fits=False, summary=title)


def _validation(result: Result, *, ranged: bool) -> Iterator[str]:
    """Yield the validation status, in red if measurements are missing, and the warnings."""
    envelope = result.envelope
    if envelope.inside:
        yield '<p class="near">Published runs like this one have been compared with predictions.</p>'
    else:
        yield _paragraph("danger", "No measurement is near:", "; ".join(envelope.outside))
    for each in result.verdict if ranged else ():
        if not envelope.text or envelope.text not in each:
            yield f'<p class="stands">{html(each[:1].upper() + each[1:])}.</p>'
    yield from (_paragraph("warning", "Warning:", warning) for warning in result.warnings)
    yield from (_paragraph("note", "Note:", note) for note in result.notes)


def _against(job: Job, result: Result, question: Question, baseline: Question, *, ranged: bool) -> Iterator[Part]:
    """Yield the breakdown, compared with the baseline if that differs."""
    has_waterfalls = False
    if baseline != question:
        try:
            found = difference(_baseline(job, baseline, ranged=ranged), _subject(result, question, ranged=ranged))
        except PodsimError as error:
            yield f"There is nothing to compare with: {error.message}"
        else:
            yield "A is the baseline, B is this."
            yield from parts_of(found)
            has_waterfalls = bool(found.waterfalls)
    if not has_waterfalls:
        yield from _charts(result.without_ranges().report(), Topic.TIME)


def _baseline(job: Job, baseline: Question, *, ranged: bool) -> Subject:
    """Return the baseline's side of a comparison, cached while other things move."""

    def make() -> Subject:
        return _subject(simulated(job, baseline, ranged=ranged), baseline, ranged=ranged)

    return memo.ASKED.get((baseline, ranged), make) if baseline.is_settled else make()


def _subject(result: Result, question: Question, *, ranged: bool) -> Subject:
    return result_subject(result, question.scenario, "", ranged=ranged)


def further(job: Job, question: Question, baseline: Question) -> Answer:
    """Return the bound of the run, the effects of machine changes and of each moved slider, and scaling."""
    try:
        loaded = question.loaded(job.scratch)
        ranking = WhatIf((effects_of(loaded, TWICE, replan=question.replanned, progress=job.tell),)).report()
        red = "".join(_paragraph("danger", "No measurement is near:", warning) for warning in ranking.warnings)
        limits = f"{run(loaded, watch=job.watch).without_ranges().conclusion()}."
        ranked = [part for section in ranking.sections for part in section.blocks]
        parts = _part(HELP, [limits, *_effect_tables(job, question, baseline), *ranked], red)
    except PodsimError:  # the verdict says why the run is impossible
        return Answer({HELP: "", SCALING: ""})
    scaling: list[Part] = []
    with suppress(PodsimError):  # for example if the scenario names a file next to it
        scaling = list(_scaling(job, question, loaded))
    return Answer(parts | _part(SCALING, scaling))


def _effect_tables(job: Job, question: Question, baseline: Question) -> Iterator[Table]:
    """Yield a table of the separate effect of each moved value on the baseline."""
    values, before = dict(question.moved), dict(baseline.moved)
    steps = [
        (f"{key} {values.get(key, 'as written')}", baseline.with_value(key, values.get(key, "")))
        for key in before | values
        if values.get(key) != before.get(key)
    ]
    if question.replanned != baseline.replanned:
        name = "division chosen anew" if question.replanned else "division kept"
        steps.append((name, replace(baseline, replanned=question.replanned)))
    if not steps or question.as_written != baseline.as_written:
        return
    if len(steps) > 1:
        steps.append(("all together", question))
    first = _baseline(job, baseline, ranged=False)
    metric = METRICS[next(key for key in COMPARED[first.activity] if first.metrics.get(key))]
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


def _scaling(job: Job, question: Question, loaded: LoadedScenario) -> Iterator[Part]:
    """Yield a study of throughput over IPUs if replicas train, and over the batch otherwise."""
    spec: Any = loaded.spec
    if question.serves:
        return
    if loaded.auto is not None:
        yield "With the division chosen anew, a curve of scaling is a question of its own: `podsim sweep` asks it."
        return
    study: dict[str, Any] = {"kind": "study", "scenario": question.as_file(job.scratch)}
    if spec.activity is Activity.TRAINING:
        size, replicas, system = spec.parallelism.ipus_per_replica, spec.parallelism.replication_factor, spec.system
        room, own = max(replicas, system.ipu_count // size), replicas * size
        powers = [1 << each for each in range((_PODS * room).bit_length())]
        pods = f"((ipus + {room * size - 1}) // {room * size})"
        study["names"] = {"ipus": [size * count for count in sorted({*powers, replicas}) if count <= _PODS * room]}
        study["derived"] = {
            REPLICAS: f"${{ipus // {size}}}",
            "system.machine_count": f"${{{system.machine_count} * {pods}}}",
            "system.host_count": f"${{{system.host_count} * {pods}}}",
        }
    else:
        kind = "generation" if spec.activity is Activity.GENERATION else "forward"
        own = int(getattr(spec, kind).batch_size)
        study["keys"] = {f"{kind}.batch_size": sorted({*_BATCHES, own})}
    for section in sweep(study, ranges=True, processes=1, tell=job.tell).report().sections:
        for chart in section.blocks if section.plotted else ():
            if isinstance(chart, Chart) and isinstance(chart.drawn, Curves):
                drawn = replace(chart.drawn, rules={"this one": float(own)})
                yield replace(chart, drawn=drawn, notes=[*chart.notes, f"The upright line is this one, at {own:,}."])


def report(job: Job, question: Question) -> bytes:
    """Return the page that `--report` writes."""
    return as_html(simulated(job, question, record=True).report()).encode(errors="replace")


def timeline(job: Job, question: Question) -> Answer:
    """Return the timeline of a run."""
    blocks = _blocks(simulated(job, question, record=True).without_ranges().report(), Topic.TIMELINE)
    return Answer(_part(TIMELINE, blocks or ["A service has no timeline; its steps have."]))


def trace(job: Job, question: Question) -> bytes:
    """Return the content of the file that `--trace` writes."""
    path = job.scratch / f"trace-{abs(hash(question))}.json"
    write_trace(simulated(job, question, record=True), path)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def imported(job: Job, path: str, system: str) -> Question:
    """Return the question for a `config.json` or an ONNX file that was dropped on the page."""
    file = Path(path)
    text = import_model(file, Request(system=system, folder=file.parent), watch=job.watch)
    if file.suffix.lower() != ONNX:  # the scenario holds all of it
        return dropped_question(file.name, text)
    return dropped_question(file.name, text, str(file.parent), [file.name])
