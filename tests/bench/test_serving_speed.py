"""Serving of many requests: tokens are not stepped through one by one."""

from __future__ import annotations

import time

import pytest

from podsim.runs.serving import Batching, ContinuousBatching, Load, Service, StaticBatching, serve
from tests.serving_examples import LinearSteps


@pytest.mark.parametrize("batching", [ContinuousBatching(32), StaticBatching(32, 0.1)])
def test_ten_thousand_requests_of_two_hundred_tokens(batching: Batching) -> None:
    """Two million tokens, for each of which a step would take minutes."""
    service = Service(LinearSteps(1e-6, 0.005, 5e-5, 1e-6), batching)
    load = Load(((128, 200), (512, 200), (1000, 200)), 10_000, seed=1)
    begin = time.process_time()
    serve(service, load.at(12.0))
    assert time.process_time() - begin < 5.0
