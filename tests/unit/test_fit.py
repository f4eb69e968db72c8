"""Divisions that do not fit: refused, or simulated with a warning that says by how much."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import podsim
from podsim import DoesNotFitError, SpecError
from podsim.cli.app import app

TOO_LARGE = {
    "training": ("vit_base_pod16", ["parallelism.micro_batch_size=64"]),
    "generation": ("llama2_13b_pod16", ["parallelism.tensor_parallel=1"]),
    "forward passes": ("vit_base_pod4", ["forward.batch_size=800"]),
}


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_what_does_not_fit_is_refused_unless_a_warning_will_do(kind: str) -> None:
    name, overrides = TOO_LARGE[kind]
    with pytest.raises(DoesNotFitError) as caught:
        podsim.run(name, overrides=overrides)
    result = podsim.run(name, overrides=overrides, fit="warn")
    (warning,) = (each for each in result.warnings if "does not fit" in each)
    # The same sentence, with the share that the used and the available bytes give.
    assert warning.endswith(caught.value.message)
    ipus = {row.ipu for row in result.memory.rows}
    used = max(sum(result.memory.tenants(ipu, "in_processor_memory").values()) for ipu in ipus)
    share = used / result.memory.in_processor_memory_bytes - 1
    assert share > 0
    assert warning.startswith(f"does not fit, by {100 * share:.1f} %, ")


def test_what_fits_is_the_same_either_way() -> None:
    strict, lenient = (podsim.run("vit_base_pod4", fit=fit) for fit in ("refuse", "warn"))
    assert strict.to_json() == lenient.to_json()


def test_the_command_line_warns() -> None:
    name, overrides = TOO_LARGE["training"]
    given = ["run", name, "--set", *overrides]
    assert CliRunner().invoke(app, given).exit_code != 0
    lenient = CliRunner().invoke(app, [*given, "--fit", "warn"])
    assert lenient.exit_code == 0
    assert "does not fit, by" in lenient.output


def test_there_is_no_third_way() -> None:
    with pytest.raises(SpecError, match="`maybe` is not a way to treat what does not fit"):
        podsim.run("vit_base_pod4", fit="maybe")  # type: ignore[arg-type]
