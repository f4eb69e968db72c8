"""A job whose fit depends on the uncertain size of code: it runs, with a warning and a mark in its result."""

from __future__ import annotations

import json
from typing import Any

import pytest

import podsim
from podsim.errors import DoesNotFitError
from podsim.placement.memory import IpuMemory, Tenant, fit_verdict

TILES = 1472
JOBS = [
    ("bert_base_c600", "inference_code_memory_per_tile"),
    ("gptj_6b_pod4_streamed", "inference_code_memory_per_tile"),
    ("bert_base_clue_pod16", "code_memory_per_tile"),
]


@pytest.mark.parametrize(
    ("code", "uncertain", "streamed", "verdict"),
    [
        (60, 0, 0, "fits"),
        (61, 1, 0, "cannot tell"),
        (62, 1, 0, "does not fit"),
        (60, 60, 9, "does not fit"),
    ],
)
def test_a_verdict_by_hand(code: int, uncertain: int, streamed: int, verdict: str) -> None:
    """100 B on chip hold 40 B of weights and 60 B of code; no less code makes room in streaming memory of 8 B."""
    tenants = (
        Tenant("weights", 40),
        Tenant("code", code, uncertain_bytes=uncertain),
        Tenant("stash", streamed, "streaming_memory"),
    )
    assert fit_verdict([IpuMemory(0, tenants, 100, 8)]) == verdict


def with_code(key: str, value: int, least: int) -> list[str]:
    changes = {"value": f"{value} B", "range": f"[{least} B, {value} B]", "basis": "assumed", "source": "estimate"}
    return [f"software.{key}.{name}={text}" for name, text in changes.items()]


@pytest.mark.parametrize(("scenario", "key"), JOBS)
def test_a_job_that_may_not_fit_runs_with_a_warning(scenario: str, key: str) -> None:
    """What the fullest IPU has left is all code of a byte more a tile; the least of a range needs none of it."""
    roomy: Any = podsim.run(scenario)
    assert roomy.memory.fit == "fits"
    report = roomy.memory
    ipu = report.fullest_ipu()
    other_bytes = report.used_bytes(ipu) - report.tenants(ipu, "in_processor_memory")["code"]
    most = (report.in_processor_memory_bytes - other_bytes) // TILES
    tight: Any = podsim.run(scenario, overrides=with_code(key, most + 1, most))
    assert tight.memory.fit == "cannot tell"
    assert tight.warnings[0].startswith("cannot tell if this fits")
    assert json.loads(tight.to_json())["memory"]["fit"] == "cannot tell"
    with pytest.raises(DoesNotFitError):
        podsim.run(scenario, overrides=with_code(key, most + 2, most + 1))
