"""What the documentation says is so: each page is run from top to bottom, and what it names exists.

`yaml` blocks that start with `# name.yaml` become files, `console` and `python` blocks are run, a `text`
block behind one of them is part of what it printed. CONTRIBUTING.md has the rules for writers.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel
from ruamel.yaml import YAML

import podsim
from podsim.cli.app import app, main
from podsim.draws import Draws, Seeds
from podsim.result.kinds import KINDS
from podsim.scenario import json_schema, load_scenario, shipped_names
from podsim.scenario.base import keys_of
from tests.cases import every_case
from tools.pages import Block, blocks, called_tests, commands, file_name, prose, unprinted
from tools.truth import main as truth

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in {"build", "dist"} for part in path.relative_to(ROOT).parts)
)


def is_slow(arguments: list[str]) -> bool:
    """Commands of more than two seconds, or without an end; tests of their own run them."""
    fits_again = arguments[0] == "calibrate" and "--with" not in arguments
    return fits_again or arguments[0] in ("validate", "ui", "reproduce") or "--replan" in arguments


TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}


def in_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


every_page = every_case("page", lambda: PAGES)


def code_spans(text: str) -> list[str]:
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(text))


def all_commands() -> list[tuple[str, str]]:
    return [
        (in_root(page), line)
        for page, text in TEXTS.items()
        for block in blocks(text)
        if block.language == "console"
        for line in commands(block)
    ]


# Links


def anchors(text: str) -> set[str]:
    """As GitHub makes them: lower case, punctuation gone, spaces to hyphens."""
    headings = re.findall(r"^#+ +(.+?) *$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@every_page
def test_relative_links_resolve(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(TEXTS[page])):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        exists = target.exists() and target.is_relative_to(ROOT)
        if not exists or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    assert broken == []


def test_every_page_of_the_documentation_is_in_its_map() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(TEXTS[index])}
    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - linked == {index}


# Commands


def words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


@lru_cache
def command_line() -> Any:
    return typer.main.get_command(app)


def parse(arguments: list[str]) -> None:
    """Let the command line parse its arguments without running anything."""
    command = command_line()
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        assert arguments[0] in command.commands, f"there is no command `{arguments[0]}`"
        command, arguments = command.commands[arguments[0]], arguments[1:]
    with contextlib.suppress(typer.Exit):  # of options that print something and end
        command.make_context("podsim", arguments)


@every_case("page, line", all_commands)
def test_commands_parse(page: str, line: str) -> None:
    name, *arguments = words(line)
    if name == "podsim":
        parse(arguments[: arguments.index(">")] if ">" in arguments else arguments)
    elif name == "./dev":
        (usage,) = re.findall(r'USAGE = """(.+?)"""', (ROOT / "dev").read_text(encoding="utf-8"), re.DOTALL)
        assert re.search(rf"^  {arguments[0]}\b", usage, re.MULTILINE)
    elif name == "source":
        assert arguments == [".venv/bin/activate"]
    elif name == "python":
        assert (ROOT / arguments[0]).is_file()
    else:
        assert name in {"cp", "echo"}, f"the test does not know how to run `{line}`"


@pytest.mark.parametrize("arguments", [["run"], ["run", "x", "--sett", "a=b"], ["run", "x", "--format", "xml"]])
def test_the_parser_refuses_what_is_wrong(arguments: list[str]) -> None:
    with pytest.raises(Exception, match=r"(?i)missing|no such option|not one of"):
        parse(arguments)


# Pages from top to bottom


class Reader:
    """Follows a page in an empty folder."""

    def __init__(self) -> None:
        self.printed, self.code = "", 0
        self.namespace: dict[str, Any] = {"__name__": "page"}

    def follow(self, block: Block) -> None:
        match block.language:
            case "yaml":
                self._yaml(block.text)
            case "console":
                self.printed = ""
                for line, after in zip(lines := block.text.splitlines(), [*lines[1:], ""], strict=True):
                    if line.startswith("$ "):
                        self._command(words(line.removeprefix("$ ")), after)
            case "python" if name := file_name(block.text):
                Path(name).write_text(block.text + "\n", encoding="utf-8")
            case "python":
                self._python(block)
            case "text" if self.printed:
                self._output(block.text)

    def _yaml(self, text: str) -> None:
        if name := file_name(text):
            Path(name).write_text(text + "\n", encoding="utf-8")
        else:
            load_scenario({"base": "template", **YAML(typ="safe").load(text)})

    def _command(self, line: list[str], after: str) -> None:
        name, *arguments = line
        if name == "cp":
            shutil.copy(ROOT / arguments[0], arguments[1])
        elif line == ["echo", "$?"]:
            assert self.code == int(after)
            self.code = 0
        elif name == "podsim" and not is_slow(arguments):
            assert self.code == 0, self.printed
            self._run(main, arguments)
        elif name == "./dev" and arguments[:2] == ["truth", "mlperf"]:
            assert self.code == 0, self.printed
            self._run(truth, arguments[1:])
        elif name == "python" and arguments[0].startswith("tools/"):
            assert self.code == 0, self.printed
            self._run(lambda: runpy.run_path(str(ROOT / arguments[0]), run_name="__main__"), arguments[1:])

    def _run(self, command: Callable[[], object], arguments: list[str]) -> None:
        target = None
        if ">" in arguments:
            arguments, target = arguments[:-2], arguments[-1]
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["podsim", *arguments])
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    command()
                    self.code = 0
                except SystemExit as end:
                    self.code = int(end.code or 0)
        self.printed += out.getvalue() + err.getvalue()
        if target:
            Path(target).write_text(out.getvalue(), encoding="utf-8")

    def _python(self, block: Block) -> None:
        out = io.StringIO()
        code = compile("\n" * block.line + block.text, "page", "exec")
        with contextlib.redirect_stdout(out):
            exec(code, self.namespace)
            for name in called_tests(block.text):
                self.namespace[name]()
        self.printed = out.getvalue()

    def _output(self, text: str) -> None:
        line = unprinted(text, self.printed)
        assert line is None, f"not printed, or not here: {line}"


SEARCHES = {
    *("docs/guides/automatic-parallelism.md", "docs/guides/generate-text.md", "docs/guides/plan.md"),
    *("docs/guides/plan-jobs-and-searches.md", "docs/guides/questions.md", "docs/guides/train-transformers.md"),
    "docs/studies/pods.md",
}
"""Pages whose searches and plans take 20 to 90 CPU seconds each."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(each, marks=pytest.mark.ci if in_root(each) in SEARCHES else ()) for each in PAGES],
    ids=in_root,
)
def test_a_page_works_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    reader = Reader()
    for block in blocks(TEXTS[page]):
        reader.follow(block)
    assert reader.code == 0, reader.printed


def test_the_reader_notices_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader()
    for language, text in (
        ("text", "something else"),
        ("python", "assert 1 == 2"),
        ("yaml", "parallelism: {micro_bach_size: 2}"),
        ("console", "$ podsim run template --set parallelism.recomputation=none\n$ echo $?\n0"),
    ):
        reader.printed, reader.code = "what was printed", 0
        with pytest.raises((AssertionError, podsim.PodsimError)):
            reader.follow(Block(language, text, 1))


# Names


def shipped() -> set[str]:
    return {name for names in shipped_names().values() for name in names}


NAME = re.compile(r"\b(?:bert_(?:v\d|base|large|pod)[\w.]*\w|(?:ipu|bow)_pod\d+|popart_sdk_[\d.]*\d)(?!\.\w)")


@every_page
def test_scenarios_pods_and_stacks_exist(page: Path) -> None:
    text = re.sub(r"bert_\w+\.(?:json|png|ipynb)", "", TEXTS[page])  # files that an example writes, notebooks
    text = text.replace(".yaml", "")
    assert set(NAME.findall(text)) - shipped() == set()


@lru_cache
def specs() -> tuple[BaseModel, ...]:
    # No graph is shipped, so that this family has no scenario among them.
    graph = {"system": "ipu_pod16", "software": "popart_sdk_2.3", "model": {"kind": "graph", "file": "model.onnx"}}
    return tuple(load_scenario(each).spec for each in [*shipped_names()["scenarios"], graph])


def has_key(model: type[BaseModel], value: Any, path: list[str]) -> bool:
    """Whether a dotted path leads to a field of a model, or of the value that stands there."""
    if (name := keys_of(model).get(path[0])) is None:
        return False
    inner = getattr(value, name, None)
    return len(path) == 1 or (isinstance(inner, BaseModel) and has_key(type(inner), inner, path[1:]))


def is_key(dotted: str) -> bool:
    return any(has_key(type(spec), spec, dotted.split(".")) for spec in specs())


def dotted_keys(text: str) -> set[str]:
    """Key paths of scenarios in code spans, with or without a value."""
    heads = "|".join({name for spec in specs() for name in type(spec).model_fields})
    found = (re.match(rf"((?:{heads})(?:\.[a-z_]+)+)(?:[:=]|$)", span) for span in code_spans(text))
    return {match[1] for match in found if match}


@every_page
def test_dotted_keys_exist(page: Path) -> None:
    if page.parent.name == "reference":
        return  # generated from the fields, or about fields of results
    keys = dotted_keys(TEXTS[page])
    assert {key for key in keys if not is_key(key)} == set()


def test_a_wrong_key_is_noticed() -> None:
    (key,) = dotted_keys("see `system.machine.ipu.clok: 2 GHz`")
    assert not is_key(key)


@every_page
def test_files_and_folders_exist(page: Path) -> None:
    """Paths in code spans, seen from the root of the repository."""
    roots = "podsim|hardware_specs|scenarios|reference_data|tests|docs|tools|notebooks"
    paths = [span for span in code_spans(TEXTS[page]) if re.fullmatch(rf"(?:{roots})/[\w./]*", span)]
    assert [path for path in paths if not (ROOT / path).exists()] == []


@lru_cache
def sources() -> set[str]:
    return set(YAML(typ="safe").load(ROOT / "hardware_specs" / "references.yaml"))


@every_page
def test_cited_sources_are_in_the_bibliography(page: Path) -> None:
    cited = set(re.findall(r"\[([a-z][a-z0-9]*(?:_[a-z0-9]+)+|[a-z]+\d{4}|estimate)\](?!\()", prose(TEXTS[page])))
    assert cited - sources() == set()


# The page about results


def json_fields(value: Any, path: str = "") -> set[str]:
    """Field paths of a result; mappings with free keys end a path."""
    free = {"breakdown", "breakdown_ps", "breakdown_basis", "run_breakdown", "scenario", "hardware"}
    free |= {"time_to_train_percentiles", "range", "ranges", "metrics", "shared_ps"}
    if path in {"noise.weight_update_s", "noise.epoch_s", "noise.time_to_train_s"}:
        return {path}
    if isinstance(value, Mapping) and path.rpartition(".")[2] not in free | {"seconds"}:
        return {field for key, each in value.items() for field in json_fields(each, f"{path}.{key}".lstrip("."))}
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return {field for each in value for field in json_fields(each, f"{path}[]")}
    return {path}


def test_every_field_of_a_result_is_explained() -> None:
    text = TEXTS[ROOT / "docs" / "reference" / "result.md"]
    name = "bert_v1.1_pod16_open"
    result = podsim.run(name, uncertainty=Draws(2)).to_dict()
    generated = podsim.generate("llama2_7b_pods").to_dict()
    paid = json_fields(podsim.run(name, overrides=["cost.price_per_ipu_hour=1 USD"]).to_dict()["cost"], "cost")
    rows = re.findall(r"^\| `([\w.\[\]]+)` \|", text.partition("## Exit codes")[0], re.MULTILINE)
    kinds = [kind.name for kind in KINDS]
    noisy = json_fields(podsim.run(name, overrides=["run=null"], noise=Seeds(1)).to_dict()["noise"], "noise")
    shared = json_fields({"shared_ps": podsim.run("mixtral_8x7b_phased_pod64").to_dict()["shared_ps"]})
    fields = json_fields(result) | paid | (json_fields(generated) - {"references"}) | noisy | shared
    assert sorted(rows) == sorted([*fields, *kinds])


def test_the_page_about_results_gives_them_in_order() -> None:
    text = TEXTS[ROOT / "docs" / "reference" / "result.md"]
    (table,) = re.findall(r"\| kind \| what it is \|\n.+?\n((?:\|.+\n)+)", text)
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [kind.name for kind in KINDS]


def test_the_schemas_that_guides_name_exist() -> None:
    kinds = {words(line)[2] for _, line in all_commands() if line.startswith("podsim schema ")}
    assert all(json_schema(kind) for kind in kinds)


# Numbers

GUIDES = [page for page in PAGES if page.parent.name in {"guides", "studies"} or page.name == "tutorial.md"]
DECIMAL = re.compile(r"\d+(?:\.\d+)?")
ROUND = re.compile(r"\d|1000?0?|[1-9]0?|16|32|64|128|256|512|1024")
"""Counts that need no backing: digits, tens, and powers of two, as IPUs of a pod are."""
GENERATED = re.compile(r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", re.DOTALL)
"""Sections that tools write and compare."""

ELSEWHERE = {
    "automatic-parallelism.md": "420 2.5",  # limits of the search, tests/unit/test_search.py
    "calibrate-your-cluster.md": "0.95",  # what a correlation means
    "check.md": "0.000001",  # the tolerance of scenarios/podsim-baseline.json
    # Power: tests/validation/test_numbers_on_pages.py; hours of a year and of a month are definitions.
    "cost-and-energy.md": "8760 730 21 25.5 23 1.25 15 185 310 200 450 900 800 300 400 500"
    " 0.95 0.46 26 51 1.3 1.75 1.55 1.8 5.1 31 41.6 42.2 4.5 4.8 17.1 18.3 0.16 0.98 0.94 1.15",
    "cost-of-one-thing.md": "93 0.7 1.1 3.9 109 111 10.7 42.7 58.6 199.5",  # the same; 109 and 111 are published
    "generate-text.md": "96 71 3.5 7.2",  # the same; 96 and 71 belong to published models
    "graph-networks.md": "36 0.9 594 11 11.5 0.15 0.247 0.4 0.5 0.67",  # the same
    "import-a-model.md": "384 114 48",  # what the importer writes, tests/unit/test_importer.py
    "interchange.md": "0.1 0.2 50000",  # what a replay loses, tests/unit/test_chakra.py; how many steps are written
    "invent-hardware.md": "65536",  # the largest pod
    "noise.md": "50000000",  # tests/validation/test_noise_of_logs.py
    "pipeline-schedules.md": "27 55 24 2048 36 19",  # tests/analytic/test_pipeline_schedules.py; sizes of models
    "run-a-forward-pass.md": "560 0.124 0.054",  # tests/validation/test_numbers_on_pages.py; 560 is published
    "serve-under-load.md": "0.3 100000",  # tests/unit/test_serving.py, tests/bench/test_serving_speed.py
    "studies.md": "12.6 8.19 332.5 200 1.5 1.7 29 288 26 19",  # tests/validation/test_numbers_on_pages.py
    "large_models.md": "11",  # the memory that 16 stages lack
    "machines.md": "1.5 1.7 1.4 2.5 4.3 29 2.1 26 104",
    "models.md": "99 96",
    "pods.md": "17 104 56",
    "time-to-train.md": "2560 32768 461242368",  # tests/unit/test_time_to_train.py
    "train-transformers.md": "12",  # tests/unit/test_tensor_parallel.py
    "tutorial.md": "3.11",  # of Python
}
"""Numbers in sentences that no block of their page has, with the test that holds them where there is one."""


def unbacked(text: str) -> set[str]:
    """Numbers in sentences that nothing on the page shows: no block, no code span, not even before it is rounded."""
    text = GENERATED.sub("", text)
    shown = " ".join([*(block.text for block in blocks(text)), *code_spans(text)])
    known = set(DECIMAL.findall(shown.replace(",", "")))
    told = re.sub(r"\]\([^)]*\)|`[^`]*`|https?://\S+", "", prose(text))
    found = {each.replace(",", "") for each in re.findall(r"(?<![\w.\-/])\d[\d,]*(?<!,)(?:\.\d+)?(?![\w-]|\.\d)", told)}

    def is_shown(number: str) -> bool:
        digits = len(number.partition(".")[2])
        return number in known or any(f"{float(each):.{digits}f}" == number for each in known)

    return {each for each in found if not ROUND.fullmatch(each) and not is_shown(each)}


@every_case("page", lambda: GUIDES)
def test_numbers_in_sentences_are_shown_or_held_by_a_test(page: Path) -> None:
    """Show it by a command of the page; or write a test as those of tests/validation/test_numbers_on_pages.py."""
    assert unbacked(TEXTS[page]) - set(ELSEWHERE.get(page.name, "").split()) == set()


def test_exceptions_are_numbers_of_their_pages() -> None:
    found = {page.name: unbacked(TEXTS[page]) for page in GUIDES}
    assert [name for name, numbers in ELSEWHERE.items() if not set(numbers.split()) <= found[name]] == []


def test_a_number_that_nothing_shows_is_noticed() -> None:
    page = "It takes 12.5 min of 1,234 s, 77.7 % of 64 IPUs, and `1.75 s`.\n\n```text\n12.48 min\n1,234 s\n```\n"
    assert unbacked(page) == {"77.7"}


# The house style


@every_page
def test_pages_are_short(page: Path) -> None:
    """But for what is looked up, tables that tools write, and the changelog, which grows with every version."""
    written = GENERATED.sub("", TEXTS[page])
    assert len(written.splitlines()) <= 150 or page.parent.name == "reference" or page.name == "CHANGELOG.md"
