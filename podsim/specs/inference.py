"""Scenarios of text generation: a decoder, its prompts, and how it is divided over IPUs."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from podsim.errors import BadValueError
from podsim.specs.activity import Activity
from podsim.specs.base import Spec
from podsim.specs.quantity import Count, CountOrZero, Flag, NumberFormat
from podsim.specs.scenario import AvailableMemory, ScenarioBase
from podsim.specs.serving import ServingSpec

_LLAMA: dict[str, Any] = {"vocabulary_size": 32000, "gated": True, "norm": "rms", "rotary": True, "bias": False}
_GPT2: dict[str, Any] = {
    "vocabulary_size": 50257,
    "position_count": 1024,
    "gated": False,
    "norm": "layer",
    "rotary": False,
    "bias": True,
    "tied_embedding": True,
}
_GPT3 = _GPT2 | {"position_count": 2048}


def _sizes(layers: int, hidden: int, inner: int, heads: int, kv_heads: int) -> dict[str, int]:
    return {
        "layer_count": layers,
        "hidden_size": hidden,
        "feed_forward_size": inner,
        "head_count": heads,
        "kv_head_count": kv_heads,
    }


_PRESETS: dict[str, dict[str, Any]] = {
    "llama2_7b": _LLAMA | _sizes(32, 4096, 11008, 32, 32),
    "llama2_13b": _LLAMA | _sizes(40, 5120, 13824, 40, 40),
    "llama2_70b": _LLAMA | _sizes(80, 8192, 28672, 64, 8),
    "gpt2_small": _GPT2 | _sizes(12, 768, 3072, 12, 12),
    "gpt2_medium": _GPT2 | _sizes(24, 1024, 4096, 16, 16),
    "gpt2_large": _GPT2 | _sizes(36, 1280, 5120, 20, 20),
    "gpt2_xl": _GPT2 | _sizes(48, 1600, 6400, 25, 25),
    "gpt3_2_7b": _GPT3 | _sizes(32, 2560, 10240, 32, 32),
    "gpt3_6_7b": _GPT3 | _sizes(32, 4096, 16384, 32, 32),
    "gpt3_13b": _GPT3 | _sizes(40, 5120, 20480, 40, 40),
    "gpt3_175b": _GPT3 | _sizes(96, 12288, 49152, 96, 96),
    "gptj_6b": _GPT2
    | {"vocabulary_size": 50400, "rotary": True, "position_count": 0, "tied_embedding": False}
    | _sizes(28, 4096, 16384, 16, 16),
}


class DecoderSpec(Spec):
    """A decoder. `size` presets its dimensions; any of them overrides it."""

    kind: Literal["decoder"]
    """Family of the model."""
    size: (
        Literal[
            "llama2_7b",
            "llama2_13b",
            "llama2_70b",
            "gpt2_small",
            "gpt2_medium",
            "gpt2_large",
            "gpt2_xl",
            "gpt3_2_7b",
            "gpt3_6_7b",
            "gpt3_13b",
            "gpt3_175b",
            "gptj_6b",
        ]
        | None
    ) = None
    """A published size [touvron2023] [radford2019] [brown2020]."""
    layer_count: Count
    """Layers."""
    hidden_size: Count
    """Width."""
    feed_forward_size: Count
    """Inner width of the feed-forward block."""
    head_count: Count
    """Query heads."""
    kv_head_count: Count
    """Key and value heads; fewer than query heads in grouped-query attention."""
    vocabulary_size: Count
    """Rows of the embedding."""
    position_count: CountOrZero = 0
    """Rows of learned positions; needed without rotary ones."""
    gated: Flag = True
    """Whether the feed-forward block is gated (SwiGLU)."""
    norm: Literal["rms", "layer"] = "rms"
    """Normalisation."""
    rotary: Flag = True
    """Rotary positions; learned ones otherwise."""
    bias: Flag = False
    """Biases in all dense layers."""
    tied_embedding: Flag = False
    """Whether the head shares the embedding's weights."""

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, raw: Any) -> Any:
        size = raw.get("size") if isinstance(raw, dict) else None
        if not isinstance(size, str) or size not in _PRESETS:
            return raw
        without_rows = {"position_count": 0} if raw.get("rotary") is True else {}
        return _PRESETS[size] | without_rows | raw

    @model_validator(mode="after")
    def _heads_go_together(self) -> DecoderSpec:
        if self.hidden_size % self.head_count:
            what = f"{self.head_count} heads do not divide a width of {self.hidden_size}"
            raise BadValueError(what, "change head_count or hidden_size")
        if self.head_count % self.kv_head_count:
            what = f"{self.kv_head_count} key and value heads do not divide {self.head_count} query heads"
            raise BadValueError(what, "change kv_head_count")
        if not self.rotary and not self.position_count:
            raise BadValueError("learned positions have no rows", "give position_count, or `rotary: true`")
        if self.rotary and self.position_count:
            what = f"rotary positions have no rows; position_count is {self.position_count}"
            raise BadValueError(what, "leave position_count out, or write `rotary: false`")
        return self


class GenerationSpec(Spec):
    """What is asked of the model."""

    batch_size: Count = 1
    """Sequences that go through the network together."""
    prompt_tokens: Count
    """Tokens of a prompt."""
    output_tokens: Count
    """Tokens generated for it."""
    kv_cache: Literal["none", "in_processor_memory", "streaming_memory"] = "in_processor_memory"
    """Where keys and values of earlier tokens are; `none` computes the whole sequence anew for each token."""

    @property
    def sequence_length(self) -> int:
        """Prompt and output together."""
        return self.prompt_tokens + self.output_tokens


class InferenceParallelismSpec(Spec):
    """How the model is divided over IPUs."""

    tensor_parallel: Count = 1
    """IPUs that share every layer."""
    pipeline_stages: Count = 1
    """Groups of such IPUs that hold the layers in turn."""
    batches_in_flight: Count = 1
    """Batches that go through the stages one behind the other, up to the number of stages."""

    @property
    def ipu_count(self) -> int:
        """IPUs of one copy of the model."""
        return self.tensor_parallel * self.pipeline_stages

    @model_validator(mode="after")
    def _ipus_can_be_placed(self) -> InferenceParallelismSpec:
        for name in ("tensor_parallel", "pipeline_stages"):
            count = getattr(self, name)
            if count & (count - 1):
                raise BadValueError(f"{name} {count} cannot be placed", "use a power of two")
        if self.batches_in_flight > self.pipeline_stages:
            what = f"{self.batches_in_flight} batches for {self.pipeline_stages} pipeline stages"
            raise BadValueError(what, "use at most one batch per stage")
        return self


class InferenceMemorySpec(Spec):
    """How memory is used."""

    available_memory_proportion: AvailableMemory = 0.4
    """Share of tile memory for the temporaries of a matrix product."""
    weights: Literal["resident", "streamed"] = "resident"
    """In In-Processor-Memory, or loaded layer by layer from streaming memory for every step."""
    io_tiles: CountOrZero = 0
    """Tiles that load the next layer while the others compute; without any, loads are waited for."""


class InferencePrecisionSpec(Spec):
    """Number formats."""

    weights: Literal["fp16", "fp8", "int4"] = "fp16"
    """Weights as they are stored; narrow ones are unpacked for the matrix unit."""
    activations: NumberFormat = "fp16"
    """Activations, keys and values."""
    matmul_partials: NumberFormat = "fp16"
    """Partial results of matrix products."""


class InferenceScenarioSpec(ScenarioBase):
    """One question about text generation: how fast, how late, on how many IPUs, under which load."""

    activity: ClassVar[Activity] = Activity.GENERATION
    model: DecoderSpec
    """The model."""
    generation: GenerationSpec
    """What is asked of it."""
    parallelism: InferenceParallelismSpec = InferenceParallelismSpec()
    """How the model is divided over IPUs; `auto` to have it chosen."""
    memory: InferenceMemorySpec = InferenceMemorySpec()
    """How memory is used."""
    precision: InferencePrecisionSpec = InferencePrecisionSpec()
    """Number formats."""
    serving: ServingSpec | None = None
    """Requests over time, for `podsim serve`."""

    @property
    def served(self) -> ServingSpec:
        """How it is served, by default if the scenario does not say."""
        return self.serving or ServingSpec()

    @property
    def copy_count(self) -> int:
        """Copies of the model that the pod holds, none of them across link domains."""
        domain = self.system.domain_ipu_count
        return domain // self.parallelism.ipu_count * (self.system.ipu_count // domain)
