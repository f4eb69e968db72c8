"""What forward passes pay beside modelled work, fitted again."""

from __future__ import annotations

import pytest

import podsim
from tools.refit import forward_fits


def test_fitted_again_the_shipped_values_come_out() -> None:
    """To the microsecond to which they are written."""
    for fit in forward_fits():
        assert fit.committed == pytest.approx(fit.fitted, abs=0.5e-6), fit.key


def test_with_the_fitted_values_the_rows_are_met() -> None:
    """3,118.81 images/s, and a least latency of 0.447 ms: two figures for two constants."""
    call, answer = forward_fits()
    changes = [f"software={{base: popart_sdk_3.1, forward_call: {call.fitted} s, forward_exchange: {answer.fitted} s}}"]
    result = podsim.infer("resnet50_c600", variant="one_image", overrides=changes)
    per_batch_s = 1 / result.throughput_samples_per_s - call.fitted / result.batches_per_call
    assert 1 / per_batch_s == pytest.approx(3118.81, rel=1e-6)
    assert result.latency_s == pytest.approx(0.447e-3, abs=1e-9)
