"""The division that podsim chooses is predicted no slower than the one that Graphcore's engineers submitted to MLPerf.

Five of the sixteen submissions, of both models and all shapes of pipeline; the others differ from these in pod,
division and host count alone. The batch is that of the submission.
"""

from __future__ import annotations

import pytest

from podsim import simulate

SUBMISSIONS = (
    "bert_v1.0_pod64_open",
    "bert_v1.1_pod16_closed",
    "resnet50_v1.0_pod64",
    "resnet50_v1.1_pod256",
    # Whose first IPU, which updates its weights after the others, holds little.
    "bert_v2.0_pod256_closed",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.ci if "bert" in name else ()) for name in SUBMISSIONS]
)
def test_the_choice_is_no_slower_than_the_submission(name: str) -> None:
    published, chosen = simulate(name), simulate(name, overrides=["parallelism=auto"])
    layout = published.scenario["parallelism"]
    assert isinstance(layout, dict)
    batch = layout["micro_batch_size"] * layout["accumulation_factor"] * layout["replication_factor"]
    own = chosen.scenario["parallelism"]
    assert isinstance(own, dict)
    assert own["micro_batch_size"] * own["accumulation_factor"] * own["replication_factor"] == batch
    assert chosen.throughput_samples_per_s >= published.throughput_samples_per_s
