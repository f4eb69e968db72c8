"""What this repository promises about itself: sources, roles, clean files, light start, docstrings."""

from __future__ import annotations

import ast
import csv
import hashlib
import math
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from ruamel.yaml import YAML

from podsim.scenario import load_hardware, shipped_names, variant_names
from podsim.scenario.base import keys_of
from podsim.scenario.quantity import quantity_of
from tests.cases import every_case

ROOT = Path(__file__).resolve().parent.parent.parent
HARDWARE = sorted((ROOT / "hardware_specs").rglob("*.yaml"))
SPECS = [path for path in HARDWARE if path.name != "references.yaml"]
BLIND = ROOT / "reference_data" / "blind_predictions.csv"
OWN = {"blind_predictions", "blind_ranges", "known_gaps"}
"""Tables about podsim itself, which publish no measurement."""
TABLES = sorted(path for path in (ROOT / "reference_data").glob("*.csv") if path.stem not in OWN)
BASES = {"published", "measured", "derived", "calibrated", "assumed"}
NAMES_ONLY = {"machine_count", "link_domain_machine_count", "host_count"}
"""Numbers of a pod that its name stands for: IPU-POD64 is 16 machines."""
NO_UNIT = {"count", "ratio", "share", "cycles"}


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


REFERENCES: dict[str, Any] = read(ROOT / "hardware_specs" / "references.yaml")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def in_file(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# Files


def tracked() -> list[Path]:
    """What git knows, or would know after `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in found.split("\0") if name and (path := ROOT / name).is_file()]


LOCAL = re.compile(
    r"(?<![\w.~\]>-])/(?:work|tmp|home|root|Users|mnt|opt|var|private)/\w"
    r"|[A-Z]:\\\\?(?:Users|Temp)"
    r"|\bfile:///"
)
REGISTRY = re.compile(
    r"index[-_]url|find[-_]links|extra-index|artifactory|jfrog|devpi|\bnexus\b"
    r"|pythonhosted\.org|pypi\.org/simple|registry\.npmjs|proxy\.golang|conda\.anaconda"
    r"|https?://(?:localhost|127\.|10\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.|[\w.-]+\.(?:internal|local|corp)\b)",
    re.IGNORECASE,
)


def test_no_file_names_a_local_path_or_a_package_registry() -> None:
    found = []
    for path in tracked():
        if path.resolve() == Path(__file__).resolve() or path.suffix in {".png", ".ico"}:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found += [
                f"{in_file(path)}:{number}: {m.group()}" for rule in (LOCAL, REGISTRY) for m in rule.finditer(line)
            ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        *("see /home/someone/pod.yaml", "path = '/tmp/x'", r"C:\Users\me", "file:///etc/x"),
        *("--index-url https://x", "https://files.pythonhosted.org/a", "http://10.1.2.3:8080", "https://a.internal/b"),
    ],
)
def test_the_search_finds_what_it_is_for(line: str) -> None:
    assert LOCAL.search(line) or REGISTRY.search(line)


# Sources


def test_the_bibliography_says_what_and_where() -> None:
    assert REFERENCES
    for key, entry in REFERENCES.items():
        assert entry.get("title") and entry.get("where"), key


@every_case("path", lambda: TABLES)
def test_every_published_figure_has_a_source(path: Path) -> None:
    table = rows(path)
    assert table
    for row in table:
        if "source_url" in row:
            assert re.search(r"https?://[\w-]+\.\w", row["source_url"]), row
        else:
            assert row["source"] in REFERENCES, row


@every_case("path", lambda: TABLES)
def test_every_published_figure_has_a_role(path: Path) -> None:
    """Calibration or hold-out; a single run has the role of its submission; what nobody measured has none."""
    if path.stem in {
        *("mlperf_rcp", "mlperf_hyperparameters", "published_configurations", "switches", "training_limits")
    }:
        assert "role" not in rows(path)[0]
        return
    key = ("round", "division", "benchmark", "ipus", "framework", "submitter")
    submissions = {
        tuple(row[k] for k in key): row["role"] for row in rows(ROOT / "reference_data/mlperf_submissions.csv")
    }
    for row in rows(path):
        role = submissions[tuple(row[k] for k in key)] if path.stem == "mlperf_runs" else row["role"]
        assert role in {"calibration", "hold-out"}, row


def test_blind_predictions_are_never_computed_again() -> None:
    """They were made before the measurements were known; another number would not be blind."""
    written = hashlib.sha256(BLIND.read_bytes()).hexdigest()
    assert written == "b5d73ea1ed3d3ca4e436eb1b9b448ab89a54c27dd58419625a711844ebb519d9"


@every_case("path", lambda: TABLES)
def test_every_measurement_that_is_compared_has_an_uncertainty(path: Path) -> None:
    """One standard deviation as a share: more than nothing, and less than the figure itself."""
    if path.stem not in {
        "published_throughput",
        "mlperf_submissions",
        "gemm_measurements",
        "amp_measurements",
        "microbenchmarks",
    }:
        return
    for row in rows(path):
        for column in (each for each in row if each.startswith("uncertainty") and not each.endswith("basis")):
            share = re.fullmatch(r"(\d+(?:\.\d+)?) %", row[column])
            assert share and 0 < float(share[1]) < 50, (row, column)


def test_the_uncertainty_of_a_submission_is_that_of_the_mean_of_its_runs() -> None:
    """Standard deviation of the runs over the root of their number, to the two digits that are written."""
    key = ("round", "division", "benchmark", "ipus", "framework", "submitter")
    runs = rows(ROOT / "reference_data/mlperf_runs.csv")
    for row in rows(ROOT / "reference_data/mlperf_submissions.csv"):
        of_row = [run for run in runs if all(run[k] == row[k] for k in key)]
        for column, values in (
            ("uncertainty", [float(run["step_ms_median_block"]) for run in of_row]),
            ("uncertainty_evaluation", [float(run["eval_s_median"]) for run in of_row]),
            ("uncertainty_throughput", [float(run["train_s"]) / float(run["n_steps"]) for run in of_row]),
            ("uncertainty_score", [float(run["ttt_physical_min"]) / float(run["n_steps"]) for run in of_row]),
        ):
            expected = statistics.stdev(values) / statistics.mean(values) / math.sqrt(len(values))
            assert float(row[column].removesuffix(" %")) / 100 == pytest.approx(expected, rel=0.06), (row, column)


def test_rows_that_were_kept_aside_are_no_calibration_but_for_those_that_tell_hosts_apart() -> None:
    """Pairs of pods tell calls from cycles, one paper numbers of processes; others chose rings, and copies in FP8."""
    aside = [row for row in rows(ROOT / "reference_data/published_throughput.csv") if row["kept_aside_until"]]
    fitted = {row["id"]: row["kept_aside_until"] for row in aside if row["role"] != "hold-out"}
    early = dict.fromkeys(("GCP-011", "GCP-013", "LLM-010", "LLM-012", "PEARC-009", "PEARC-011"), "0.12")
    assert fitted == early | dict.fromkeys(("PRTR-064", "PRTR-066", "PRTR-068"), "0.15")


def test_the_page_of_blind_predictions_shows_them_as_they_are() -> None:
    page = (ROOT / "docs/background/blind-predictions.md").read_text(encoding="utf-8")
    for row in rows(BLIND):
        names = row["version"], row["row"], row["described_as"], row["quantity"].replace("_", " ")
        cells = (*names, row["predicted"], row["measured"], row["unit"], f"{row['error_percent']} %")
        assert f"| {' | '.join(cells)} |" in page


def test_published_rows_name_shipped_scenarios_or_say_why_not() -> None:
    table, shipped = rows(ROOT / "reference_data/published_throughput.csv"), set(shipped_names()["scenarios"])
    for row in table:
        assert bool(row["scenario"]) != bool(row["not_run"]), row["id"]
        for title in row["scenario"].split():
            name, _, variant = title.partition("@")
            assert name in shipped and (not variant or variant in variant_names(name)), row["id"]


def numbers(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(key path, mapping with `value` or bare number) of everything in a specification."""
    if isinstance(node, dict) and "value" in node:
        yield path, node
    elif isinstance(node, dict):
        for key, each in node.items():
            yield from numbers(each, (*path, str(key)))
    elif isinstance(node, list):
        for number, each in enumerate(node):
            yield from numbers(each, (*path, str(number)))
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path, node


@every_case("path", lambda: SPECS)
def test_every_hardware_number_has_source_and_basis(path: Path) -> None:
    """Beside it, or once for the whole file where all of it is one table of cycle counts."""
    data = read(path)
    if data["kind"] == "vertices":
        assert data["source"] in REFERENCES and data["basis"] in BASES
        return
    for key, number in numbers(data):
        if key[-1] in NAMES_ONLY and data["kind"] == "pod":
            continue
        assert isinstance(number, dict), f"{'.'.join(key)}: {number} has neither source nor basis"
        assert number["source"] in REFERENCES, f"{'.'.join(key)}: source {number['source']} is not in the bibliography"
        assert number["basis"] in BASES, ".".join(key)
        if number["basis"] in {"calibrated", "assumed"}:
            assert "range" in number, f"{'.'.join(key)} is {number['basis']} and has no range"


@every_case("path", lambda: SPECS)
def test_every_hardware_number_has_a_unit(path: Path) -> None:
    """Bare numbers are counts, ratios and cycles only: the reader of specifications refuses any other."""
    kind = read(path)["kind"]
    if kind == "vertices":
        return  # worker cycles throughout, said at the top of the file
    schema = load_hardware(path.stem, kind)[0]
    bare = [
        key for key, number in numbers(read(path)) if isinstance(number, dict) and not isinstance(number["value"], str)
    ]
    for key in bare:
        assert _dimension(type(schema), key) in NO_UNIT, ".".join(key)


def _dimension(model: Any, key: tuple[str, ...]) -> str:
    field = model.model_fields[keys_of(model)[key[0]]]
    if len(key) > 1:
        return _dimension((get_args(field.annotation) or (field.annotation,))[0], key[1:])
    quantity = quantity_of(field)
    assert quantity is not None, key
    return quantity.dimension


CITATION = re.compile(r"(?<!\w)\[([a-z][a-z0-9]*(?:_[a-z0-9]+)+|[a-z]+\d{4}|estimate)\]")
"""A key in brackets; units and type parameters have neither underscore nor year."""


@every_case("path", lambda: HARDWARE)
def test_what_specifications_cite_is_in_the_bibliography(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    cited = set(CITATION.findall(text)) | set(re.findall(r"\bsource: ([a-z]\w*)", text))
    assert cited <= set(REFERENCES)


def test_what_formulas_cite_is_in_the_bibliography() -> None:
    cited = {}
    for path in (ROOT / "podsim").rglob("*.py"):
        for text in docstrings(path).values():
            cited |= dict.fromkeys(CITATION.findall(text or ""), in_file(path))
    assert len(cited) > 10
    assert {key: path for key, path in cited.items() if key not in REFERENCES} == {}


# Scenarios and the package


@pytest.mark.parametrize("kind", ["systems", "software"])
def test_every_shipped_specification_loads(kind: str) -> None:
    names = shipped_names()[kind]
    assert names
    for name in names:
        assert load_hardware(name, {"systems": "pod"}.get(kind, kind))


HEAVY = ("simpy", "pandas", "matplotlib", "numpy", "pydantic", "ruamel", "rich", "podsim.engine")


@pytest.mark.parametrize(
    "code",
    [
        "import podsim; podsim.__version__",
        "import sys; sys.argv = ['podsim', '--help']; import podsim.cli.app as c; c.main()",
    ],
)
def test_start_is_light(code: str) -> None:
    """Neither `import podsim` nor `podsim --help` brings the libraries that only a simulation needs."""
    report = f"import atexit, sys; atexit.register(lambda: print('loaded', *[n for n in {HEAVY} if n in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", f"{report}; {code}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].strip() == "loaded"


def test_a_training_run_that_prints_its_tables_brings_no_library_of_others() -> None:
    """Neither what draws and counts nor what serves: a plain `podsim run` starts in half a second of work."""
    others = ("pandas", "matplotlib", "typer", "podsim.runs.serving", "podsim.show.html_page")
    report = f"import atexit, sys; atexit.register(lambda: print('loaded', *[n for n in {others} if n in sys.modules]))"
    code = "sys.argv = ['podsim', 'run', 'bert_v1.1_pod16_open']; from podsim.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", f"{report}; {code}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].strip() == "loaded"


def test_the_wheel_brings_the_data() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    data = (path.relative_to(ROOT).parts for path in tracked() if path.suffix in {".yaml", ".csv"})
    folders = {parts[0] for parts in data if len(parts) > 1} - {"tests"}
    assert included == {folder: f"podsim/_data/{folder}" for folder in sorted(folders)}
    source = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {f"/{folder}" for folder in folders} <= set(source), "no wheel can be built from the sdist"


def test_generated_pages_are_checked_in_every_ci_run() -> None:
    """`./dev ci` compares them, README's accuracy tables included; each generator exists and knows `--check`."""
    tree = ast.parse((ROOT / "dev").read_text(encoding="utf-8"))
    (pages,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PAGES"
    )
    assert "tools/update_readme.py" in pages
    for page in pages:
        assert "--check" in (ROOT / page).read_text(encoding="utf-8")


# Docstrings


def docstrings(path: Path) -> dict[str, str | None]:
    """Docstring by name of a module and of everything public in it."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    found = {in_file(path): ast.get_docstring(module)}

    def visit(parent: ast.Module | ast.ClassDef, prefix: str) -> None:
        for node in parent.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith(
                "_"
            ):
                found[f"{prefix}{node.name}"] = ast.get_docstring(node)
                if isinstance(node, ast.ClassDef):
                    visit(node, f"{prefix}{node.name}.")

    visit(module, f"{in_file(path)}: ")
    return found


def test_everything_public_has_a_docstring() -> None:
    found = {name: text for path in (ROOT / "podsim").rglob("*.py") for name, text in docstrings(path).items()}
    assert len(found) > 300
    assert [name for name, text in found.items() if not text] == []


def test_the_action_installs_itself_and_lets_nothing_into_its_shell() -> None:
    """A name in an index is anybody's; what is interpolated into a script is run as one."""
    action = read(ROOT / "action.yml")
    scripts = [step["run"] for step in action["runs"]["steps"]]
    assert action["inputs"]["podsim"]["default"] == ""
    assert scripts[0] == 'python -m pip install "${PODSIM:-$GITHUB_ACTION_PATH}"'
    assert not any("${{" in script for script in scripts)
