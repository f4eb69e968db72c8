"""Does podsim do more work for the same answer? What is counted depends neither on the machine nor on its load.

Calls of podsim's own functions in Python 3.11, calls of the compiled engine and its events, and compiled programs: of a
run that is made again, of a run with another number, and of the ranges of its metrics. More than a tenth above the
golden file fails; the changelog gives the reason when `--update-golden` writes another.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from podsim import memo, simulate
from podsim.engine import compiled
from podsim.program import compile as compiler
from podsim.runs import train

GOLDEN = Path(__file__).with_name("work.json")
MORE = 0.1
OTHER = ["software.host_call=51 ms"]
SCENARIOS = ("bert_v1.1_pod64_open", "resnet50_v1.1_pod256", "gpt3_2_7b_pod64")
JOBS: dict[str, Callable[[str], object]] = {
    "the run again": simulate,
    "one more number": lambda name: simulate(name, overrides=OTHER),
    "its ranges": lambda name: simulate(name, overrides=OTHER).ranges,
}


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count what is done meanwhile."""
    found: Counter[str] = Counter()
    inside = str(Path(compiled.__file__).parent.parent)

    def call(frame: FrameType, event: str, _argument: object) -> None:
        found["python calls"] += event == "call" and frame.f_code.co_filename.startswith(inside)

    def compile_program(*arguments: Any, **options: Any) -> object:
        found["compiled programs"] += 1
        return whole_compiler(*arguments, **options)

    def run(*arguments: Any) -> int:
        assert whole_engine is not None
        code = whole_engine(*arguments)
        found["engine runs"] += 1
        found["engine events"] += arguments[0][-4][2]  # of the summary
        return code

    whole_compiler, whole_engine = compiler.compile_program, compiled._core_run
    monkeypatch.setattr(train, "compile_program", compile_program)
    monkeypatch.setattr(compiled, "_core_run", run)
    before = sys.getprofile()
    sys.setprofile(call)
    try:
        yield found
    finally:
        sys.setprofile(before)
        monkeypatch.undo()


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions call other functions")
@pytest.mark.skipif(not compiled.is_available(), reason="podsim was built without a C compiler")
def test_no_answer_takes_more_work(monkeypatch: pytest.MonkeyPatch, update_golden: bool) -> None:
    memo.forget()
    done: dict[str, dict[str, dict[str, int]]] = {}
    for name in SCENARIOS:
        _ = simulate(name).ranges  # fills caches, as the first answer of a session does
        for job, work in JOBS.items():
            with counted(monkeypatch) as found:
                work(name)
            done.setdefault(name, {})[job] = dict(sorted(found.items()))
    if update_golden:
        GOLDEN.write_text(json.dumps(done, indent=2) + "\n", encoding="utf-8")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert golden.keys() == done.keys()
    more = [
        f"{name}, {job}: {count:,} {what}, were {golden[name][job].get(what, 0):,}"
        for name, jobs in done.items()
        for job, counts in jobs.items()
        for what, count in counts.items()
        if count > (1 + MORE) * golden[name][job].get(what, 0)
    ]
    assert not more, "; ".join(more)
