"""Pages of each command, and what a browser shows of them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from podsim import compare, load, run
from podsim.report.chart import Chart
from podsim.report.report import Folded, Part, Report
from podsim.runs.serve import serve
from podsim.scenario.expectations import expectation
from podsim.study.check.verdict import verdict_on
from podsim.study.plan import Goal, PlanResult
from podsim.study.plan.candidates import Option
from podsim.study.sweep import sweep
from tests.unit.report_examples import make_result

BERT = "bert_v1.1_pod16_open"
LINK = "system.machine.ipu_link.bandwidth_per_direction"
LINKS = ["8 GB/s", "16 GB/s"]
CALL, TIMES = "software.host_call", ["100 ms", "120 ms", "136 ms"]
CALLS = [each.removesuffix(" ms") for each in TIMES]
SETUP = "software.setup"
WORDS = "parallelism.recomputation"
BATCHES = "parallelism.accumulation_factor"
EVIL = "</script><script>window.broken = true</script><img src=x onerror='window.broken = true'>"


def luminance(colour: str) -> float:
    """Relative luminance as of WCAG 2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def charts_of(page: Report) -> list[Chart]:
    """All charts of a page."""
    return [chart for section in page.sections for chart in _charts(section.blocks)]


def _charts(blocks: Any) -> Iterator[Chart]:
    for block in blocks:
        if isinstance(block, Chart):
            yield block
        elif isinstance(block, Folded):
            yield from _charts(block.blocks)


def blocks_of(page: Report, kind: type[Any]) -> list[Any]:
    """All blocks of a kind, those inside of others included."""

    def inside(blocks: Any) -> Iterator[Part]:
        for block in blocks:
            yield block
            if isinstance(block, Folded):
                yield from inside(block.blocks)

    return [block for section in page.sections for block in inside(section.blocks) if isinstance(block, kind)]


def study(name: str, **keys: Any) -> Report:
    """The page of a study of BERT."""
    content = {"kind": "study", "description": name, "scenario": BERT, "keys": keys}
    return sweep(content, processes=1).report()


def evil_page() -> Report:
    """The page of a result that holds what would run as a script, were it not escaped."""
    result = make_result(name=EVIL, description=EVIL, warnings=(EVIL,), inputs=((EVIL, "ab" * 32),))
    influence = {"metric": "weight_update_s", "low": -0.1, "high": 0.2}
    bad = {"key": EVIL, "value": EVIL, "basis": EVIL, "source": EVIL, "note": EVIL, "influence": influence}
    return replace(result, assumptions=(bad,)).report()


def verdict_page() -> Report:
    """The page of a check that one scenario does not pass."""
    from podsim.study.check.verdict import Baseline

    def measured(update_s: float) -> dict[str, Any]:
        spent = {"matmul": round(update_s * 1e12)}
        metrics = {"weight_update_s": update_s, "mfu": 0.2}
        given = {"status": "done", "reason": None, "metrics": metrics, "breakdown_ps": spent}
        return given | {"inputs": {"one.yaml": "ab" * 32}, "expect": {}}

    now = {"one": measured(1.1), "two": measured(1.0)}
    agreed = Baseline().with_measured({"one": measured(1.0), "two": measured(1.0)}, "agreed")
    return verdict_on(now, agreed, "podsim-baseline.json").report()


def answer() -> PlanResult:
    """An answer of three options, of which a limit rules one out."""

    def option(system: str, ipus: int, update_s: float, reason: str = "", mfu: float = 0.2) -> Option:
        figures = {
            "weight_update_s": update_s,
            "throughput_samples_per_s": 100 / update_s,
            "mfu": mfu,
            "warnings": None,
        }
        return Option(system, "as given", system, ipus, 4, ipus // 4, figures, reason)

    goal = Goal(BERT, objective="weight_update_s", limits=(expectation("weight_update_s", "< 1.5 s"),))
    ranked = [option("bow_pod64", 64, 0.5), option("bow_pod16", 16, 1.0, mfu=0.3)]
    late = option("ipu_pod16", 16, 2.0, "weight_update_s < 1.5 s: +33.3%")
    out = [late, Option("ipu_pod4", "as given", reason="16 IPUs are needed")]
    return PlanResult(goal, ranked, out, second="mfu", inputs=(("goal.yaml", "ab" * 32),))


def pages() -> dict[str, Report]:
    """A page of each kind."""
    two = compare(BERT, load("bert_pod64_hardware", variant="bow"))
    return {
        "run": run(BERT, record=True).report(),
        "forward": run("bert_large_squad_answers_pod16", record=True).report(),
        "generate": run("llama2_7b_pods", record=True).report(),
        "serve": serve(load("llama2_7b_pods", overrides=["serving.request_count=100"])).report(),
        "line": study("line", **{CALL: TIMES}),
        "lines": study("lines", **{CALL: TIMES, WORDS: ["layer", "none"]}),
        "bars": study("bars", **{WORDS: ["layer", "none"]}),
        "maps": study("maps", **{CALL: TIMES, LINK: LINKS, SETUP: ["1 s", "9 s"]}),
        "map": study("map", **{CALL: TIMES, LINK: LINKS}),
        "axes": study("axes", **{CALL: TIMES, LINK: ["8 GB/s", "16 GB/s"], SETUP: ["1 s", "9 s"], BATCHES: [450, 460]}),
        "compare": two.report(),
        "plan": answer().report(),
        "check": verdict_page(),
        "evil": evil_page(),
    }


class Tags(HTMLParser):
    """Start tags with their attributes, and the texts of scripts with JSON."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.specs: list[Any] = []
        self._in_json = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_json = tag == "script" and dict(attrs).get("type") == "application/json"

    def handle_endtag(self, tag: str) -> None:
        self._in_json = False

    def handle_data(self, data: str) -> None:
        if self._in_json:
            self.specs.append(json.loads(data))


def chromium() -> tuple[str, str] | None:
    """Paths of Chromium and of its driver; None where one of them is missing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def numbers_in(text: str) -> list[str]:
    """Numbers with a point in a text."""
    return re.findall(r"\d+\.\d+", text)
