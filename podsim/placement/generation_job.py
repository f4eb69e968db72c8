"""From a checked scenario of text generation to the question for the planner."""

from __future__ import annotations

from podsim.options import Fit
from podsim.placement.generation import Generation, generation_layout
from podsim.placement.layout import INT4_GROUP_SIZE, ON_CHIP, STREAMING, Precision
from podsim.scenario import GenerationScenario
from podsim.scenario.generation import InferencePrecisionSpec


def generation_job(spec: GenerationScenario, fit: Fit = "refuse") -> Generation:
    """The question that a scenario describes, and what becomes of it where it does not fit."""
    generation, parallelism, memory, shape = spec.generation, spec.parallelism, spec.memory, spec.model.shape
    return Generation(
        system=spec.system,
        software=spec.software,
        shape=shape,
        layout=generation_layout(
            shape,
            parallelism.pipeline_stages,
            parallelism.tensor_parallel,
            float(memory.available_memory_proportion),
            micro_batch_size=generation.batch_size,
            kv_cache=generation.kv_cache,
            logits_per_sequence=shape.vocabulary_size if generation.next_token == "host" else 0,
            batches_in_flight=parallelism.batches_in_flight,
            weight_storage=STREAMING if memory.weights == "streamed" else ON_CHIP,
            io_tiles=memory.io_tiles,
            reserve=memory.reserve or 0.0,
        ),
        precision=_precision(spec.precision),
        dtype=spec.precision.activations,
        prompt_tokens=generation.prompt_tokens,
        output_tokens=generation.output_tokens,
        fit=fit,
    )


def _precision(formats: InferencePrecisionSpec) -> Precision:
    grouped = formats.weights == "int4"
    group_size = formats.weight_group_size or INT4_GROUP_SIZE if grouped else 0
    return Precision.of(formats.weights, formats.matmul_partials, group_size=group_size)
