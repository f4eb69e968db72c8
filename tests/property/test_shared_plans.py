"""What runs of one process share changes nothing: the figures are those of a process that knows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim import disk, memo, run
from podsim.tiles import matmul
from tests.property.conftest import examples

CLOCK = "system.machine.ipu.clock={:.3f} GHz"
LINK = "system.machine.ipu_link.bandwidth_per_direction={:.1f} GB/s"
NAMES = ("bert_v1.1_pod16_open", "resnet50_v1.1_pod16", "llama2_7b_pod16_streamed", "e5_large_pod4")


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of their own, so that no clock was planned for before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(disk.SWITCH, str(tmp_path_factory.mktemp("kept")))
        memo.forget()
        yield Path(str(tmp_path_factory.getbasetemp()))
    memo.forget()


def figures(name: str, *overrides: str) -> object:
    """All but what the result stands on, which repeats the run many times."""
    result = run(name, overrides=overrides)
    return {field.name: getattr(result, field.name) for field in fields(result) if field.name != "assumptions"}


@examples(4)
@given(
    name=st.sampled_from(NAMES),
    clocks_ghz=st.tuples(st.floats(0.5, 4.0), st.floats(0.5, 4.0)),
    links=st.tuples(st.floats(4.0, 64.0), st.floats(4.0, 64.0)),
)
def test_another_clock_and_another_link_are_as_in_a_fresh_process(
    name: str, clocks_ghz: tuple[float, float], links: tuple[float, float]
) -> None:
    asked = [(CLOCK.format(clock), LINK.format(link)) for clock, link in zip(clocks_ghz, links, strict=True)]
    shared = [figures(name, *each) for each in asked]
    for each, found in zip(asked, shared, strict=True):
        memo.forget()
        assert figures(name, *each) == found


def test_a_chip_with_another_clock_is_not_planned_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are in cycles: at twice the clock, what counts cycles takes half of the time, and all splits stay."""
    name, key = "bert_v1.1_pod16_open", "system.machine.ipu.clock=2.66 GHz"
    before = run(name)
    monkeypatch.setattr(matmul, "plan_matmul", None)
    after = run(name, overrides=[key])
    assert after.breakdown["matmul"] == pytest.approx(before.breakdown["matmul"] / 2)
    memo.forget()
    assert run(name, overrides=[key]).breakdown == after.breakdown
