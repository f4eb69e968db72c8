"""However a batch is made up, a run trains its samples, and less than one batch more."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import podsim

TOKENS = 128
TINY: dict[str, Any] = {
    "system": "ipu_pod16",
    "software": "popart_sdk_2.3",
    "model": {"kind": "bert", "size": "tiny", "vocabulary_size": 1024},
    "data": {"sequence_length": TOKENS, "masked_token_count": 20, "samples_per_epoch": 1000},
    "memory": {"available_memory_proportion": 0.2},
}
factors = st.integers(1, 40)


@given(
    factors, factors, st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 10**7), st.sampled_from(["samples", "tokens"])
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_work_of_a_run_does_not_depend_on_its_batch(
    micro_batch: int, accumulation: int, replicas: int, samples: int, end: str
) -> None:
    """Updates times batch are the samples up to one batch, and the time of training is that many updates."""
    division = {
        "micro_batch_size": micro_batch,
        "accumulation_factor": accumulation,
        "replication_factor": replicas,
        "layers_per_ipu": [2],
    }
    amount = samples if end == "samples" else samples * TOKENS
    result = podsim.simulate(TINY | {"parallelism": division, "run": {end: amount, "setup": "0 s"}}, fit="warn")
    assert result.outcome is not None and result.outcome.update_count is not None
    batch, updates = micro_batch * accumulation * replicas, result.outcome.update_count
    assert 0 <= updates * batch - samples < batch
    assert updates == math.ceil(samples / batch)
    assert result.time_to_train_s == pytest.approx(updates * result.weight_update_s)
