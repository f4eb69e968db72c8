"""The planner page: questions, answers, who may ask, which question is answered, and the page without a browser."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from podsim import load_scenario, run
from podsim.errors import PodsimError, SpecError
from podsim.format import format_significant
from podsim.ui import answer
from podsim.ui.form import SYSTEM, form_of
from podsim.ui.gate import Gate, is_loopback
from podsim.ui.pool import Asker, Pool, Ticket
from podsim.ui.question import LONGEST_TEXT, Question, dropped_question, read_query, stem_of
from podsim.ui.serve import address, check_packages, check_port, new_token
from tests.unit.page_examples import luminance

BERT, LLAMA, SERVICE = "bert_v1.1_pod64_closed", "llama2_7b_pods", "serving_llama2_7b_pod64"
CLOCK = "system.machine.ipu.clock"
FASTER = Question(BERT).with_value(CLOCK, "1.5 GHz")
HERE = "127.0.0.1:8080"
EVIL = "<img src=x onerror=alert(1)>"
needs_pages = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("vl_convert") is None, reason="reports need vl-convert-python"
)
needs_nicegui = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("nicegui") is None, reason="the planner page needs NiceGUI"
)


@pytest.fixture
def job(tmp_path: Path) -> answer.Job:
    return answer.Job(tmp_path)


# Questions


def test_an_address_holds_the_question() -> None:
    asked = FASTER.with_value(SYSTEM, "bow_pod64")
    assert asked.moved == ((SYSTEM, "bow_pod64"), (CLOCK, "1.5 GHz"))  # the pod first: the clock is one of its keys
    assert read_query(asked.query(), (), BERT) == asked
    assert read_query("", (), BERT) == Question(BERT)
    assert read_query(Question(SERVICE, "static", serves=True, replanned=True).query(), (), BERT) == Question(
        SERVICE, "static", serves=True, replanned=True
    )


def test_an_address_holds_a_scenario_that_was_dropped() -> None:
    asked = dropped_question("my model.yaml", f"base: {BERT}\nsystem: bow_pod64\n").with_value(CLOCK, "1.5 GHz")
    assert asked.scenario == "my_model"
    assert read_query(asked.query(), (), BERT) == asked


@pytest.mark.parametrize(("name", "stem"), [("bert_v1.1_pod64_open", "bert_v1.1_pod64_open"), ("a/b.v2.yaml", "b.v2")])
def test_a_version_in_a_name_is_no_suffix(name: str, stem: str) -> None:
    assert stem_of(name) == stem


def test_a_value_that_is_as_written_is_not_moved() -> None:
    assert FASTER.with_value(CLOCK, "") == Question(BERT)


def test_a_new_division_leaves_out_keys_of_the_old_one() -> None:
    asked = Question(BERT, replanned=True).with_value("parallelism.micro_batch_size", "4").with_value(CLOCK, "1.5 GHz")
    assert asked.overrides == (f"{CLOCK}=1.5 GHz", "parallelism=auto")


def test_the_command_asks_the_same() -> None:
    assert FASTER.command() == f"podsim run {BERT} --set 'system.machine.ipu.clock=1.5 GHz'"
    assert Question(SERVICE, "static", serves=True).command() == f"podsim serve {SERVICE} --variant static"


@pytest.mark.parametrize("asked", [FASTER, FASTER.with_value(SYSTEM, "bow_pod64"), Question(LLAMA)])
def test_the_yaml_asks_the_same(asked: Question, tmp_path: Path) -> None:
    path = tmp_path / "copied.yaml"
    path.write_text(asked.yaml(tmp_path), encoding="utf-8")
    assert dict(run(path).figures()) == dict(run(asked.loaded(tmp_path)).figures())


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("scenario=/etc/passwd", "neither shipped nor named"),
        ("scenario=bert_v1.1_pod64_close", "did you mean `bert_v1.1_pod64_closed`"),
        (f"scenario={BERT}&set=system=/etc/passwd", "reads no other file"),
        (f"scenario={BERT}&set=system={{base: ../secret}}", "reads no other file"),
        (f"scenario={SERVICE}&set=serving.file=/etc/passwd", "reads no other file"),
        (f"scenario={BERT}&set=nothing", "not KEY=VALUE"),
        ("scenario=x&yaml=abc", "holds no scenario"),
    ],
)
def test_an_address_names_no_file_of_the_machine(query: str, told: str) -> None:
    with pytest.raises(SpecError, match=re.escape(told)):
        read_query(query, (), BERT)


def test_a_file_named_at_the_start_may_be_in_an_address() -> None:
    assert read_query("scenario=/models/mine.yaml", ("/models/mine.yaml",), BERT).scenario == "/models/mine.yaml"


def test_a_dropped_file_names_no_file_of_the_machine() -> None:
    with pytest.raises(SpecError, match="reads no other file") as caught:
        dropped_question("a.yaml", "base: ../other\nmodel: {kind: graph, file: /etc/hostname}\n")
    assert [problem.key for problem in caught.value.problems] == ["base", "model.file"]
    assert dropped_question("a.yaml", "model: {kind: graph, file: m.onnx}\n", own=["m.onnx"]).scenario == "a"


def test_a_packed_scenario_does_not_grow_beyond_reason() -> None:
    bomb = Question("x", text="#" * 1_000_000)
    with pytest.raises(SpecError, match="holds no scenario"):
        read_query(bomb.query(), (), BERT)


# The left column


def test_sliders_mark_what_was_compared(tmp_path: Path) -> None:
    asked = Question(BERT)
    sliders = {slider.key: slider for slider in form_of(asked, asked.loaded(tmp_path)).sliders}
    clock = sliders[CLOCK]
    # Published runs are of GC200 at 1.33 GHz and of Bow at 1.85 GHz.
    assert (clock.value, clock.unit, clock.covered) == (1.33, "GHz", (1.33, 1.85))
    assert clock.low < 1.33 < 1.85 < clock.high
    # 8 replicas of 8 IPUs: the IPUs of compared runs, an eighth of them.
    assert sliders["parallelism.replication_factor"].covered == (2, 32)
    assert sliders["system.machine_count"].covered is None


def test_a_service_has_a_rate_and_training_has_none(tmp_path: Path) -> None:
    service, training = Question(SERVICE, serves=True), Question(BERT)
    rates = {slider.key: slider.value for slider in form_of(service, service.loaded(tmp_path)).sliders}
    assert rates["serving.rate"] == load_scenario(SERVICE).spec.serving.rate  # type: ignore[attr-defined]
    form = form_of(training, training.loaded(tmp_path))
    assert not form.can_serve
    assert form.can_divide
    assert "serving.rate" not in {slider.key for slider in form.sliders}


def test_another_pod_brings_its_own_numbers(job: answer.Job) -> None:
    asked = Question(BERT).with_value(SYSTEM, "bow_pod64")
    clocks = {slider.key: slider.value for slider in answer.form(job, asked).sliders}
    assert clocks[CLOCK] == 1.85
    # Its 8 replicas have no room on 4 IPUs: the numbers stay those of the scenario.
    assert answer.form(job, Question(BERT).with_value(SYSTEM, "ipu_pod4")) == answer.form(job, Question(BERT))


def test_a_division_that_is_chosen_has_no_numbers_to_move(job: answer.Job) -> None:
    kept, anew = (
        {slider.key for slider in answer.form(job, Question(BERT, replanned=anew)).sliders} for anew in (False, True)
    )
    assert kept - anew == {each for each in kept if each.startswith("parallelism.")}
    assert len(kept - anew) == 3


# Answers


@needs_pages
def test_the_figures_are_those_of_the_command(job: answer.Job) -> None:
    found = answer.at_once(job, FASTER, Question(BERT))
    fast, slow = run(BERT, overrides=FASTER.overrides), run(BERT)
    assert found.fits
    tile = f"{format_significant(fast.throughput_samples_per_s, 4)} samples/s"  # type: ignore[union-attr]
    assert tile in found.parts[answer.TILES]
    assert found.summary == f"Fits. Throughput {tile}"
    against = found.parts[answer.AGAINST]
    for each in (fast, slow):
        assert format_significant(1e3 * each.weight_update_s, 4) in against  # type: ignore[union-attr]
    assert "A is the baseline, B is this" in against
    assert "of 897 MiB" in found.parts[answer.VERDICT]


@needs_pages
def test_without_a_difference_there_is_no_comparison(job: answer.Job) -> None:
    found = answer.at_once(job, Question(BERT), Question(BERT))
    assert "Where one weight update goes" in found.parts[answer.AGAINST]
    assert "A is the baseline" not in found.parts[answer.AGAINST]


@needs_pages
def test_ranges_and_what_it_stands_on_come_second(job: answer.Job) -> None:
    first, second = (make(job, FASTER, Question(BERT)).parts for make in (answer.at_once, answer.in_full))
    assert "80 %:" not in first[answer.TILES]
    assert "its range is being measured" in first[answer.TILES]
    assert "80 %:" in second[answer.TILES]
    assert answer.STANDING not in first
    assert "assumed" in second[answer.STANDING]


@needs_pages
def test_what_does_not_fit_says_so_and_shows_by_how_much(job: answer.Job) -> None:
    found = answer.at_once(job, Question(BERT).with_value("parallelism.micro_batch_size", "40"), Question(BERT))
    assert not found.fits
    assert "Does not fit." in found.parts[answer.VERDICT]
    assert "What to do:" in found.parts[answer.VERDICT]
    assert "of 897 MiB" in found.parts[answer.MEMORY]
    assert found.parts[answer.TILES] == ""


@needs_pages
def test_red_where_no_measurement_is_near(job: answer.Job) -> None:
    found = answer.at_once(job, Question(BERT).with_value(CLOCK, "3 GHz"), Question(BERT))
    assert 'class="danger"' in found.parts[answer.VERDICT]
    assert "clock 3 GHz" in found.parts[answer.VERDICT]
    assert 'class="danger"' not in answer.at_once(job, Question(BERT), Question(BERT)).parts[answer.VERDICT]


@needs_pages
def test_a_price_makes_a_cost(job: answer.Job) -> None:
    asked = Question(BERT).with_value("cost.price_per_ipu_hour", "1.5 USD")
    # 64 IPUs for the 9.32 minutes of the run: 64 x 1.5 x 9.32 / 60.
    assert "14.91 USD" in answer.at_once(job, asked, asked).parts[answer.TILES]


@needs_pages
def test_a_target_is_met_or_missed(job: answer.Job) -> None:
    for bounds, word in (("< 10 min", "met"), ("< 9 min", "missed")):  # the run takes 9.32 minutes
        asked = Question(BERT).with_value("expect.time_to_train_s", bounds)
        verdict = answer.at_once(job, asked, asked).parts[answer.VERDICT]
        assert f"Target {word}:" in verdict
        assert "9.32" in verdict
    asked = Question(BERT).with_value("expect.time_to_train_s", "soon")
    assert "has no bounds" in answer.at_once(job, asked, asked).parts[answer.VERDICT]
    # Of another batch than the logged one how long the run goes on is drawn: there are percentiles and no single time.
    drawn = Question(BERT).with_value("parallelism.accumulation_factor", "64")
    asked = drawn.with_value("expect.time_to_train_s", "< 10 min")
    told = answer.at_once(job, asked, asked).parts[answer.VERDICT]
    assert "Target not known:" in told
    assert "time_to_train_percentiles.p50" in told


@needs_pages
def test_what_is_typed_is_escaped(job: answer.Job) -> None:
    asked = Question(BERT).with_value(CLOCK, EVIL)
    parts = answer.at_once(job, asked, Question(BERT)).parts
    assert "<img" not in "".join(parts.values())
    assert "&lt;img" in parts[answer.VERDICT]
    named = dropped_question("a.yaml", f'base: {BERT}\ndescription: "{EVIL}"\n').with_value(CLOCK, "1.5 GHz")
    assert "<img" not in "".join(answer.in_full(job, named, named.as_written).parts.values())


@needs_pages
def test_parts_hold_no_script(job: answer.Job) -> None:
    assert "<script" not in "".join(answer.in_full(job, FASTER, Question(BERT)).parts.values())


@pytest.mark.slow
@needs_pages
def test_what_would_help_is_ranked_as_the_command_ranks_it(job: answer.Job) -> None:
    from podsim import whatif

    told: list[tuple[int, int]] = []
    watched = answer.Job(job.scratch, lambda *each: told.append(each))
    asked = FASTER.with_value("parallelism.accumulation_factor", "48")
    found = answer.further(watched, asked, Question(BERT)).parts
    (side,) = whatif(BERT, overrides=asked.overrides, processes=1).workloads
    ranked = [effect.change for effect in side.effects]
    places = [found[answer.HELP].index(f"<td>{change}</td>") for change in ranked]
    assert places == sorted(places)
    assert " per weight update: " in found[answer.HELP]
    assert f"<td>{CLOCK} 1.5 GHz</td>" in found[answer.HELP]
    assert "<td>all together</td>" in found[answer.HELP]
    assert told[0] == (0, 6)
    assert "this one" in found[answer.SCALING]
    half = run(BERT, overrides=[*asked.overrides, "parallelism.replication_factor=4"])
    assert format_significant(half.throughput_samples_per_s, 4) in found[answer.SCALING]  # type: ignore[union-attr]


@needs_pages
def test_a_service_shows_its_curve(job: answer.Job) -> None:
    asked = Question(SERVICE, serves=True).with_value("serving.request_count", "50")
    asked = asked.with_value("expect.time_to_first_token_p99_s", "< 1 s")
    parts = answer.at_once(job, asked, asked).parts
    assert "against load" in parts[answer.LOAD]
    assert parts[answer.LOAD].count("target, ") > 0
    assert parts[answer.MEMORY] == ""


@pytest.mark.slow
@needs_pages
def test_downloads_are_those_of_the_command(job: answer.Job) -> None:
    import json

    asked = Question("resnet50_pod4").with_value("forward.batches_per_call", "2")
    assert b"<!DOCTYPE html>" in answer.report(job, asked)
    assert json.loads(answer.trace(job, asked))["traceEvents"]
    assert "imeline" in answer.timeline(job, asked).parts["timeline"]
    assert list(job.scratch.iterdir()) == []


@needs_pages
def test_a_model_described_elsewhere_becomes_a_question(job: answer.Job) -> None:
    import json

    from tests.unit.importer_configs import TINY

    (job.scratch / "config.json").write_text(json.dumps(TINY), encoding="utf-8")
    asked = answer.imported(job, str(job.scratch / "config.json"), "ipu_pod4")
    assert (asked.scenario, asked.folder) == ("config", "")
    assert answer.at_once(job, asked, asked).fits
    assert read_query(asked.query(), (), BERT) == asked


@needs_pages
def test_a_graph_stays_beside_its_scenario(job: answer.Job) -> None:
    pytest.importorskip("onnx", reason="graphs need onnx")
    from tests.unit.onnx_examples import conv_net

    conv_net(4).save(job.scratch / "net.onnx")
    asked = answer.imported(job, str(job.scratch / "net.onnx"), "ipu_pod4")
    assert (asked.scenario, asked.folder) == ("net", str(job.scratch))
    assert answer.at_once(job, asked, asked).fits


# Who may ask


@needs_nicegui
@pytest.mark.parametrize(
    ("headers", "query", "token", "admitted"),
    [
        ({"host": HERE}, "", "", True),
        ({"host": "localhost:8080"}, "", "", True),
        ({"host": "[::1]:8080"}, "", "", True),
        ({"host": "evil.example"}, "", "", False),  # a name that was turned to this machine
        ({"host": HERE, "origin": f"http://{HERE}"}, "", "", True),
        ({"host": HERE, "origin": "http://evil.example"}, "", "", False),
        ({"host": HERE, "origin": "null"}, "", "", False),
        ({}, "", "", False),
        ({"host": "planner:8080"}, "token=secret", "secret", True),
        ({"host": "planner:8080"}, "", "secret", False),
        ({"host": "planner:8080"}, "token=other", "secret", False),
        ({"host": "planner:8080", "cookie": "podsim_token=secret"}, "", "secret", True),
        ({"host": "planner:8080", "cookie": "podsim_token=secret", "origin": "http://a.b"}, "", "secret", False),
    ],
)
def test_who_may_ask(headers: dict[str, str], query: str, token: str, admitted: bool) -> None:
    from starlette.requests import HTTPConnection

    async def nothing(*_: Any) -> None: ...

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    asked = HTTPConnection({"type": "http", "headers": pairs, "query_string": query.encode()})
    assert Gate(nothing, token).admits(asked) is admitted


@needs_nicegui
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_gate_lets_nothing_else_through(kind: str) -> None:
    reached, sent = [], []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        reached.append(scope["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> None: ...

    for host in (b"evil.example", b"127.0.0.1"):
        asyncio.run(Gate(app)({"type": kind, "headers": [(b"host", host)]}, receive, send))
    assert reached == [kind]
    assert sent[0].get("status", sent[0].get("code")) == (403 if kind == "http" else 1008)
    policy = dict(sent[-1]["headers"])[b"content-security-policy"].decode()
    assert "default-src 'self'" in policy
    assert "http" not in policy


def test_another_address_needs_a_token() -> None:
    assert [is_loopback(each) for each in ("127.0.0.1", "127.1.2.3", "::1", "localhost", "0.0.0.0", "a.b")] == [
        *([True] * 4),
        *([False] * 2),
    ]
    assert new_token("127.0.0.1") == ""
    assert len(new_token("0.0.0.0")) > 40
    assert new_token("0.0.0.0") != new_token("0.0.0.0")
    assert address("planner", 8080, "abc") == "http://planner:8080/?token=abc"


def test_a_port_that_is_taken_is_told() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PodsimError, match="cannot listen there") as caught:
            check_port("127.0.0.1", taken.getsockname()[1])
    assert caught.value.do == "choose another, for example `--port 8081`"


def test_without_the_extra_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nicegui", None)
    with pytest.raises(PodsimError, match="needs the package `nicegui`, which is not installed") as caught:
        check_packages()
    assert caught.value.do == "pip install 'podsim[ui]'"


def test_other_commands_do_not_import_the_page() -> None:
    import subprocess
    import sys

    code = "import podsim.cli.app, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"nicegui", "fastapi", "podsim.ui"} & set(loaded)


# Which question is answered


class Here(Pool):
    """Answers in this process, one question at a time, as processes would; what takes long is a word each."""

    def __init__(self, scratch: Path, most_waiting: int = 64) -> None:
        super().__init__(scratch, 1, most_waiting)
        self.made: list[str] = []

    async def _made(self, _ticket: Ticket, make: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        self.made.append(make.__name__)
        await asyncio.sleep(0)
        if make is answer.in_full:
            return answer.Answer({answer.STANDING: "sure"})
        if make is answer.further:
            return answer.Answer({answer.HELP: "help", answer.SCALING: "scaling"})
        return make(answer.Job(self.scratch), *arguments)


def number(_job: answer.Job, value: int) -> int:
    return value


def test_older_questions_are_dropped_and_not_queued(tmp_path: Path) -> None:
    async def ask() -> list[int]:
        asker, pool, taken = None, Here(tmp_path), []
        asker = Asker(pool, pytest.fail)
        for value in range(50):
            asker.ask([(number, (value,), taken.append)])
        while asker.is_busy:
            await asyncio.sleep(0.001)
        return [*taken, len(pool.made)]

    assert asyncio.run(ask()) == [49, 1]


def test_second_steps_of_an_older_question_are_left_out(tmp_path: Path) -> None:
    async def ask() -> list[int]:
        taken: list[int] = []
        asker = Asker(Here(tmp_path), pytest.fail)

        def again(value: int) -> None:
            taken.append(value)
            if value == 1:
                asker.ask([(number, (3,), taken.append)])

        asker.ask([(number, (1,), again), (number, (2,), taken.append)])
        while asker.is_busy:
            await asyncio.sleep(0.001)
        return taken

    assert asyncio.run(ask()) == [1, 3]


def test_many_sessions_wait_their_turn_or_are_told(tmp_path: Path) -> None:
    async def ask() -> tuple[list[int], list[str]]:
        pool, taken, told = Here(tmp_path, most_waiting=40), [], []
        askers = [Asker(pool, lambda error: told.append(str(error))) for _ in range(50)]
        for value, each in enumerate(askers):
            each.ask([(number, (value,), taken.append)])
        while any(asker.is_busy for asker in askers):
            await asyncio.sleep(0.001)
        return taken, told

    taken, told = asyncio.run(ask())
    assert taken == list(range(len(taken)))  # in the order in which they asked
    assert len(taken) + len(told) == 50
    assert 40 <= len(taken) < 50
    assert "40 questions of others wait already" in told[0]
    assert "do: try again in a minute" in told[0]


def forever(job: answer.Job) -> None:
    job.tell(1, 4)
    while True:
        sum(range(1000))


def wrong(_job: answer.Job) -> None:
    raise FileNotFoundError("no such file")


def death(_job: answer.Job) -> None:
    os._exit(1)


@pytest.mark.slow
def test_an_error_of_a_job_is_told_and_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    async def ask() -> None:
        pool = Pool(tmp_path, 1)
        try:
            with pytest.raises(FileNotFoundError, match="no such file"):
                await pool.work(Ticket(), wrong)
            with pytest.raises(PodsimError, match="the process that answered died"):
                await pool.work(Ticket(), death)
            assert await pool.work(Ticket(), number, 7) == 7
        finally:
            pool.close()

    asyncio.run(ask())


@pytest.mark.slow
def test_a_job_that_nobody_waits_for_ends_and_the_process_goes_on(tmp_path: Path) -> None:
    async def ask() -> list[int]:
        pool, taken = Pool(tmp_path, 1), []
        asker = Asker(pool, pytest.fail)
        try:
            asker.ask([(forever, (), pytest.fail)])
            while asker.ticket.progress != (1, 4):
                await asyncio.sleep(0.02)
            asker.drop()
            asker.ask([(number, (7,), taken.append)])
            while asker.is_busy:
                await asyncio.sleep(0.02)
        finally:
            pool.close()
        return taken

    assert asyncio.run(ask()) == [7]


# Colours


def contrast(one: str, other: str) -> float:
    """From 1, the same, to 21, black on white, as WCAG 2.1 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("ground", "least", "names"),
    [
        ("paper", 4.5, ["ink", "soft", "accent"]),
        ("tint", 4.5, ["ink", "soft", "accent"]),
        ("good-tint", 4.5, ["ink", "good"]),
        ("bad-tint", 4.5, ["ink", "bad"]),
        ("tint", 3, ["covered", "accent", "good", "bad"]),  # marks, which need less than text
    ],
)
def test_text_can_be_read_and_marks_be_seen(ground: str, least: float, names: list[str]) -> None:
    css = files("podsim.ui").joinpath("ui.css").read_text(encoding="utf-8")
    known = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", css))
    assert {name for name in names if contrast(known[name], known[ground]) < least} == set()


def test_contrast_itself() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # the grey that just misses 4.5


# The page


@asynccontextmanager
async def opened(pool: Pool, *queries: str) -> Any:
    """Users of one server, each with a session of the page."""
    from nicegui import ui
    from nicegui.testing import User, user_simulation

    from podsim.ui.page import Offer, Planner
    from podsim.ui.serve import prepare

    planners: list[Planner] = []

    def page() -> None:
        prepare(ui)
        planners.append(Planner(Offer(pool, (), BERT), ui.context.client.request.url.query))

    async with user_simulation(page) as first:
        users = [first, *(User(first.http_client) for _ in queries[1:])]
        for user, query in zip(users, queries, strict=True):
            await user.open(f"/?{query}")
        for planner in planners:
            await settled(planner)
        yield list(zip(users, planners, strict=True))


async def settled(planner: Any) -> None:
    while planner._asker.is_busy:
        await asyncio.sleep(0.01)


def part(planner: Any, name: str) -> str:
    return str(planner._areas[name].content)


@needs_nicegui
@needs_pages
def test_the_page_answers_what_the_address_asks(tmp_path: Path) -> None:
    async def look() -> None:
        async with opened(Here(tmp_path), FASTER.query()) as ((user, planner),):
            await user.should_see("Clock [GHz]")
            await user.should_see("Choose the division anew")
            assert "Fits." in part(planner, answer.VERDICT)
            assert "A is the baseline" in part(planner, answer.AGAINST)
            for area in (answer.MEMORY, answer.HELP, answer.SCALING, answer.STANDING):
                assert part(planner, area), area
            assert planner._offer.pool.made == ["form", "at_once", "in_full", "further"]

    asyncio.run(look())


@needs_nicegui
@needs_pages
def test_moving_a_number_moves_the_answer(tmp_path: Path) -> None:
    from nicegui import ui

    async def look() -> None:
        async with opened(Here(tmp_path), Question(BERT).query()) as ((user, planner),):
            (clock,) = (
                element for element in user.find(kind=ui.number).elements if element.props["label"] == "Clock [GHz]"
            )
            clock.set_value(1.5)
            await settled(planner)
            assert planner.question == FASTER
            assert planner.baseline == Question(BERT)
            assert "A is the baseline" in part(planner, answer.AGAINST)
            user.find("Pin as baseline").click()
            await settled(planner)
            assert planner.baseline == FASTER
            assert "A is the baseline" not in part(planner, answer.AGAINST)
            user.find("Undo all moves").click()
            await settled(planner)
            assert (planner.question, planner.baseline) == (Question(BERT), FASTER)
            (clock,) = (
                element for element in user.find(kind=ui.number).elements if element.props["label"] == "Clock [GHz]"
            )
            clock.set_value(1.5)
            await settled(planner)
            assert planner.question == FASTER
            clock.set_value(1.33)
            await settled(planner)
            assert planner.question == Question(BERT)
            user.find("Copy as command").click()
            await user.should_see("As command")

    asyncio.run(look())


@needs_nicegui
@needs_pages
def test_sessions_do_not_disturb_each_other(tmp_path: Path) -> None:
    async def look() -> None:
        queries = (Question(BERT).query(), FASTER.query())
        async with opened(Here(tmp_path), *queries) as ((_, one), (_, other)):
            before = part(other, answer.TILES)
            one._move(CLOCK, "1.6 GHz")
            await settled(one)
            assert part(other, answer.TILES) == before
            assert (one.question.moved, other.question.moved) == (((CLOCK, "1.6 GHz"),), FASTER.moved)

    asyncio.run(look())


@needs_nicegui
@needs_pages
def test_a_bad_address_is_told_on_the_page(tmp_path: Path) -> None:
    async def look() -> None:
        async with opened(Here(tmp_path), f"scenario={EVIL}") as ((_, planner),):
            assert "neither shipped nor named" in part(planner, answer.VERDICT)
            assert "<img" not in part(planner, answer.VERDICT)

    asyncio.run(look())


@needs_nicegui
@needs_pages
def test_a_file_is_dropped_on_the_page(tmp_path: Path) -> None:
    from nicegui import ui
    from nicegui.elements.upload_files import SmallFileUpload

    def file(name: str, content: bytes) -> SmallFileUpload:
        return SmallFileUpload(name, "text/plain", content)

    async def look() -> None:
        async with opened(Here(tmp_path), "") as ((user, planner),):
            (upload,) = user.find(kind=ui.upload).elements

            async def drop(name: str, content: bytes, told: str) -> None:
                await upload.handle_uploads([file(name, content)])
                for _ in range(500):
                    await asyncio.sleep(0.01)
                    if told in part(planner, answer.VERDICT):
                        return
                pytest.fail(part(planner, answer.VERDICT))

            await drop("mine.yaml", f"base: {BERT}\nsystem: bow_pod64\nmodel: {{size: none}}\n".encode(), "model.size")
            assert planner.question.scenario == "mine"
            await drop("other.yaml", b"base: ../mine\n", "reads no other file")
            await drop("config.json", b'{"model_type": "none"}', "model_type")
            await drop("mine.yaml", f"base: {BERT}\nsystem: bow_pod64\n".encode(), "Fits.")
            # Parsed where all sessions are served, it would stop them; the last answer stays, and is called that.
            await drop("large.yaml", b"#" * (LONGEST_TEXT + 1), "larger than 64 KiB")
            assert "are of the last answer" in part(planner, answer.VERDICT)
            assert str(tmp_path) not in part(planner, answer.VERDICT)
            assert planner.question.scenario == "mine"

    asyncio.run(look())
