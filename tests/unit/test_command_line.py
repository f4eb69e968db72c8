"""The command line as a tool: what it writes, how it ends, what it completes and lists."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import podsim
from podsim.cli.app import main
from podsim.errors import OutputError
from podsim.result.files import check_outputs
from podsim.result.result import RunResult
from podsim.scenario import load_scenario, shipped_names, variant_names
from podsim.scenario.catalogue import catalogue
from podsim.scenario.forward import ForwardScenario
from podsim.scenario.generation import GenerationScenario
from podsim.show.progress import follow
from tests.unit.bad_input_cases import ERROR, Run, error_of

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED, NO_READER, TERMINATED = 130, 141, 143
OWN_MACHINE = """kind: pod
base: ipu_pod16
machine: machine.yaml
"""


def command(*arguments: str, strict: bool = True) -> list[str]:
    """In a process of its own, where whatever Python warns of is an error if it is strict."""
    checks = ["-X", "dev", "-W", "error"] if strict else []
    return [sys.executable, *checks, "-m", "podsim", *arguments]


def environment(**changes: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)} | changes


def done(folder: Path, *arguments: str, strict: bool = True, **changes: str) -> subprocess.CompletedProcess[str]:
    line = command(*arguments, strict=strict)
    return subprocess.run(line, cwd=folder, env=environment(**changes), capture_output=True, text=True, check=False)


# Files that are read are not written


@pytest.fixture
def _own_files(podsim: Run) -> None:
    """A scenario with a base, a pod and a machine of its own."""
    Path("base.yaml").write_text(Path("good.yaml").read_text())
    Path("machine.yaml").write_text("kind: machine\nbase: ipu_m2000\n")
    Path("pod.yaml").write_text(OWN_MACHINE)
    Path("mine.yaml").write_text("base: base.yaml\nsystem: pod.yaml\n")
    Path("folder").mkdir()
    Path("link.yaml").symlink_to("machine.yaml")
    Path("hard.yaml").hardlink_to("machine.yaml")


@pytest.mark.usefixtures("_own_files")
@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("mine.yaml", "the scenario"),
        ("folder/../mine.yaml", "the scenario"),
        ("base.yaml", "a file that is read"),
        ("pod.yaml", "a file that is read"),
        ("machine.yaml", "a file that is read"),
        ("link.yaml", "a file that is read"),
        ("hard.yaml", "a file that is read"),
        (str(ROOT / "hardware_specs" / "vertices_mk2.yaml"), "a file that is read"),
    ],
)
def test_a_file_that_the_run_reads_is_not_overwritten(
    podsim: Run, monkeypatch: pytest.MonkeyPatch, path: str, what: str
) -> None:
    def simulate(*_: object, **__: object) -> None:
        raise AssertionError("simulated before the path was checked")

    monkeypatch.setattr("podsim.runs.train.training", simulate)
    before = Path(path).read_bytes()
    assert podsim("run", "mine.yaml", "--trace", path) == error_of(
        f"{path}: this is both {what} and the trace\n  do: give two different paths"
    )
    assert Path(path).read_bytes() == before


def test_arrivals_that_a_scenario_names_are_not_overwritten(podsim: Run) -> None:
    Path("a.png").write_text("arrival_s,prompt_tokens,output_tokens\n0,8,8\n")
    Path("s.yaml").write_text(
        "system: ipu_pod16\nsoftware: popxl_sdk_3.3\nmodel: {kind: decoder, size: gpt2_small}\n"
        "generation: {batch_size: 1, prompt_tokens: 16, output_tokens: 16}\nserving: {file: a.png}\n"
    )
    assert podsim("serve", "s.yaml", "--plot", "a.png") == error_of(
        "a.png: this is both the arrivals and the plot\n  do: give two different paths"
    )


def test_neither_a_model_nor_a_pod_is_overwritten_by_its_import(podsim: Run) -> None:
    for path in ("config.json", "pod.yaml"):
        Path(path).write_text(OWN_MACHINE if path == "pod.yaml" else "{}")
    Path("machine.yaml").write_text("kind: machine\nbase: ipu_m2000\n")
    ask = ("import", "config.json", "--system", "pod.yaml", "--force", "--output")
    assert podsim(*ask, "./config.json") == error_of(
        "config.json: this is both the input and the output\n  do: give two different paths"
    )
    assert podsim(*ask, "machine.yaml") == error_of(
        "machine.yaml: this is both a file that is read and the output\n  do: give two different paths"
    )


def test_two_outputs_in_one_file_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.png").symlink_to(tmp_path / "chart.png")
    with pytest.raises(OutputError, match="this is both the trace and the plot"):
        check_outputs({"trace": tmp_path / "chart.png", "plot": tmp_path / "link.png"})
    check_outputs({"trace": tmp_path / "chart.png", "plot": tmp_path / "other.png"})


def test_a_result_in_python_does_not_overwrite_what_it_stands_on(tmp_path: Path) -> None:
    from podsim.result.perfetto import write_trace
    from tests.unit.bad_input_cases import SCENARIO

    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    result = podsim.simulate(path, record=True)
    with pytest.raises(OutputError, match="this is both a file that is read and the trace"):
        write_trace(result, path)
    assert path.read_text() == SCENARIO


def test_what_was_written_is_told_with_its_size(podsim: Run) -> None:
    code, told = podsim("run", "good.yaml", "--trace", "t.json", "--plot", "p.svg")
    assert code == 0
    trace, chart = told.splitlines()
    assert chart.startswith("wrote p.svg: ")
    assert trace == f"wrote t.json: {Path('t.json').stat().st_size / 2**20:.3g} MiB"


# How it ends


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("arguments", [("list",), ("--help",), ("run", "bert_v1.1_pod16_open"), ("schema",)])
@pytest.mark.parametrize(
    ("redirection", "reason"), [("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_an_output_that_cannot_be_printed(
    tmp_path: Path, arguments: tuple[str, ...], redirection: str, reason: str
) -> None:
    shell = ["sh", "-c", f'"$@" {redirection}', "sh", *command(*arguments)]
    ended = subprocess.run(shell, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == error_of(
        f"standard output cannot be written: {reason}\n  do: redirect it to a place with room, or to /dev/null"
    )


@pytest.mark.parametrize(
    "arguments", [("list",), ("--help",), ("run", "bert_v1.1_pod16_open"), ("run", "template", "--format", "json")]
)
def test_nobody_reads_any_more(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        command(*arguments), cwd=tmp_path, env=environment(), stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (NO_READER, b"")


SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)], ids=["SIGINT", "SIGTERM"]
)


def heeding(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """A process that signals end, as one that is started by hand.

    Shells start what runs in the background with this signal ignored, and children inherit that.
    """
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment(), stdout=pipe, stderr=pipe, preexec_fn=heed)


@SIGNALS
@pytest.mark.parametrize(("delay_s", "work"), [(0.7, "--explicit"), (2.0, "--explicit"), (2.0, "--noise=1000")])
def test_a_signal_ends_it_without_a_word_and_without_a_file(
    tmp_path: Path, number: signal.Signals, code: int, delay_s: float, work: str
) -> None:
    """While modules are imported, while a timeline is recorded, and in the compiled engine: a minute each, 200 MB."""
    process = heeding(command("run", "bert_v1.1_pod16_open", work, "--trace", "t.json"), tmp_path)
    time.sleep(delay_s)
    process.send_signal(number)
    out, told = process.communicate()
    assert (out, process.returncode) == (b"", code)
    assert all(line.startswith(b"simulating about") for line in told.splitlines())  # said before, not of the end
    assert list(tmp_path.iterdir()) == []


SWALLOWING = """
import os, time, weakref
import podsim.__main__ as process

class Held: pass

def command():
    held = Held()
    reference = weakref.ref(held, lambda _: (os.kill(os.getpid(), {number}), list(range(9))))
    del held
    time.sleep(60)

process._run_command = command
process.main()
"""


@SIGNALS
def test_a_signal_in_a_callback_that_nothing_can_go_up_from_ends_it_as_well(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """As that of a weak reference, of which imports have many: Python swallows what is raised there."""
    process = heeding([sys.executable, "-c", SWALLOWING.format(number=int(number))], tmp_path)
    assert (process.communicate(timeout=30), process.returncode) == ((b"", b""), code)


NARROW = {"PYTHONIOENCODING": "ascii", "COLUMNS": "20", "TERM": "dumb"}
HOMELESS = {"MPLBACKEND": "nonsense", "MPLCONFIGDIR": "/proc/nowhere", "HOME": "/nowhere", "NO_COLOR": "1"}
IMAGE = ("run", "template", "--trace", "t.json", "--plot", "p.png")
LIST = ("list", "--format", "json")
SERVED = ("serve", "serving_llama2_7b_pod64", "--set", "serving.request_count=20", "--load", "0.5", "--plot", "p.svg")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        *((NARROW, each) for each in (IMAGE, SERVED, ("cost", "matmul", "64x64x64"), ("schema",), LIST)),
        (NARROW, ("run", "e5_large_pod4", "--plot", "p.pdf")),
        (HOMELESS, IMAGE),
        (HOMELESS, LIST),
    ],
    ids=str,
)
def test_it_works_in_poor_surroundings(tmp_path: Path, changes: dict[str, str], arguments: tuple[str, ...]) -> None:
    """Narrow and without Unicode; without a home folder and a backend for charts."""
    ended = done(tmp_path, *arguments, strict=changes is NARROW, **changes)
    assert ended.returncode == 0, ended.stderr
    assert all(line.startswith("wrote ") or "takes about" in line for line in ended.stderr.splitlines())


def test_json_is_utf8_whatever_the_terminal_speaks(tmp_path: Path) -> None:
    Path(tmp_path / "s.yaml").write_text("base: template\ndescription: Größe → 2\n", encoding="utf-8")
    printed = subprocess.run(
        command("run", "s.yaml", "--format", "json"),
        cwd=tmp_path,
        env=environment(PYTHONIOENCODING="ascii"),
        capture_output=True,
        check=True,
    ).stdout
    assert json.loads(printed.decode("utf-8"))["description"] == "Größe → 2"


def test_a_broken_matplotlibrc_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_bytes(b"\xff\xfe")
    ended = done(tmp_path, "run", "template", "--plot", "p.png")
    assert ended.returncode == ERROR
    assert ended.stderr.startswith("error: matplotlib, which draws charts, cannot be loaded: ")
    assert "\n  do: mend or remove the file `matplotlibrc` in this folder" in ended.stderr


def test_a_chart_does_not_depend_on_a_matplotlibrc(tmp_path: Path) -> None:
    charts = []
    for name, style in (("a", ""), ("b", "font.size: 30\nsavefig.bbox: tight\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "matplotlibrc").write_text(style)
        assert done(tmp_path / name, "run", "template", "--plot", "p.svg").returncode == 0
        charts.append((tmp_path / name / "p.svg").read_bytes())
    assert charts[0] == charts[1]


# Long runs


@pytest.mark.parametrize("simulate", [podsim.simulate, podsim.infer])
def test_an_explicit_run_is_estimated_before_it_starts_and_followed(simulate: Callable[..., RunResult]) -> None:
    """The estimate is rough: an event more or less for every meeting. What follows a run does not change it."""
    told: list[int] = []
    asked: list[int] = []

    def watched(event_count: int) -> Iterator[int]:
        told.append(event_count)
        for number in range(3):
            asked.append(number)
            yield event_count // 8

    name = "gpt2_small_pod16" if simulate is podsim.simulate else "e5_large_pod4"
    result, plain = simulate(name, explicit=True, follow=watched), simulate(name, explicit=True)
    assert result.to_json() == plain.to_json()
    assert asked == [0, 1, 2]
    assert 0.5 < told[0] / result.event_count < 2


def test_a_run_that_takes_long_is_announced_with_its_time() -> None:
    said: list[str] = []
    # Before the first event is asked for: the program is made in between.
    counts = follow(900_000_000, said.append, is_compiled=False)
    assert said == ["simulating about 900,000,000 events, which takes about 2.5 h"]
    assert sum(counts) == 900_000_000
    assert list(follow(1000, said.append, is_compiled=False)) == []
    assert list(follow(10_000_000, said.append, is_compiled=True)) == []
    assert len(said) == 1


# Words


def test_h_is_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["run"], ["serve"], ["import"], ["validate"], ["list"], ["cost", "matmul"]):
        printed = []
        for option in ("-h", "--help"):
            monkeypatch.setattr(sys, "argv", ["podsim", *arguments, option])
            with pytest.raises(SystemExit) as end:
                main()
            assert not end.value.code
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1]
        assert printed[0].startswith("Usage: podsim ")


def test_help_has_headings_and_whole_sentences(tmp_path: Path) -> None:
    text = done(tmp_path, "--help", COLUMNS="80").stdout
    outer = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    headings = ["Options:", "One run:", "Many runs:", "Models of your own:", "How far to trust it:", "What there is:"]
    assert outer == headings
    said = " ".join(text.split())
    assert "serve Simulate requests that arrive, wait and are batched: percentiles, queue and saturation." in said
    assert "sweep Simulate every point of a study, and go on where it was stopped." in said
    assert "..." not in text.partition("One run:")[2]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_names_and_variants_are_completed(tmp_path: Path) -> None:
    def completed(line: str, place: int) -> list[str]:
        changes = {"_PODSIM_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(place)}
        return done(tmp_path, **changes).stdout.split()

    assert completed("podsim run bert_v1.0_pod16", 2) == ["bert_v1.0_pod16_closed", "bert_v1.0_pod16_open"]
    assert completed("podsim run --set a=b template --variant ", 6) == ["bow", "unpacked", "larger_batch"]
    assert completed("podsim import m.onnx --system bow_pod25", 4) == ["bow_pod256"]
    assert completed("podsim run nothing --variant ", 4) == []
    assert completed("podsim sweep gw", 2) == ["gw_links"]
    assert completed("podsim sweep gw_links --scenario bert_v1.0_pod64_o", 4) == ["bert_v1.0_pod64_open"]


# The list


def test_the_list_says_what_loading_says() -> None:
    """It reads parts of files by a shorter way than loading them does."""
    for scenario in catalogue().scenarios:
        loaded = load_scenario(scenario.name)
        pod = next(name for name, _ in loaded.inputs[::-1] if name == f"hardware_specs/{scenario.system}.yaml")
        assert pod
        assert (scenario.description, scenario.variants) == (loaded.spec.description, variant_names(scenario.name))
        kind = "training"
        if isinstance(loaded.spec, GenerationScenario):
            kind = "serving" if loaded.has_key("serving") else "generation"
        elif isinstance(loaded.spec, ForwardScenario):
            kind = "forward"
        assert scenario.kind == kind
    names = {kind: [entry["name"] for entry in entries] for kind, entries in catalogue().to_dict().items()}
    assert names == shipped_names()


def test_the_list_finds_by_what_is_listed() -> None:
    found = catalogue().matching(["studies", "SWEEP", "bert"])
    assert [study.name for study in found.studies] == [
        "bert_scaling",
        "clock_links_replicas",
        "gw_links",
        "memory_or_recomputation",
    ]
    assert (found.scenarios, found.systems, found.software) == ((), (), ())
    assert catalogue().matching(["systems"]).systems == catalogue().systems


def test_the_list_finds_by_words(podsim: Run, capsys: pytest.CaptureFixture[str]) -> None:
    found = catalogue().matching(["BERT", "forward"])
    assert [scenario.name for scenario in found.scenarios] == [
        "bert_base_256_c600",
        "bert_base_c600",
        "bert_large_squad_answers_pod16",
        "e5_large_pod4",
        "mpnet_base_pod4",
    ]
    assert not found.systems
    assert podsim("list", "bert", "xyz") == error_of(
        "nothing that is shipped has `bert` and `xyz` in its name or description\n"
        "  do: use fewer or shorter words; `podsim list` shows all"
    )
