"""Serving of many requests: tokens are not stepped through one by one."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from podsim.engine.compiled import is_available
from podsim.runs.serving import Batching, ContinuousBatching, Load, Service, StaticBatching, serve
from podsim.runs.serving.server import served_in_python
from tests.serving_examples import LinearSteps

LOAD = Load(((128, 200), (512, 200), (1000, 200)), 10_000, seed=1)
"""Two million tokens, for each of which a step would take minutes."""
BATCHINGS = [ContinuousBatching(32), StaticBatching(32, 0.1)]


def service(batching: Batching) -> Service:
    return Service(LinearSteps(1e-6, 0.005, 5e-5, 1e-6), batching)


@pytest.mark.skipif(not is_available(), reason="built without a C compiler")
@pytest.mark.parametrize("batching", BATCHINGS)
def test_a_hundred_thousand_requests(batching: Batching) -> None:
    many = replace(LOAD, request_count=100_000).at_rate(12.0)
    begin = time.process_time()
    serve(service(batching), many)
    assert time.process_time() - begin < 3.0


@pytest.mark.parametrize("batching", BATCHINGS)
def test_ten_thousand_requests_without_a_compiler(batching: Batching) -> None:
    requests = LOAD.at_rate(12.0)
    begin = time.process_time()
    served_in_python(service(batching), requests)
    assert time.process_time() - begin < 5.0
