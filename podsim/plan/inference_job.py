"""From a checked scenario of text generation to a job for the planner."""

from __future__ import annotations

from podsim.plan.inference import InferenceJob, InferenceOptions
from podsim.specs import GenerationScenario
from podsim.system import build_software, build_system


def inference_job(spec: GenerationScenario) -> InferenceJob:
    """The job that a scenario describes."""
    model, generation, parallelism, memory = spec.model, spec.generation, spec.parallelism, spec.memory
    return InferenceJob(
        system=build_system(spec.system),
        software=build_software(spec.software),
        shape=model.shape,
        options=InferenceOptions(
            batch_size=generation.batch_size,
            prompt_tokens=generation.prompt_tokens,
            output_tokens=generation.output_tokens,
            kv_cache=generation.kv_cache,
            tensor_parallel=parallelism.tensor_parallel,
            pipeline_stages=parallelism.pipeline_stages,
            batches_in_flight=parallelism.batches_in_flight,
            weights_streamed=memory.weights == "streamed",
            io_tiles=memory.io_tiles,
            weight_format=spec.precision.weights,
            dtype=spec.precision.activations,
            partials=spec.precision.matmul_partials,
            available_memory_proportion=float(memory.available_memory_proportion),
        ),
    )
