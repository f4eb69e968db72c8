"""Planner page of one session: the form on the left, the answer on the right, the verdict first.

Texts of users and files become text of elements, or pass through tables of reports, which escape them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from nicegui import events, ui

from podsim.errors import PodsimError
from podsim.escaped import html
from podsim.scenario.catalogue import shipped_list
from podsim.ui import answer as answers
from podsim.ui.answer import AREAS, TILES, TIMELINE, VERDICT, Answer
from podsim.ui.form import CHIP, PRICES, SYSTEM, Form, Slider
from podsim.ui.pool import Asker, Pool, Step
from podsim.ui.question import LONGEST_TEXT, Question, dropped_question, read_query, stem_of

_EXPECT: Final = "expect."
_SCENARIOS: Final = (".yaml", ".yml")
_MOST_BYTES: Final[Mapping[str, tuple[int, str]]] = {
    **dict.fromkeys(_SCENARIOS, (LONGEST_TEXT, "64 KiB")),
    ".json": (1 << 20, "1 MiB"),
    ".onnx": (1 << 30, "1 GiB"),
}
"""Largest accepted file of each kind, and its text."""
_TAKEN: Final = "drop a scenario (.yaml), a config.json or an ONNX file (.onnx) of at most 1 GiB"
_LAST: Final = '<p class="small">The figures below are of the last answer.</p>'
_LOOK_S: Final = 0.25
_LONGEST_ADDRESS: Final = 30_000
Changed = events.ValueChangeEventArguments[Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """Resources that all sessions share: processes, named scenarios, and the scenario to show first."""

    pool: Pool
    named: tuple[str, ...]
    first: str

    def warm(self) -> None:
        """Start the processes, with what most questions share."""
        self.pool.start(answers.in_full, Question(self.first), Question(self.first))


class Planner:
    """A session of the page."""

    def __init__(self, offer: Offer, query: str) -> None:
        self._offer = offer
        self._client = ui.context.client
        self._asker = Asker(offer.pool, self._refused)
        self._areas: dict[str, ui.html] = {}
        self._client.on_delete(self._asker.drop)
        self.question = self.baseline = Question(offer.first)
        self._build()
        try:
            self._take(read_query(query, offer.named, offer.first))
        except PodsimError as error:
            self._refused(error)

    # What there is

    def _build(self) -> None:
        _html('<a class="skip" href="#answer">Skip to the answer</a>')
        with ui.element("div").classes("planner"):
            with ui.element("div").classes("told"):
                self._status = ui.label("Reading the scenario").classes("status").props('role="status"')
                with ui.element("div").classes("busy") as self._busy:
                    self._bar = ui.linear_progress(0.0, show_value=False).props('aria-label="Progress"')
                    ui.button("Cancel", on_click=self._cancel).props("flat dense no-caps")
                self._busy.set_visibility(False)
                _html('<a href="#answer">To the answer</a>').classes("to-answer")
            with ui.element("aside").props('aria-label="What is asked"'):
                _html("<h1>podsim</h1>")
                names = [*self._offer.named, *(scenario.name for scenario in shipped_list().scenarios)]
                self._scenario = ui.select(
                    names, value=self._offer.first, label="Scenario", with_input=True, on_change=self._chosen
                )
                self._scenario.props('dense outlined options-dense aria-label="Scenario"').classes("wide")
                upload = ui.upload(
                    label="Or drop a scenario, config.json or ONNX file",
                    auto_upload=True,
                    max_file_size=max(size_bytes for size_bytes, _ in _MOST_BYTES.values()),
                    on_upload=self._dropped,
                    on_rejected=lambda: self._say(f"that file is not taken: {_TAKEN}"),
                )
                upload.props('flat bordered accept=".yaml,.yml,.json,.onnx"').classes("drop")
                self._left = ui.element("div").classes("left")
            with ui.element("div").classes("answers").props('id=answer role=region aria-label="The answer"'):
                for area in AREAS:
                    self._areas[area] = _html("").classes(f"part part-{area}").mark(f"part-{area}")
                    if area == TILES:
                        self._buttons()
        ui.timer(_LOOK_S, self._look)

    def _buttons(self) -> None:
        with ui.element("div").classes("tools").props('role="toolbar" aria-label="This answer"'):
            for text, action in (
                ("Pin as baseline", lambda: self._compare_with(self.question)),
                ("Baseline as written", lambda: self._compare_with(self.question.as_written)),
                ("Undo all moves", lambda: self._open(self.question.as_written)),  # the baseline stays
                ("Copy as YAML", lambda: self._copy("YAML", self.question.yaml(self._offer.pool.scratch))),
                ("Copy as command", lambda: self._copy("command", self.question.command())),
                ("Download report", partial(self._download, answers.report, "html")),
                ("Show timeline", lambda: self._ask_once(answers.timeline, partial(self._show, self.question))),
                ("Download timeline", partial(self._download, answers.trace, "json")),
            ):
                ui.button(text, on_click=action).props("outline dense no-caps")

    def _build_form(self, form: Form) -> None:
        asked, moved = self.question, dict(self.question.moved)
        self._left.clear()
        with self._client, self._left:
            if form.variants:
                _select("Variant", form.variants, asked.variant, lambda name: self._begin(variant=name, moved=()))
            if form.can_serve:
                label = "Serve requests under load"
                ui.switch(label, value=asked.serves, on_change=lambda event: self._begin(serves=bool(event.value)))
            if form.can_divide:
                switch = ui.switch("Choose the division anew", value=asked.replanned)
                switch.on_value_change(lambda event: self._open(replace(self.question, replanned=bool(event.value))))
            for choice in form.choices:
                label = choice.label if choice.key in moved else f"{choice.label} (as written: {choice.value})"
                _select(label, choice.options, moved.get(choice.key, ""), partial(self._move, choice.key))
            for slider in form.sliders:
                self._slider(slider, moved)
            targets = (f"{key.removeprefix(_EXPECT)} {text}" for key, text in moved.items() if key.startswith(_EXPECT))
            _input("Target, such as time_to_train_s < 10 min", next(targets, ""), self._aimed)
            for key, label in PRICES.items():
                _input(label, moved.get(key, ""), partial(self._move, key))

    def _slider(self, slider: Slider, moved: Mapping[str, str]) -> None:
        """Add a slider, its number field, and a mark over the validated range."""
        label = f"{slider.label} [{slider.unit}]" if slider.unit else slider.label
        try:
            value = float(moved.get(slider.key, "").removesuffix(slider.unit).strip())
        except ValueError:  # not moved, or in another unit
            value = slider.value
        low, high = min(slider.low, value), max(slider.high, value)
        with ui.element("div").classes("slider"):
            number = ui.number(label, value=value, step=slider.step, min=0).props("dense borderless").classes("number")
            moving = ui.slider(min=low, max=high, step=slider.step, value=value)
            moving.props(f'aria-label="{label}"').bind_value(number)
            moving.on_value_change(partial(self._slid, slider))
            mark, words = "", "not compared with published runs"
            if slider.covered is not None:
                first, last = (min(100.0, max(0.0, 100 * (end - low) / (high - low or 1))) for end in slider.covered)
                place = f"left: {first:.1f}%; width: max(6px, {last - first:.1f}%)"
                mark = f'<div class="covered"><span style="{place}"></span></div>'
                ends = dict.fromkeys(map(slider.text, slider.covered))
                words = f"compared with published runs: {' to '.join(ends)}"
            _html(f'{mark}<p class="small">{html(words)}</p>')

    # What is asked

    def _open(self, question: Question) -> None:
        """Show a scenario: what can be moved in it, then its answer."""
        self.question = question
        self._ask((answers.form, (question,), self._build_form))

    def _begin(self, **changed: Any) -> None:
        """Show a question with other parts, which is its own baseline as it is written."""
        question = replace(self.question, **changed)
        self.baseline = question.as_written
        self._open(question)

    def _ask(self, *before: Step) -> None:
        asked = self.question
        # The search for a layout takes long, and the ranking repeats it for each machine: the user starts it.
        makes = [answers.at_once, answers.in_full, *[answers.further] * (not asked.replanned)]
        self._asker.ask([*before, *((make, (asked, self.baseline), partial(self._show, asked)) for make in makes)])

    def _ask_once(self, make: Callable[..., Any], take: Callable[[Any], None]) -> None:
        self._asker.ask([(make, (self.question,), take)])

    def _show(self, asked: Question, answer: Answer) -> None:
        with self._client:
            for area, text in answer.parts.items():
                if self._areas[area].content != text:
                    self._areas[area].set_content(text)
            if answer.summary:
                self._status.set_text(answer.summary)
                self._areas[TIMELINE].set_content("")
                address = asked.query()
                if len(address) < _LONGEST_ADDRESS and not asked.folder:
                    ui.navigate.history.replace(f"?{address}")

    def _refused(self, error: PodsimError) -> None:
        with self._client:
            self._status.set_text("There is no answer.")
            # A dropped file is in a folder of the server, whose path means nothing to the user.
            text = re.sub(rf"{re.escape(str(self._offer.pool.scratch))}/[^/\s]+/", "", str(error))
            told = html(text).replace("\n", "<br>")
            last = _LAST if self._areas[TILES].content else ""
            self._areas[VERDICT].set_content(f'<div class="verdict bad" role="alert"><p>{told}</p>{last}</div>')

    def _move(self, key: str, value: str) -> None:
        self.question = self.question.with_value(key, value)
        # Another pod or chip has other start values.
        if key in (SYSTEM, CHIP):
            self._open(self.question)
        else:
            self._ask()

    def _slid(self, slider: Slider, event: Changed) -> None:
        if event.value is not None:
            same = abs(event.value - slider.value) < slider.step / 2
            self._move(slider.key, "" if same else slider.text(event.value))

    def _aimed(self, target: str) -> None:
        """Set one target from the name of a metric and its bounds."""
        for key, _ in self.question.moved:
            if key.startswith(_EXPECT):
                self.question = self.question.with_value(key, "")
        name, _, bounds = target.partition(" ")
        if name:
            self.question = self.question.with_value(f"{_EXPECT}{name}", bounds.strip() or "?")
        self._ask()

    def _chosen(self, event: Changed) -> None:
        if event.value and event.value != self.question.scenario:
            self.question = Question(event.value)
            self._begin()

    async def _dropped(self, event: events.UploadEventArguments) -> None:
        name = Path(event.file.name).name
        suffix = Path(name).suffix.lower()
        try:
            if suffix not in _MOST_BYTES:
                self._say(_TAKEN)
                return
            most_bytes, most = _MOST_BYTES[suffix]
            if event.file.size() > most_bytes:
                raise PodsimError(f"the file is larger than {most}", where=name, do="drop a smaller one")
            if suffix in _SCENARIOS:
                self._take(dropped_question(name, await event.file.text()))
            else:
                path = Path(tempfile.mkdtemp(dir=self._offer.pool.scratch)) / f"{stem_of(name)}{suffix}"
                await event.file.save(path)
                system = dict(self.question.moved).get(SYSTEM) or "ipu_pod16"
                self._asker.ask([(answers.imported, (str(path), system), self._take)])
        except UnicodeDecodeError:
            self._refused(PodsimError("this is no text in UTF-8", where=name, do="drop a YAML file"))
        except PodsimError as error:
            self._refused(error)

    def _take(self, question: Question) -> None:
        with self._client:
            if question.scenario not in self._scenario.options:
                self._scenario.set_options([question.scenario, *self._scenario.options])
            self.question = question  # so that the value is not taken for a choice of the user
            self._scenario.set_value(question.scenario)
            self._begin()

    def _compare_with(self, baseline: Question) -> None:
        self.baseline = baseline
        self._ask()

    def _cancel(self) -> None:
        self._asker.drop()
        self._status.set_text("Cancelled: what is shown is the last answer.")

    def _download(self, make: Callable[..., Any], suffix: str) -> None:
        name = f"{stem_of(self.question.scenario)}.{suffix}"

        def save(content: bytes) -> None:
            with self._client:
                ui.download.content(content, name)

        self._ask_once(make, save)

    def _copy(self, what: str, text: str) -> None:
        """Show a text that can be copied, and copy it where the browser lets a page do so."""
        with ui.dialog(value=True) as dialog, ui.card().classes("copied"):
            ui.label(f"As {what}")
            ui.textarea(value=text).props(f'readonly outlined aria-label="As {what}"').classes("wide")
            with ui.row():
                ui.button("Copy", on_click=lambda: ui.clipboard.write(text)).props("no-caps")
                ui.button("Close", on_click=dialog.close).props("flat no-caps")

    def _say(self, text: str) -> None:
        ui.notify(text, close_button="Close")

    def _look(self) -> None:
        """Show that work goes on, how far it is, and how many wait."""
        busy, waiting = self._asker.is_busy, self._offer.pool.waiting
        self._busy.set_visibility(busy)
        if busy:
            done, total = self._asker.ticket.progress
            self._bar.set_value(done / total if total else 0.0)
            if not total and waiting > 1:
                self._status.set_text(f"{waiting} questions wait for an answer; this is one of them.")


def _html(text: str) -> ui.html:
    return ui.html(text, sanitize=False)


def _select(label: str, names: tuple[str, ...], value: str, take: Callable[[str], None]) -> None:
    options = {name: name or "as written" for name in ("", *names, value)}
    chosen = ui.select(options, value=value, label=label, on_change=lambda event: take(event.value or ""))
    chosen.props(f'dense outlined options-dense aria-label="{label}"').classes("wide")


def _input(label: str, value: str, take: Callable[[str], None]) -> None:
    typed = ui.input(label, value=value).props("dense debounce=500").classes("wide")
    typed.on_value_change(lambda event: take(str(event.value or "").strip()))
