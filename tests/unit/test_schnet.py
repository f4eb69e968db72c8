"""SchNet: its operations counted by hand, its host by the formula, and its published runs."""

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

import podsim
from podsim.cli.app import app
from podsim.models.layers import Formats
from podsim.models.op import Elementwise, Gather, MatMul, ScatterAdd, TopK
from podsim.models.schnet import InteractionShape, SchNetShape, interaction_block, schnet
from podsim.scenario import load_ipu, load_scenario
from podsim.tiles import CostModel
from podsim.tiles.vector import compare_swap_cycles, passes
from tests.cases import every_case

SINGLE = Formats("fp32", "fp32")
BOW = load_ipu("bow")
QM9 = SchNetShape(features=100, blocks=4, gaussians=25, neighbours=28, atoms=576, graphs=64)
SCENARIO = "schnet_qm9_bow_pod64"


@every_case(
    "candidates, pass_count, pairs",
    lambda: ((1344, 51, 14960), (1078, 51, 12160), (672, 45, 7568), (576, 45, 6512), (512, 39, 5520)),
)
def test_the_network_has_as_many_passes_and_pairs_as_counted(candidates: int, pass_count: int, pairs: int) -> None:
    """The 28 nearest: runs of 32 are 15 passes, each merge one and five."""
    found = passes(candidates, 28)
    assert len(found) == pass_count
    assert sum(elements // 2 for elements, _ in found) == pairs


def test_a_small_network_by_hand() -> None:
    """Two of four: runs of two are a pass at distance 1, the merge one at 2, and what is left one at 1."""
    assert passes(4, 2) == [(4, 1), (4, 2), (2, 1)]


def test_a_pass_of_compares_by_hand() -> None:
    """1,472 tiles with 60 pairs each, ten a worker, at distance 4: 19 + 6·(23 + 4 + 8 + 9·11 + 3·11 + 2)."""
    assert compare_swap_cycles(BOW, 1472 * 120, 4) == 19 + 6 * (23 + 4 + 8 + 99 + 33 + 2)


def test_top_k_lays_out_keys_and_places_before_each_pass() -> None:
    """Rows of four: three passes over 4, 4 and 2 elements of 1,472 rows, eight bytes each, and two supersteps."""
    model = CostModel(BOW, 1.0, "fp32")
    cost = model.op(TopK(name="k", shape=(1472, 2), dtype="fp32", candidates=4), 0.6).account
    assert cost.rearrange == 3 * 2 * 288 + (2 * 1.0 + 0.25) * 8 * (4 + 4 + 2)
    assert cost.superstep == 6 * 275
    assert cost.vector == sum(compare_swap_cycles(BOW, 1472 * left, 1472 * far) for left, far in passes(4, 2))


def test_parameters_tensors_and_work_are_those_of_the_publication() -> None:
    """186,701 parameters in 41 tensors; 4·25,000 FLOP an edge and 4·60,000 + 10,100 an atom, forward."""
    workload = schnet(QM9, SINGLE, 32, 9536, 4)
    assert workload.parameter_count == 186_701
    assert sum(len(workload.blocks[name].parameters) for name in workload.order) == 41
    # Beside the products of edges and atoms the cumulative sum over atoms is one of a row with a triangle.
    assert workload.forward_flop - 2 * 576**2 == 576 * (28 * 4 * 25_000 + 4 * 60_000 + 10_100)


def test_a_block_reads_and_adds_rows_of_edges_twice_each() -> None:
    block = interaction_block(InteractionShape(atoms=64, features=20, edges=512, gaussians=50), SINGLE)
    kinds = Counter(type(op) for op in (*block.forward, *block.backward))
    assert (kinds[Gather], kinds[ScatterAdd]) == (2, 2)
    rows = [op for op in (*block.forward, *block.backward) if isinstance(op, Gather | ScatterAdd)]
    assert {(op.shape, op.table_rows, op.planned) for op in rows} == {((512, 20), 64, True)}
    products = [(op.rows, op.inner, op.columns) for op in block.forward if isinstance(op, MatMul)]
    assert products == [(512, 50, 20), (512, 20, 20), (64, 20, 20), (64, 20, 20), (64, 20, 20)]
    # The first dense layer of a filter needs no gradient of its input: nine more products.
    assert sum(isinstance(op, MatMul) for op in block.backward) == 9


def test_the_slow_softplus_has_two_passes_more() -> None:
    fast, slow = (
        interaction_block(InteractionShape(8, 10, 16, 5, fast_softplus=fast), SINGLE).forward for fast in (True, False)
    )
    count = [sum(isinstance(op, Elementwise) for op in ops) for ops in (fast, slow)]
    assert count[1] - count[0] == 2 * 2


def test_a_cosine_of_each_edge_is_a_call_of_a_library() -> None:
    """32 edges lie on one tile, six for a worker; a sort leaves one on each of 32: 11 + 6·(17 + n·2,300) cycles."""
    for is_sorted, edges in ((False, 6), (True, 1)):
        block = interaction_block(InteractionShape(16, 16, 32, 50, sorted_edges=is_sorted), SINGLE)
        cosine = next(op for op in block.forward if op.name.endswith("cos"))
        assert CostModel(BOW, 1.0, "fp32").op(cosine, 0.6).account.vector == 11 + 6 * (17 + edges * 2300)


def test_the_command_adds_up_the_operations_of_a_block() -> None:
    asked = ["cost", "schnet-block", "--nodes", "1024", "--features", "256", "--edges", "16384", "--ipu", "bow"]
    forward = json.loads(CliRunner().invoke(app, [*asked, "--format", "json"]).output)
    loop = 6 * 275 + 3 * 1024 * 256 * 4 / 1472 / 2
    assert forward["cycles"] == pytest.approx(sum(forward["operation_cycles"].values()) + loop)
    both = json.loads(CliRunner().invoke(app, [*asked, "--backward", "--format", "json"]).output)
    assert both["cycles"] > 2 * forward["cycles"]


def test_bytes_from_the_host_are_those_of_the_publication() -> None:
    """QM9: 576 atoms of 16 B and 64 places of 5 B; HydroNet: 1,344 atoms of 7 B and 35 places of 5 B."""
    for name, sent in ((SCENARIO, 9536), ("schnet_hydronet_bow_pod64", 9583), ("schnet_qm9_padded_bow_pod64", 8272)):
        spec = load_scenario(name).spec
        workload = spec.model.workload(spec.data, SINGLE, spec.parallelism.micro_batch_size)  # type: ignore[attr-defined]
        assert workload.host_input_bytes == sent, name


@every_case("replicas", lambda: (1, 8, 64))
def test_the_host_of_a_call_by_hand(replicas: int) -> None:
    """Four tensors of 128 micro-batches, six more and 0.15 ms for each replica, and a 25th of 4,096 x 69 us."""
    variant = f"asynchronous_{replicas}" if replicas < 64 else None
    result = podsim.run(SCENARIO, variant=variant)
    updates = 64 // replicas
    per_call = result.breakdown["host"] * updates
    tensors, calls = 11.5e-6 * (4 * 128 + 6 * replicas), 0.9e-3 + 0.15e-3 * replicas
    assert per_call == pytest.approx(tensors + calls + 4096 * 69e-6 / 25, rel=0.03)


def test_a_synchronous_loader_adds_the_start_of_an_epoch() -> None:
    """25 calls in an epoch: a call has a 25th of 0.247 s more, at any number of replicas."""
    ahead, late = (podsim.run(SCENARIO, variant=f"{loader}_32") for loader in ("asynchronous", "synchronous"))
    per_call = 2 * (late.weight_update_s - ahead.weight_update_s)
    assert per_call == pytest.approx(0.247 / 25, rel=1e-6)


def test_a_buffer_of_one_batch_is_empty_when_an_epoch_begins() -> None:
    """25 calls of 4,096 graphs in an epoch: a call has a 25th of 4,096 x 69 us; with 25 batches nothing is left."""
    one, all_calls = (
        podsim.run(SCENARIO, variant="asynchronous_32", overrides=[f"data.loader_buffer={count}"]).weight_update_s
        for count in (1, 25)
    )
    assert 2 * (one - all_calls) == pytest.approx(4096 * 69e-6 / 25, rel=1e-6)


def test_each_further_batch_of_the_buffer_hides_a_call() -> None:
    """A call of 18 ms host and 4.5 ms device: with 4 batches three calls of 22.6 ms hide 68 ms of 294 ms."""
    few, more, none = (
        2 * podsim.run(SCENARIO, variant="asynchronous_32", overrides=[f"data.loader_buffer={count}"]).weight_update_s
        for count in (1, 4, 25)
    )
    assert 25 * (few - more) == pytest.approx(3 * none, rel=0.1)


def test_synthetic_data_leaves_the_call_alone() -> None:
    result = podsim.run(SCENARIO, variant="synthetic_64")
    assert result.breakdown["host"] == pytest.approx(0.9e-3, rel=0.01)


@pytest.mark.parametrize(
    ("variant", "epoch_s", "within"),
    [
        # Fitted to nothing: device work alone.
        ("synthetic_1", 3.545758, 0.08),
        ("synthetic_8", 0.466661, 0.08),
        ("synthetic_32", 0.135968, 0.08),
        # Held out: fed by the host.
        ("asynchronous_2", 2.258306, 0.12),
        ("asynchronous_8", 0.901159, 0.12),
        ("asynchronous_32", 0.686297, 0.12),
        ("synchronous_2", 2.462251, 0.12),
        ("synchronous_8", 1.188401, 0.12),
        ("synchronous_32", 1.016444, 0.12),
    ],
)
def test_published_epochs_are_met(variant: str, epoch_s: float, within: float) -> None:
    result = podsim.run(SCENARIO, variant=variant)
    assert 102_400 / result.throughput_samples_per_s == pytest.approx(epoch_s, rel=within)


def test_more_replicas_make_an_epoch_slower_from_32_on() -> None:
    """As published: 0.686 s on 32 and 0.905 s on 64."""
    some, all_of_them = podsim.run(SCENARIO, variant="asynchronous_32"), podsim.run(SCENARIO)
    assert all_of_them.throughput_samples_per_s < some.throughput_samples_per_s


def test_the_search_divides_its_blocks() -> None:
    result = podsim.run(SCENARIO, variant="synthetic_1", overrides=["parallelism=auto", "batch_size=512"])
    assert result.weight_update_s > 0


def test_more_graphs_than_places_are_refused() -> None:
    with pytest.raises(podsim.SpecError, match="9 graphs in a pack with 4 places"):
        podsim.run(SCENARIO, overrides=["data.graphs_per_pack=9"])
