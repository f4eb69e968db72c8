"""`podsim cost convolution` and its siblings: shapes, Mk1 by hand, what is printed, and what cannot be asked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from typer.testing import CliRunner

import podsim
from podsim.cli.app import app
from podsim.errors import DoesNotFitError, PodsimError
from podsim.result.cost import Cost, cost_convolution, cost_multi_slice, cost_schnet_block
from podsim.result.evidence import residuals
from podsim.scenario import load_ipu
from podsim.tiles.amp import amp_vertex_cycles
from podsim.tiles.conv_method import methods
from podsim.tiles.conv_shape import conv_shape
from podsim.tiles.split import serial_slices, slice_cycles

GC2, GC200 = load_ipu("gc2"), load_ipu("gc200")


def test_peak_of_mk1() -> None:
    """64 FLOP a cycle in half and 16 in single precision, on 1,216 tiles at 1.6 GHz."""
    assert GC2.peak_flop_per_s("fp16") == pytest.approx(124.5e12, rel=1e-3)
    assert GC2.peak_flop_per_s("fp32") == pytest.approx(31.1e12, rel=1e-3)


def test_single_partials_take_a_cycle_more_per_position() -> None:
    """64 rows on 8 units: 11 a worker, 37 + 5·8 - 7 = 70, so that the loop takes 420 cycles; the load 8·32/8 = 32.

    50 + 6·7 + 13 + 11, then for two passes of 8 of the 16 channels one group each: 18 + 7 + 32 + 420.
    """
    assert int(amp_vertex_cycles(GC2, 64, 1, 1, partials="fp32")) == 50 + 42 + 13 + 11 + 18 + 7 + 32 + 420
    assert int(amp_vertex_cycles(GC2, 64, 1, 1, partials="fp16")) == 50 + 42 + 13 + 11 + 18 + 7 + 32 + 372


def test_slices_of_sdk_1_0_are_of_channels_out_and_rearranged() -> None:
    """A slice of 120 results per tile is copied in 288 + 120·5/4 cycles, with 240 B of exchange."""
    assert {inner for _, inner in serial_slices(GC2)} == {1} < {inner for _, inner in serial_slices(GC200)}
    weights, results = 2 * 100 * 2 * 1216, 240 * 1216
    found = slice_cycles(GC2, weights, results, np.array([2]), np.array([1]), "fp16")
    assert found.tolist() == [(210 + 100) + (210 + 60) + (288 + 150 + 60)]


def test_sdk_1_0_has_dot_products_alone_for_groups_of_few_channels() -> None:
    """It joins none to fill the matrix unit, which has those of more than four channels."""
    wide = conv_shape(cost_convolution(28, 256, 512, 1, groups=32, ipu=GC2).op)
    assert {method.vertex for method in methods(GC2, wide, "fp16")} == {"amp", "hmac"}
    depthwise = cost_convolution(14, 64, 64, 3, groups=64, batch=2, ipu=GC200).op
    found = {name: {method.vertex for method in methods(chip, conv_shape(depthwise), "fp16")} for name, chip in _CHIPS}
    assert found == {"GC2": {"hmac"}, "GC200": {"amp", "hmac", "slic", "vmac"}}
    assert not any("combine" in method.transform for method in methods(GC2, conv_shape(depthwise), "fp16"))


def test_dot_products_take_words_of_channels_in_any_form() -> None:
    """A channel of a depthwise convolution fills a word of 4 B; one axis of the filter may be folded and not the other.

    Three taps of 3 channels each are 3 x (20 + 1) worker cycles for 9 products, where nine taps take 9 x 21.
    """
    depthwise = conv_shape(cost_convolution(112, 32, 32, 3, groups=32, batch=32, ipu=GC2).op)
    found = {method.transform: method for method in methods(GC2, depthwise, "fp16") if method.vertex == "hmac"}
    assert [found[f"fold kernel axes {axes}"].shape.in_channels for axes in ("(0,)", "(1,)", "(0, 1)")] == [3, 3, 9]
    assert {each.in_grain for each in found.values()} == {2}
    assert {method.in_grain for method in methods(GC2, depthwise, "fp32") if method.vertex == "hmac"} == {1}
    folded = cost_convolution(112, 32, 32, 3, groups=32, batch=32, ipu=GC2)
    assert folded.plan.method.transform == "fold kernel axes (0,)"
    products = folded.op.flop / 2
    assert folded.plan.account.matmul == pytest.approx(products * (3 * 21) / 9 / 1216, rel=0.06)


_CHIPS = (("GC2", GC2), ("GC200", GC200))


def test_partials_are_half_where_the_unit_gains_by_it() -> None:
    for dtype, partials in (("fp16", ["fp32", "fp16"]), ("fp32", ["fp32", "fp32"])):
        costs = [cost_convolution(14, 16, 16, dtype=dtype, ipu=chip) for _, chip in _CHIPS]  # type: ignore[arg-type]
        assert [cost.plan.partials for cost in costs] == [cost.asked["partials"] for cost in costs] == partials


@pytest.mark.parametrize(
    ("padding", "stride", "output"),
    [("same", 1, (27, 31)), ("same", 2, (14, 16)), ("valid", 1, (23, 31)), (2, 2, (14, 18)), (0, 4, (6, 8))],
)
def test_output_positions(padding: int | str, stride: int, output: tuple[int, int]) -> None:
    """(size + 2·padding - filter) // stride + 1, or size / stride rounded up."""
    op = cost_convolution((27, 31), 8, 8, (5, 1), stride=stride, padding=padding).op
    assert op.output_size == output
    assert op.flop == 2 * output[0] * output[1] * 8 * 8 * 5


def test_passes_do_the_same_products() -> None:
    passes = [
        cost_convolution(28, 64, 32, 3, batch=4, direction=each) for each in ("forward", "input_grad", "weight_grad")
    ]  # type: ignore[arg-type]
    assert len({pass_.op.flop for pass_ in passes}) == 1
    assert [pass_.op.shape for pass_ in passes] == [(4, 32, 28, 28), (4, 64, 28, 28), (32, 64, 3, 3)]


def test_ranges_are_wider_in_groups_and_backwards_and_say_why() -> None:
    """Forward passes were measured, in groups with a scatter of their own; gradients were not, in groups or without."""
    costs = [cost_convolution(14, 32, 32, 3, groups=groups, ipu=GC2) for groups in (1, 4)]
    backward = [cost_convolution(14, 32, 32, 3, groups=groups, direction="input_grad", ipu=GC2) for groups in (1, 4)]
    known = residuals().kernels
    assert [cost.sigma for cost in costs] == [known["convolution"], known["convolution in groups"]]
    assert costs[1].sigma < backward[0].sigma == backward[1].sigma
    assert [len(each.notes) for each in (*costs, *backward)] == [0, 1, 1, 2]
    (note,) = costs[1].notes
    assert f"scatter by {100 * known['convolution in groups']:.0f}%" in note
    assert f"note: {note}" in " ".join(costs[1].text().split())
    assert costs[1].to_dict()["notes"] == [note]


def test_rate_is_work_over_time() -> None:
    cost = podsim.cost_convolution(56, 64, 64, 3, batch=16, ipu="gc2")
    assert cost.op.flop == 2 * 16 * 56 * 56 * 64 * 64 * 9
    assert cost.flop_per_s == pytest.approx(cost.op.flop * 1.6e9 / cost.cycles)
    assert cost.cycles == pytest.approx(sum(dict(cost.plan.account.parts()).values()))


def test_small_rates_have_digits() -> None:
    """A lone pixel is 128 FLOP in more than a thousand cycles: less than a thousandth of a TFLOP/s."""
    cost = cost_convolution(1, 8, 8)
    told = dict(cost.lines)
    assert float(told["rate"].split()[0]) == pytest.approx(cost.flop_per_s / 1e12, rel=0.01)
    assert float(told["utilization"].removesuffix(" %")) == pytest.approx(100 * cost.to_dict()["utilization"], rel=0.01)


WRONG: dict[str, Callable[[], Cost]] = {
    "--groups: 4 groups do not divide 6 channels in": lambda: cost_convolution(14, 6, 8, 3, groups=4),
    "--filter: a filter of 5x5 does not fit into 3x3": lambda: cost_convolution(3, 8, 8, 5, padding="valid"),
    "--in: `0` is not from 1 to": lambda: cost_convolution(14, 0, 8),
    "--groups: `0` is not from 1 to": lambda: cost_convolution(14, 8, 8, groups=0),
    "--image: `0` is not from 1 to": lambda: cost_convolution("14x0", 8, 8),
    "--image: `1x2x3` is not a number": lambda: cost_convolution((1, 2, 3), 8, 8),
    "--filter: `3,3` is not a number": lambda: cost_convolution(14, 8, 8, "3,3"),
    "--padding: `wide` is no padding": lambda: cost_convolution(14, 8, 8, padding="wide"),
    "--memory: `2` is not above 0 and at most 1": lambda: cost_convolution(14, 8, 8, memory=2),
    "--memory: `0` is not above 0": lambda: cost_multi_slice(16, 16, 16, memory=0),
    "--batch: operands and result need": lambda: cost_convolution(512, 512, 512, 3, batch=64),
    "--dtype: `fp8` is no format of rows": lambda: cost_multi_slice(16, 16, 16, "fp8"),  # type: ignore[arg-type]
    "--edges: `-1` is not from 1 to": lambda: cost_schnet_block(16, 16, -1),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_asked(message: str) -> None:
    with pytest.raises(PodsimError) as error:
        WRONG[message]()
    assert str(error.value).startswith(message)
    assert error.value.do
    assert isinstance(error.value, DoesNotFitError) == ("result need" in message)


def test_people_are_told_what_json_says() -> None:
    """Units follow from keys: times and rates with what lies 1.2816 sigma around them; of many members the largest."""
    found = {
        "time_s": 2e-6,
        "moved_bytes": 2048,
        "utilization": 0.00512,
        "transform": "",
        "split": {"in_channels": 4, "field": [28, 1]},
        "operation_cycles": {f"op{number}": 1000.0 * number for number in range(12)},
        "breakdown_cycles": {"matmul": 3.0, "exchange": 1.0},
    }
    sigma = math.log(2) / 1.2816
    cost = Cost(title="one", ipu=GC2, cycles=4.0, time_s=2e-6, sigma=sigma, asked={"rows": 3}, found=found)
    assert cost.lines == [
        ("time", "2 us (80 %: 1 to 4 us)"),
        ("moved bytes", "2 KiB"),
        ("utilization", "0.512 %"),
        ("split", "in channels 4, field 28x1"),
        ("operation cycles", "op11 11,000, op10 10,000, op9 9,000, op8 8,000, op7 7,000, and of 7 more"),
    ]
    assert cost.ends_s == pytest.approx((1e-6, 4e-6))
    assert json.loads(cost.to_json()) == cost.to_dict() == {"rows": 3, **found}
    assert [line.split() for line in cost.text().splitlines()[-2:]] == [
        ["matmul", "3", "75%"],
        ["exchange", "1", "25%"],
    ]
    assert list(cost.to_frame().columns) == ["rows", "time_s", "moved_bytes", "utilization", "transform"]
    assert "one\ntime 2 us" in repr(cost)


COMMANDS: dict[str, Callable[[], Cost]] = {
    "convolution --image 14x12 --in 32 --out 64 --filter 1x3 --batch 2 --ipu gc2 --direction weight-grad": lambda: (
        cost_convolution((14, 12), 32, 64, (1, 3), batch=2, ipu=GC2, direction="weight_grad")
    ),
    "transfer --from ipu0 --to ipu3 --bytes 40kB --system dss8440": lambda: podsim.cost_transfer(
        40_000, "ipu0", "ipu3", system="dss8440"
    ),
    "all-reduce --ipus 4 --tiles 76 --bytes 4 --over tiles --system dss8440": lambda: podsim.cost_collective(
        "all-reduce", 4, ipus=4, tiles=76, over="tiles", system="dss8440"
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_says_what_python_says(command: str) -> None:
    said = CliRunner().invoke(app, ["cost", *command.split(), "--json"]).stdout
    assert json.loads(said) == json.loads(COMMANDS[command]().to_json())
