"""No operation is faster than the peak of its chip, whatever the chip."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import podsim
from podsim.models.op import Conv
from podsim.scenario import load_ipu
from podsim.scenario.ipu import Fp8Amp, Ipu
from podsim.tiles import MatMulShape
from podsim.tiles.conv import plan_conv
from podsim.tiles.conv_shape import conv_shape
from podsim.tiles.matmul import plan_matmul

_GC200 = load_ipu("gc200")
_POWER = st.sampled_from((1, 2, 4, 8, 16, 32, 64))
# A group of channels fills whole vectors; four is the least that a filter of several rows may leave.
_CHANNELS = st.sampled_from((4, 8, 16, 32))

_AMPS = st.fixed_dictionaries(
    {
        "half_conv_units": _POWER,
        "half_partials_float_conv_units": _POWER,
        "single_conv_units": _POWER,
        "half_in_channels": _CHANNELS,
        "single_in_channels": _CHANNELS,
        "weight_load_width_bytes": _POWER,
        "half_cycles_per_position": _POWER,
        "single_cycles_per_position": _POWER,
        "fp8": st.builds(Fp8Amp.model_construct, in_channels=_CHANNELS, cycles_per_position=_POWER),
    }
)
_FORMATS = st.sampled_from((("fp8", "fp16"), ("fp16", "fp16"), ("fp16", "fp32"), ("fp32", "fp32")))
_TILES = st.fixed_dictionaries(
    {
        "count": st.integers(1, 1472),
        "worker_count": st.integers(1, 12),
        "vector_width_bytes": st.sampled_from((4, 8, 16, 32)),
    }
)


@st.composite
def chips(draw: st.DrawFn) -> Ipu:
    """A GC200 with another matrix unit and other tiles."""
    amp, tile = _GC200.amp.model_copy(update=draw(_AMPS)), _GC200.tile.model_copy(update=draw(_TILES))
    return _GC200.model_copy(update={"amp": amp, "tile": tile})


@settings(max_examples=60, deadline=None)
@given(
    ipu=chips(),
    shape=st.builds(MatMulShape, st.integers(1, 5000), st.integers(1, 2000), st.integers(1, 2000), st.integers(1, 8)),
    formats=_FORMATS,
)
def test_no_product_is_faster_than_the_peak(ipu: Ipu, shape: MatMulShape, formats: tuple[str, str]) -> None:
    assert plan_matmul(ipu, shape, *formats).utilization(ipu) <= 1


@settings(max_examples=60, deadline=None)
@given(
    ipu=chips(),
    groups=st.sampled_from((1, 4, 16)),
    channels=st.tuples(st.sampled_from((1, 2, 4, 16, 48)), st.sampled_from((1, 2, 4, 16, 48))),
    kernel=st.sampled_from(((1, 1), (3, 3), (7, 7), (1, 4))),
    stride=st.sampled_from((1, 2)),
    direction=st.sampled_from(("forward", "input_grad", "weight_grad")),
    formats=_FORMATS,
)
def test_no_convolution_is_faster_than_the_peak(
    ipu: Ipu,
    groups: int,
    channels: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    direction: str,
    formats: tuple[str, str],
) -> None:
    side = 16
    out = side // stride
    op = Conv(
        name="conv",
        shape=(8, groups * channels[1], out, out),
        batch=8,
        in_channels=groups * channels[0],
        out_channels=groups * channels[1],
        input_size=(side, side),
        output_size=(out, out),
        kernel=kernel,
        stride=(stride, stride),
        group_count=groups,
        direction=direction,
        dtype=formats[0],
    )
    assert plan_conv(ipu, conv_shape(op), *formats).utilization(ipu) <= 1


@pytest.mark.parametrize("cycles", [8, 64, 1000])
def test_a_slow_matrix_unit_makes_a_slow_run(cycles: int) -> None:
    """Twice the cycles per position at least halve what the matrix unit can do, and no run uses more than that."""
    slow = podsim.simulate("gpt2_small_pod4", overrides=[f"system.machine.ipu.amp.half_cycles_per_position={cycles}"])
    assert 0 < slow.mfu <= 1
    assert slow.weight_update_s > podsim.simulate("gpt2_small_pod4").weight_update_s
