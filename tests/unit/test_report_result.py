"""The result: its numbers, its JSON and its frames."""

import json
import subprocess
import sys
from dataclasses import fields

import pytest

from podsim.draws import Range
from podsim.result.result import RunResult
from podsim.result.rows import IN_PROCESSOR, STREAMING, Reference
from tests.unit.report_examples import MIB, US, make_result


def test_breakdown_is_the_mean_of_the_ipus_and_adds_up() -> None:
    result = make_result()
    assert result.breakdown_ps == {
        "matmul": 65 * US,
        "optimizer": 15 * US // 2,
        "all_reduce": 20 * US,
        "bubble": 5 * US,
        "update_wait": 5 * US // 2,
    }
    assert result.weight_update_s == 1e-4
    assert sum(result.breakdown.values()) == result.weight_update_s


def test_a_breakdown_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(ValueError, match="breakdown adds up to 7 ps, the weight update is 100000000 ps"):
        make_result(breakdown_ps={"matmul": 7})


def test_the_slowest_ipu_is_the_one_that_waits_least() -> None:
    slowest = make_result().slowest_ipu
    assert slowest is not None
    assert (slowest.ipu, slowest.busy_s) == (0, 1e-4)
    assert make_result(ipus=()).slowest_ipu is None


def test_error_against_what_was_measured() -> None:
    result = make_result()
    assert result.error_of(Reference("weight_update_s", 80e-6, "")) == pytest.approx(0.25)
    assert result.error_of(Reference("time_to_train_s", 3126.0, "")) == pytest.approx(-0.5)


def test_a_drawn_time_to_train_is_compared_by_its_median() -> None:
    drawn = make_result(time_to_train_s=None, time_to_train_percentiles={"p10": 80.0, "p50": 90.0, "p90": 99.0})
    assert drawn.error_of(Reference("time_to_train_s", 100.0, "")) == pytest.approx(-0.1)
    unknown = make_result(time_to_train_s=None)
    assert unknown.error_of(Reference("time_to_train_s", 100.0, "")) is None


def test_memory_is_summed_by_ipu_and_place() -> None:
    memory = make_result().memory
    assert memory.used_bytes(0) == 400 * MIB
    assert memory.tenants(0, IN_PROCESSOR) == {"stash": 300 * MIB, "weights": 100 * MIB}
    assert (memory.fullest_ipu(), memory.fullest_ipu(STREAMING)) == (0, 1)
    assert memory.capacity_bytes(STREAMING) == 1024 * MIB


def test_json_holds_every_field_but_what_is_too_large_and_what_was_not_asked_for() -> None:
    stored = json.loads(make_result().to_json())
    assert {field.name for field in fields(RunResult)} - set(stored) == {
        *("trace", "passes", "program", "stash", "outcome"),
        *("choice", "uncertainty", "noise", "drift", "faults", "tokens_per_sample"),
        *("time_to_train_condition", "learning_rate", "notes", "shared_ps"),
        "sources",  # as `breakdown_basis`
        *("meter", "products"),  # as `energy`
        "prices",  # as `cost`
    }


def test_json_values_add_up_and_come_back() -> None:
    result = make_result()
    stored = json.loads(result.to_json())
    assert sum(stored["breakdown"].values()) == stored["weight_update_s"]
    assert stored["breakdown"] == result.breakdown
    assert stored["ipus"][1]["stages"] == "4 layers + head"
    assert sum(stored["ipus"][1]["seconds"].values()) == stored["weight_update_s"]
    assert stored["inputs"] == [{"path": "scenarios/two_ipus.yaml", "sha256": "ab" * 32}]
    assert stored["references"][0]["error"] == pytest.approx(0.25)
    assert stored["memory"]["rows"][0] == {
        "ipu": 0,
        "tenant": "weights",
        "size_bytes": 100 * MIB,
        "where": IN_PROCESSOR,
    }
    assert stored["scenario"]["parallelism"]["layers_per_ipu"] == [3, 4]


def test_json_is_the_same_text_each_time_and_begins_with_the_name() -> None:
    assert make_result().to_json() == make_result().to_json()
    assert list(make_result().to_dict())[:3] == ["name", "description", "version"]


def test_json_refuses_what_is_not_a_number() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        make_result(mfu=float("nan")).to_json()


def test_a_frame_has_each_figure_between_the_ends_of_its_range() -> None:
    """A range has the unit of its figure; a figure without a range has no such columns."""
    result = make_result()
    result.__dict__["ranges"] = {"weight_update_s": Range(90e-6, 130e-6), "mfu": Range(0.2, 0.3)}
    frame = result.to_frame()
    place = list(frame.columns).index("weight_update_s")
    assert list(frame.columns)[place : place + 3] == ["weight_update_s", "weight_update_s_low", "weight_update_s_high"]
    assert frame[["weight_update_s_low", "weight_update_s", "weight_update_s_high"]].to_numpy().tolist() == [
        [90e-6, 100e-6, 130e-6]
    ]
    assert frame[["mfu_low", "mfu_high"]].to_numpy().tolist() == [[0.2, 0.3]]
    units = frame.attrs["unit"]
    assert (units["weight_update_s_low"], units["mfu_high"]) == ("s", "1")
    ends = [name for name in frame.columns if name.endswith(("_low", "_high"))]
    assert len(ends) == 4
    assert list(result.to_frame(ranges=False).columns) == [name for name in frame.columns if name not in ends]


def test_breakdown_frame() -> None:
    frame = make_result().breakdown_frame()
    assert list(frame.columns) == ["kind", "family", "time_s", "share"]
    assert list(frame["kind"]) == ["matmul", "optimizer", "all_reduce", "bubble", "update_wait"]
    assert frame["share"].sum() == pytest.approx(1.0)
    assert frame.attrs["unit"] == {"time_s": "s", "share": "1"}


def test_ipu_frame() -> None:
    frame = make_result().ipu_frame()
    assert list(frame.index) == [0, 1]
    assert frame.loc[1, "matmul_s"] == pytest.approx(60e-6)
    assert frame.loc[0, "bubble_s"] == 0.0
    assert frame.attrs["unit"]["busy_s"] == "s"


def test_memory_frame() -> None:
    frame = make_result().memory_frame()
    assert frame.groupby("ipu")["size_bytes"].sum().to_dict() == {0: 400 * MIB, 1: 264 * MIB}
    assert list(frame["capacity_bytes"].unique()) == [800 * MIB, 1024 * MIB]
    assert frame.attrs["unit"] == {"size_bytes": "B", "capacity_bytes": "B"}


def test_operations_frame() -> None:
    frame = make_result().operations_frame()
    assert list(frame["total_s"]) == pytest.approx([36e-6, 40e-6])
    assert list(frame["exchange_s"]) == [6e-6, 0.0]
    assert frame.attrs["unit"]["exchange_s"] == "s"


def test_frames_of_an_empty_result_have_their_columns() -> None:
    empty = make_result(ipus=(), operations=())
    assert list(empty.operations_frame().columns) == ["stage", "block", "kind", "name", "count", "total_s"]
    assert list(empty.ipu_frame().columns) == ["lane", "stages", "busy_s"]


def test_a_result_loads_no_large_library() -> None:
    code = "import sys, podsim.result.result; print({'pandas', 'matplotlib', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
