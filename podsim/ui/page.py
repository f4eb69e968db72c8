"""The planner page of one session: what was moved on the left, its answer on the right, the verdict first.

Texts of people and of files become text of elements, or pass through the tables of reports, which escape them.
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
from podsim.harmless import html
from podsim.scenario.catalogue import shipped_list
from podsim.ui import answer as answers
from podsim.ui.answer import AGAINST, AREAS, HELP, LOAD, MEMORY, SCALING, SURE, TILES, VERDICT, Answer
from podsim.ui.form import CHIP, PRICES, SYSTEM, Choice, Form, Slider
from podsim.ui.pool import Asker, Pool, Step
from podsim.ui.question import LONGEST_TEXT, Question, dropped, read_query, stem_of

TITLES: Final = {
    AGAINST: "Where time goes, against the baseline",
    MEMORY: "Memory of each IPU",
    LOAD: "Latency over load",
    HELP: "What limits it, and what would help most",
    SCALING: "Scaling",
    SURE: "What the answer stands on",
}
_EXPECT: Final = "expect."
_SCENARIOS: Final = (".yaml", ".yml")
_MOST_BYTES: Final[Mapping[str, tuple[int, str]]] = {
    **dict.fromkeys(_SCENARIOS, (LONGEST_TEXT, "64 KiB")),
    ".json": (1 << 20, "1 MiB"),
    ".onnx": (1 << 30, "1 GiB"),
}
"""The largest file of each kind that is taken, and how that is told."""
_TAKEN: Final = "drop a scenario (.yaml), a config.json or an ONNX file (.onnx) of at most 1 GiB"
_LAST: Final = '<p class="small">The figures below are of the last answer.</p>'
_LOOK_S: Final = 0.25
_LONGEST_ADDRESS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server offers to all sessions."""

    pool: Pool
    named: tuple[str, ...]
    first: str


class Planner:
    """A session of the page."""

    def __init__(self, offer: Offer, query: str) -> None:
        """Build the page."""
        self._offer = offer
        self._client = ui.context.client
        self._asker = Asker(offer.pool, self._refused)
        self._form: Form | None = None
        self._areas: dict[str, ui.html] = {}
        self._client.on_delete(self._asker.drop)
        problem = None
        try:
            self.question = read_query(query, offer.named, offer.first)
        except PodsimError as error:
            self.question, problem = Question(offer.first), error
        self.baseline = self.question.as_written
        self._build()
        if problem is not None:
            self._refused(problem)
        else:
            self._open(self.question)

    # What there is

    def _build(self) -> None:
        ui.html('<a class="skip" href="#answer">Skip to the answer</a>', sanitize=False)
        with ui.element("div").classes("planner"):
            with ui.element("div").classes("told"):
                self._status = ui.label("Reading the scenario").classes("status").props('role="status"')
                with ui.element("div").classes("busy") as self._busy:
                    self._bar = ui.linear_progress(0.0, show_value=False).props('aria-label="Progress"')
                    ui.button("Cancel", on_click=self._cancel).props("flat dense no-caps")
                self._busy.set_visibility(False)
                ui.html('<a href="#answer">To the answer</a>', sanitize=False).classes("to-answer")
            with ui.element("aside").props('aria-label="What is asked"'):
                ui.html("<h1>podsim</h1>", sanitize=False)
                self._scenario = self._scenario_choice()
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
                self._area(VERDICT)
                self._area(TILES)
                self._buttons()
                for area in AREAS[2:]:
                    self._area(area)
                self._area("timeline")
        ui.timer(_LOOK_S, self._look)

    def _scenario_choice(self) -> ui.select:
        names = [*self._offer.named, *(each.name for each in shipped_list().scenarios)]
        own = self.question.scenario
        names = names if own in names else [own, *names]
        chosen = ui.select(names, value=own, label="Scenario", with_input=True, on_change=self._chosen)
        return chosen.props('dense outlined options-dense aria-label="Scenario"').classes("wide")

    def _area(self, name: str) -> None:
        self._areas[name] = ui.html("", sanitize=False).classes(f"part part-{name}").mark(f"part-{name}")

    def _buttons(self) -> None:
        with ui.element("div").classes("tools").props('role="toolbar" aria-label="This answer"'):
            for text, action in (
                ("Pin as baseline", self._pin),
                ("Baseline as written", self._unpin),
                ("Undo all moves", self._undo),
                ("Copy as YAML", lambda: self._copy("YAML", self.question.yaml(self._offer.pool.scratch))),
                ("Copy as command", lambda: self._copy("command", self.question.command())),
                ("Copy address", self._copy_address),
                ("Download report", partial(self._download, answers.report, "html")),
                ("Show timeline", partial(self._ask_once, answers.timeline)),
                ("Download timeline", partial(self._download, answers.trace, "json")),
            ):
                ui.button(text, on_click=action).props("outline dense no-caps")

    def _build_form(self, form: Form) -> None:
        self._form = form
        moved = dict(self.question.moved)
        self._left.clear()
        with self._left:
            if form.variants:
                self._select("Variant", ["", *form.variants], self.question.variant, self._vary)
            if form.can_serve:
                ui.switch("Serve requests under load", value=self.question.serves, on_change=self._serve)
            if form.can_divide:
                ui.switch("Choose the division anew", value=self.question.anew, on_change=self._divide)
            for choice in form.choices:
                self._choice(choice, moved)
            for slider in form.sliders:
                self._slider(slider, moved)
            targets = [f"{key.removeprefix(_EXPECT)} {text}" for key, text in moved.items() if key.startswith(_EXPECT)]
            target = next(iter(targets), "")
            aim = ui.input("Target, such as time_to_train_s < 10 min", value=target).props("dense debounce=500")
            aim.classes("wide").on_value_change(self._aimed)
            for key, label in PRICES.items():
                price = ui.input(label, value=moved.get(key, "")).props("dense debounce=500").classes("wide")
                price.on_value_change(partial(self._typed, key))

    def _select(self, label: str, names: list[str], value: str, take: Callable[[str], None]) -> None:
        options = {name: name or "as written" for name in names}
        options.setdefault(value, value)
        chosen = ui.select(options, value=value, label=label, on_change=lambda event: take(event.value or ""))
        chosen.props(f'dense outlined options-dense aria-label="{label}"').classes("wide")

    def _choice(self, choice: Choice, moved: dict[str, str]) -> None:
        label = choice.label if choice.key in moved else f"{choice.label} (as written: {choice.value})"
        self._select(label, ["", *choice.options], moved.get(choice.key, ""), partial(self._move, choice.key))

    def _slider(self, slider: Slider, moved: dict[str, str]) -> None:
        """A slider, its number, and a mark over the range in which runs were compared."""
        label = f"{slider.label} [{slider.unit}]" if slider.unit else slider.label
        value = _number(moved.get(slider.key), slider)
        low, high = min(slider.low, value), max(slider.high, value)
        with ui.element("div").classes("slider"):
            number = ui.number(label, value=value, step=slider.step, min=0).props("dense borderless").classes("number")
            moving = ui.slider(min=low, max=high, step=slider.step, value=value)
            moving.props(f'aria-label="{label}"').bind_value(number)
            moving.on_value_change(partial(self._slid, slider))
            if slider.covered is not None:
                first, last = (100 * (end - low) / (high - low or 1) for end in slider.covered)
                first, last = max(0.0, first), min(100.0, last)
                words = f"compared with published runs: {slider.text(slider.covered[0])}"
                if slider.covered[1] > slider.covered[0]:
                    words += f" to {slider.text(slider.covered[1])}"
                mark = f"left: {first:.1f}%; width: max(6px, {max(0.0, last - first):.1f}%)"
                ui.html(
                    f'<div class="covered"><span style="{mark}"></span></div><p class="small">{html(words)}</p>',
                    sanitize=False,
                )
            else:
                ui.html('<p class="small">not compared with published runs</p>', sanitize=False)

    # What is asked

    def _open(self, question: Question) -> None:
        """Show a scenario: what can be moved in it, then its answer."""
        self.question = question
        self._ask(((answers.form, (question,), self._formed),))

    def _formed(self, form: Form) -> None:
        with self._client:
            self._build_form(form)

    def _ask(self, before: tuple[Step, ...] = ()) -> None:
        asked, base = self.question, self.baseline
        take = partial(self._show, asked)
        steps: list[Step] = [*before, (answers.at_once, (asked, base), take)]
        steps.append((answers.in_full, (asked, base), take))
        # A choice of the division takes long, and its ranking a search for each machine: that is asked for by hand.
        if not asked.anew:
            steps.append((answers.further, (asked, base), take))
        self._asker.ask(steps)

    def _show(self, asked: Question, answer: Answer) -> None:
        with self._client:
            for area, text in answer.parts.items():
                self._put(area, text)
            if answer.summary:
                self._status.set_text(answer.summary)
                self._areas["timeline"].set_content("")
                address = asked.query()
                if len(address) < _LONGEST_ADDRESS and not asked.folder:
                    ui.navigate.history.replace(f"?{address}")

    def _put(self, area: str, text: str) -> None:
        title = TITLES.get(area)
        content = f"<section><h2>{html(title)}</h2>{text}</section>" if text and title else text
        if self._areas[area].content != content:
            self._areas[area].set_content(content)

    def _refused(self, error: PodsimError) -> None:
        with self._client:
            self._status.set_text("There is no answer.")
            # A file that was dropped lies in a folder of the server, which says nothing to who dropped it.
            text = re.sub(rf"{re.escape(str(self._offer.pool.scratch))}/[^/\s]+/", "", str(error))
            told = html(text).replace("\n", "<br>")
            last = _LAST if self._areas[TILES].content else ""
            self._areas[VERDICT].set_content(f'<div class="verdict bad" role="alert"><p>{told}</p>{last}</div>')

    def _move(self, key: str, value: str) -> None:
        self.question = self.question.with_value(key, value)
        # Another pod or chip brings other numbers to start from.
        if key in (SYSTEM, CHIP):
            self._open(self.question)
        else:
            self._ask()

    def _slid(self, slider: Slider, event: events.ValueChangeEventArguments[Any]) -> None:
        if event.value is not None:
            same = abs(event.value - slider.value) < slider.step / 2
            self._move(slider.key, "" if same else slider.text(event.value))

    def _typed(self, key: str, event: events.ValueChangeEventArguments[Any]) -> None:
        self._move(key, str(event.value or "").strip())

    def _aimed(self, event: events.ValueChangeEventArguments[Any]) -> None:
        """One target: the name of a figure, and its bounds."""
        for key, _ in self.question.moved:
            if key.startswith(_EXPECT):
                self.question = self.question.with_value(key, "")
        name, _, bounds = str(event.value or "").strip().partition(" ")
        if name:
            self.question = self.question.with_value(f"{_EXPECT}{name}", bounds.strip() or "?")
        self._ask()

    def _chosen(self, event: events.ValueChangeEventArguments[Any]) -> None:
        if event.value and event.value != self.question.scenario:
            self._begin(Question(event.value))

    def _begin(self, question: Question) -> None:
        self.baseline = question.as_written
        self._open(question)

    def _vary(self, variant: str) -> None:
        self._begin(replace(self.question, variant=variant, moved=()))

    def _serve(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._begin(replace(self.question, serves=bool(event.value)))

    def _divide(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._open(replace(self.question, anew=bool(event.value)))

    async def _dropped(self, event: events.UploadEventArguments) -> None:
        name, scratch = Path(event.file.name).name, self._offer.pool.scratch
        suffix = Path(name).suffix.lower()
        try:
            if suffix not in _MOST_BYTES:
                self._say(_TAKEN)
                return
            most_bytes, most = _MOST_BYTES[suffix]
            if event.file.size() > most_bytes:
                raise PodsimError(f"the file is larger than {most}", where=name, do="drop a smaller one")
            if suffix in _SCENARIOS:
                self._take(dropped(name, await event.file.text()))
            else:
                folder = Path(tempfile.mkdtemp(dir=scratch))
                path = folder / f"{stem_of(name)}{suffix}"
                await event.file.save(path)
                self._asker.ask([(answers.imported, (str(path), self._system()), self._take)])
        except UnicodeDecodeError:
            self._refused(PodsimError("this is no text in UTF-8", where=name, do="drop a YAML file"))
        except PodsimError as error:
            self._refused(error)

    def _system(self) -> str:
        return dict(self.question.moved).get(SYSTEM) or "ipu_pod16"

    def _take(self, question: Question) -> None:
        with self._client:
            names = list(self._scenario.options)
            self._scenario.set_options([question.scenario, *(n for n in names if n != question.scenario)])
            self.baseline, self.question = question.as_written, question
            self._scenario.set_value(question.scenario)
            self._open(question)

    def _pin(self) -> None:
        self.baseline = self.question
        self._ask()

    def _unpin(self) -> None:
        self.baseline = self.question.as_written
        self._ask()

    def _undo(self) -> None:
        """Ask for the scenario as it is written; the baseline stays."""
        self._open(self.question.as_written)

    def _cancel(self) -> None:
        self._asker.drop()
        self._status.set_text("Cancelled: what is shown is the last answer.")

    def _ask_once(self, make: Callable[..., Any]) -> None:
        self._asker.ask([(make, (self.question,), partial(self._show, self.question))])

    def _download(self, make: Callable[..., Any], suffix: str) -> None:
        name = f"{stem_of(self.question.scenario)}.{suffix}"
        self._asker.ask([(make, (self.question,), partial(self._save, name))])

    def _save(self, name: str, content: bytes) -> None:
        with self._client:
            ui.download.content(content, name)

    def _copy_address(self) -> None:
        if self.question.folder:
            self._say("an address cannot hold an ONNX file: copy the scenario as YAML, and keep the file beside it")
        else:
            self._copy("address", f"{self._client.request.base_url}?{self.question.query()}")

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
        busy = self._asker.is_busy
        self._busy.set_visibility(busy)
        if busy:
            done, total = self._asker.progress or (0, 0)
            self._bar.set_value(done / total if total else 0.0)
            if not total and self._offer.pool.waiting > 1:
                self._status.set_text(f"{self._offer.pool.waiting} questions wait for an answer; this is one of them.")


def _number(text: str | None, slider: Slider) -> float:
    """The number of a value that was moved; that of the scenario where it was not, or is in another unit."""
    try:
        return float((text or "").removesuffix(slider.unit).strip())
    except ValueError:
        return slider.value
