"""Scenarios: which model runs how on which pod."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from podsim.errors import BadValueError
from podsim.specs.activity import Activity
from podsim.specs.base import Spec
from podsim.specs.division import ParallelismSpec
from podsim.specs.hardware import PodSpec
from podsim.specs.quantity import Count, CountOrZero, Flag, NumberFormat, Probability
from podsim.specs.run import RunSpec
from podsim.specs.software import SoftwareSpec
from podsim.specs.wording import shown

_PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"layer_count": 2, "hidden_size": 128, "feed_forward_size": 512, "head_count": 2},
    "base": {"layer_count": 12, "hidden_size": 768, "feed_forward_size": 3072, "head_count": 12},
    "large": {"layer_count": 24, "hidden_size": 1024, "feed_forward_size": 4096, "head_count": 16},
}


class ModelSpec(Spec):
    """The model. `size` presets the four dimensions; any of them overrides it."""

    kind: Literal["bert"]
    """Family of the model."""
    size: Literal["tiny", "base", "large"] | None = None
    """A published size [devlin2018]."""
    layer_count: Count
    """Encoder layers."""
    hidden_size: Count
    """Width of the encoder."""
    feed_forward_size: Count
    """Inner width of the feed-forward block."""
    head_count: Count
    """Attention heads."""
    vocabulary_size: Count = 30522
    """Rows of the word embedding."""
    position_count: Count | None = None
    """Rows of the position embedding; the sequence length if left out."""
    attention_bias: Flag = True
    """Biases in the four attention projections."""
    split_qkv: Flag = False
    """Three projections in place of one."""
    pooler: Flag = True
    """The dense layer in front of the next-sentence head."""
    mlm_transform: Flag = True
    """The dense layer and norm in front of the masked-token decoder."""
    token_type_count: CountOrZero = 2
    """Rows of the segment embedding; 0 without one."""
    next_sentence: Flag = True
    """The next-sentence head beside the masked tokens."""
    task: Literal["pretraining", "span", "classes"] = "pretraining"
    """Masked tokens; or, in fine-tuning, the span of an answer (SQuAD) or the class of a sequence (CLUE)."""
    class_count: Count | None = None
    """Classes of `task: classes`; two if left out."""

    @property
    def shares_embedding(self) -> bool:
        """Whether the head uses the embedding's weights."""
        return self.task == "pretraining"

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or raw.get("size") is None:
            return raw
        any_size = _PRESETS["base"]
        return _PRESETS.get(str(raw["size"]), any_size) | raw

    @model_validator(mode="after")
    def _classes_have_a_head(self) -> ModelSpec:
        if self.class_count is not None and self.task != "classes":
            raise BadValueError(f"class_count has no meaning with `task: {self.task}`", "leave it out")
        return self

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> ModelSpec:
        if self.hidden_size % self.head_count:
            what = f"head_count {self.head_count} does not divide hidden_size {self.hidden_size}"
            raise BadValueError(what, "change one of the two")
        return self


class PackingSpec(Spec):
    """Several sequences in one row of tokens."""

    sequences_per_pack: Annotated[float, Field(strict=True, ge=1, allow_inf_nan=False)]
    """Real sequences per pack, on average."""
    max_sequences_per_pack: Count
    """Slots for sequences in a pack."""

    @model_validator(mode="after")
    def _mean_is_possible(self) -> PackingSpec:
        if self.sequences_per_pack > self.max_sequences_per_pack:
            most = self.max_sequences_per_pack
            what = f"sequences_per_pack {self.sequences_per_pack:g} is above max_sequences_per_pack {most}"
            raise BadValueError(what, "the mean cannot be above the most; change one of the two")
        return self


class DataSpec(Spec):
    """The training data."""

    sequence_length: Count
    """Tokens per sequence, or per pack."""
    masked_token_count: Count | None = None
    """Predicted positions per sequence, or per pack; needed for pre-training."""
    samples_per_epoch: Count | None = None
    """Sequences of the training set; needed for `run.epochs`."""
    packing: PackingSpec | None = None
    """Left out when sequences are not packed."""
    dropout: Probability = 0.1
    """Dropout after embedding and sub-layers."""
    attention_dropout: Probability = 0.1
    """Dropout on attention probabilities."""

    @model_validator(mode="after")
    def _masks_fit(self) -> DataSpec:
        if (self.masked_token_count or 0) > self.sequence_length:
            what = f"masked_token_count {self.masked_token_count} is above sequence_length {self.sequence_length}"
            raise BadValueError(what, "lower it")
        return self

    @model_validator(mode="after")
    def _sequences_fit(self) -> DataSpec:
        if self.packing and self.packing.max_sequences_per_pack > self.sequence_length:
            most = self.packing.max_sequences_per_pack
            what = f"max_sequences_per_pack {most} is above sequence_length {self.sequence_length}"
            raise BadValueError(what, "a sequence has a token at least; lower it")
        return self


class OptimizerStateSpec(Spec):
    """Where optimizer state lives."""

    storage: Literal["in_processor_memory", "streaming_memory"] = "in_processor_memory"
    """On chip, or in streaming memory and loaded for each weight update."""
    replicated_tensor_sharding: Flag = True
    """Whether each replica keeps a shard only."""


def _proportion(raw: Any) -> Any:
    values = raw if isinstance(raw, (list, tuple)) else [raw]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            what = f"needs a number, or a list with one per IPU, not {shown(value)}"
            raise BadValueError(what, "write for example `0.2`")
        if not 0 < value <= 1:
            raise BadValueError(f"{shown(value)} is not above 0 and at most 1", "write for example `0.2`")
    return tuple(float(value) for value in values) if isinstance(raw, (list, tuple)) else float(raw)


_PROPORTION_SCHEMA = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
AvailableMemory = Annotated[
    Any,
    BeforeValidator(_proportion),
    WithJsonSchema({"anyOf": [_PROPORTION_SCHEMA, {"type": "array", "items": _PROPORTION_SCHEMA}]}),
]


class MemorySpec(Spec):
    """How memory is used."""

    available_memory_proportion: AvailableMemory = 0.2
    """Share of tile memory for the temporaries of a matrix product; one number, or one per IPU."""
    optimizer_state: OptimizerStateSpec = OptimizerStateSpec()
    """Where optimizer state lives."""


class OptimizerSpec(Spec):
    """The optimizer."""

    kind: Literal["lamb", "adamw", "sgd"] = "lamb"
    """LAMB [you2020], AdamW [loshchilov2019] or SGD with momentum."""
    first_moment: NumberFormat = "fp32"
    """Number format of the first moment, or of the momentum."""
    second_moment: NumberFormat = "fp32"
    """Number format of the second moment; SGD has none."""
    master_weights: Flag = False
    """Whether a single-precision copy of the weights is kept as optimizer state."""
    gradient_clipping: Flag = False
    """Whether gradients are clipped by their global norm."""

    @model_validator(mode="after")
    def _momentum_is_one_moment(self) -> OptimizerSpec:
        if self.kind == "sgd" and self.second_moment != "fp32":
            raise BadValueError("SGD has no second moment", "leave second_moment out, or choose `kind: adamw`")
        return self


class PrecisionSpec(Spec):
    """Number formats."""

    weights: NumberFormat = "fp16"
    """Weights."""
    activations: NumberFormat = "fp16"
    """Activations and their gradients."""
    gradient_accumulation: NumberFormat = "fp16"
    """Accumulated gradients."""
    matmul_partials: NumberFormat = "fp16"
    """Partial results of matrix products."""

    @model_validator(mode="after")
    def _one_format(self) -> PrecisionSpec:
        if self.weights != self.activations:
            raise BadValueError(
                f"weights in {self.weights} with activations in {self.activations} are not modelled",
                "give both the same format; optimizer.master_weights keeps a single-precision copy of half weights",
            )
        return self


class ScenarioBase(Spec):
    """What all scenarios have in common."""

    activity: ClassVar[Activity]
    description: str = ""
    """What the scenario is about."""
    system: PodSpec
    """The pod: a name, a file, or a mapping with `base`."""
    software: SoftwareSpec
    """The software stack: a name, a file, or a mapping with `base`."""


class TrainingScenario(ScenarioBase):
    """What all scenarios of training have in common."""

    activity: ClassVar[Activity] = Activity.TRAINING


class TransformerScenarioSpec(TrainingScenario):
    """What training scenarios of all transformers have in common."""

    model: Any
    """The model."""
    data: Any
    """The data."""
    parallelism: ParallelismSpec
    """How the run is divided over IPUs; `auto` to have it chosen."""
    batch_size: Count | None = None
    """Sequences, or packs, per weight update; needed where parallelism is `auto`, checked elsewhere."""
    memory: MemorySpec = MemorySpec()
    """How memory is used."""
    optimizer: OptimizerSpec = OptimizerSpec()
    """The optimizer."""
    precision: PrecisionSpec = PrecisionSpec()
    """Number formats."""
    run: RunSpec | None = None
    """Left out to get throughput alone."""

    @property
    @abstractmethod
    def layer_count(self) -> int:
        """Layers to be placed."""

    @property
    @abstractmethod
    def head_shares_embedding(self) -> bool:
        """Whether head and embedding have the same weights."""

    @property
    @abstractmethod
    def samples_per_epoch(self) -> int | None:
        """Samples of the training set."""

    @property
    def head_on_first_ipu(self) -> bool:
        """Where `layers_per_ipu` has the head."""
        chosen = self.parallelism.head_on
        return self.head_shares_embedding if chosen is None else chosen == "first_ipu"

    @property
    def stage_count(self) -> int:
        """Forward pipeline stages."""
        return self.parallelism.stage_count(head_apart=self.head_on_first_ipu)


class ScenarioSpec(TransformerScenarioSpec):
    """One question: a BERT, a pod, and how the one runs on the other."""

    model: ModelSpec
    """The model."""
    data: DataSpec
    """The data."""

    @property
    def layer_count(self) -> int:
        """Encoder layers."""
        return self.model.layer_count

    @property
    def head_shares_embedding(self) -> bool:
        """Those of masked tokens do."""
        return self.model.shares_embedding

    @property
    def samples_per_epoch(self) -> int | None:
        """Sequences of the training set."""
        return self.data.samples_per_epoch
