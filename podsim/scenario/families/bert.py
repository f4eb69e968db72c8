"""BERT and similar encoders of sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.models import Workload
from podsim.models.layers import Formats
from podsim.models.transformer.bert import BertShape, bert
from podsim.models.transformer.shape import WHOLE, Shards
from podsim.scenario.activity import Activity
from podsim.scenario.base import Spec
from podsim.scenario.families.base import BuiltModelSpec, named, sized
from podsim.scenario.family import Family
from podsim.scenario.forward import PassSpec
from podsim.scenario.quantity import Count, CountOrZero, Flag, LayerCount
from podsim.scenario.scenario import Finding
from podsim.scenario.transformer_training import TRANSFORMER_TRAINING, DropoutDataSpec
from podsim.scenario.wording import setting

_TWO_CLASSES = 2
# Sequence length of MLPerf's benchmark, packed or not. Source: [mlperf_training_rules].
_REFERENCE_TOKENS = 512


class PackingSpec(Spec):
    """Packing of several sequences into one row of tokens."""

    sequences_per_pack: Annotated[float, Field(strict=True, ge=1, allow_inf_nan=False)]
    """Mean number of real sequences per pack."""
    max_sequences_per_pack: Count
    """Slots for sequences in a pack."""
    shared_mask: Flag = False
    """Whether the mask that separates the sequences of a pack is computed once and sent from stage to stage with the
    activations, as in PyTorch; otherwise each stage computes its own."""

    @model_validator(mode="after")
    def _mean_is_possible(self) -> PackingSpec:
        if self.sequences_per_pack > self.max_sequences_per_pack:
            most = self.max_sequences_per_pack
            what = f"sequences_per_pack {self.sequences_per_pack:g} is above max_sequences_per_pack {most}"
            raise BadValueError(what, "the mean cannot be above the most; change one of the two")
        return self


class DataSpec(DropoutDataSpec):
    """The training data."""

    sequence_length: Count
    """Tokens per sequence, or per pack."""
    masked_token_count: Count | None = None
    """Predicted positions per sequence, or per pack; needed for pre-training."""
    packing: PackingSpec | None = None
    """Left out when sequences are not packed."""

    @model_validator(mode="after")
    def _sequences_are_long_enough(self) -> DataSpec:
        if (self.masked_token_count or 0) > self.sequence_length:
            what = f"masked_token_count {self.masked_token_count} is above sequence_length {self.sequence_length}"
            raise BadValueError(what, "lower it")
        if self.packing and self.packing.max_sequences_per_pack > self.sequence_length:
            most = self.packing.max_sequences_per_pack
            what = f"max_sequences_per_pack {most} is above sequence_length {self.sequence_length}"
            raise BadValueError(what, "a sequence has a token at least; lower it")
        return self


_PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"layer_count": 2, "hidden_size": 128, "feed_forward_size": 512, "head_count": 2},
    "base": {"layer_count": 12, "hidden_size": 768, "feed_forward_size": 3072, "head_count": 12},
    "large": {"layer_count": 24, "hidden_size": 1024, "feed_forward_size": 4096, "head_count": 16},
}


class BertSpec(BuiltModelSpec):
    """BERT. `size` presets the four dimensions; each can be overridden."""

    reference_benchmark: ClassVar[str | None] = "bert"
    reference_words: ClassVar[str] = "BERT-Large in pre-training on sequences of 512 tokens with LAMB"
    incidental: ClassVar[frozenset[str]] = frozenset(
        {"size", "split_qkv", "qkv_products", "scaled_queries", "square_mask"}
    )
    widens_functions: ClassVar[bool] = True
    kind: Literal["bert"]
    """Family of the model."""
    size: Literal["tiny", "base", "large"] | None = None
    """A published size [devlin2018]."""
    layer_count: LayerCount
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
    """Separate weights for queries, keys and values, as LAMB scales each tensor by itself. The weights are adjacent, so
    that one product still computes all three, as with PopART's `split_qkv` and PyTorch's fused attention."""
    qkv_products: Literal[1, 3] = 1
    """Number of products that compute queries, keys and values. Three, each with its own weights, are slower; graphs
    that were not rewritten for IPUs have three."""
    activation: Literal["gelu", "gelu_erf"] = "gelu"
    """Function of the feed-forward block. `gelu`: one operation of the library, by the hyperbolic tangent, as in
    PopART, PopTorch and TensorFlow. `gelu_erf`: five operations, by the error function, as in an unfused ONNX graph."""
    scaled_queries: Flag = False
    """Whether queries are scaled before the product with keys, as in PopRT's `fused_attention`; otherwise scores
    are."""
    square_mask: Flag = False
    """Whether the padding mask is a square for each sequence, laid out like its scores; otherwise it is a row."""
    relative_position_count: CountOrZero = 0
    """Rows of a table of relative positions, which each forward pass looks up and adds to the scores, as in MPNet; 0
    without such a table."""
    pooler: Flag = True
    """The dense layer in front of the next-sentence head."""
    mlm_transform: Flag = True
    """The dense layer and norm in front of the masked-token decoder."""
    token_type_count: CountOrZero = 2
    """Rows of the segment embedding; 0 without one."""
    next_sentence: Flag = True
    """Whether there is a next-sentence head in addition to the masked tokens."""
    task: Literal["pretraining", "span", "classes"] = "pretraining"
    """Masked tokens; or, in fine-tuning, the span of an answer (SQuAD) or the class of a sequence (CLUE)."""
    class_count: Count | None = None
    """Classes of `task: classes`; two if left out."""

    @property
    def _published(self) -> str | None:
        """Published size with these four dimensions, or None."""
        sizes = (size for size, preset in _PRESETS.items() if all(getattr(self, key) == preset[key] for key in preset))
        return next(sizes, None)

    @property
    def title(self) -> str:
        """Published name, or layers and width."""
        size = self._published
        return f"BERT-{size.title()}" if size else sized("BERT", self.layer_count, self.hidden_size)

    def benchmark_on(self, data: DataSpec) -> str | None:
        """Return `bert` for BERT-Large on sequences of 512 tokens, the second phase of pre-training."""
        trained = self.task == "pretraining" and self.next_sentence and data.sequence_length == _REFERENCE_TOKENS
        return "bert" if trained and self._published == "large" else None

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or raw.get("size") is None:
            return raw
        # With an unknown size, only the size is reported, and not the dimensions that it leaves out.
        return _PRESETS.get(str(raw["size"]), _PRESETS["base"]) | raw

    @model_validator(mode="after")
    def _keys_go_together(self) -> BertSpec:
        if self.class_count is not None and self.task != "classes":
            raise BadValueError(f"class_count has no meaning with `task: {self.task}`", "leave it out")
        if self.hidden_size % self.head_count:
            what = f"head_count {self.head_count} does not divide hidden_size {self.hidden_size}"
            raise BadValueError(what, "change one of the two")
        return self

    @property
    def placed_layers(self) -> int:
        """Number of encoder layers."""
        return self.layer_count

    @property
    def shares_embedding(self) -> bool:
        """True in pre-training, whose masked-token head shares the embedding."""
        return self.task == "pretraining"

    def workload(self, data: DataSpec, formats: Formats, batch_size: int, shards: Shards = WHOLE) -> Workload:
        """Return the graph of one micro-batch of sequences or packs."""
        shape = BertShape(
            micro_batch_size=batch_size,
            sequence_length=data.sequence_length,
            layer_count=self.layer_count,
            hidden_size=self.hidden_size,
            feed_forward_size=self.feed_forward_size,
            head_count=self.head_count,
            vocabulary_size=self.vocabulary_size,
            position_count=self.position_count or data.sequence_length,
            masked_token_count=data.masked_token_count or 0,
            sequences_per_pack=data.packing.sequences_per_pack if data.packing else 1.0,
            max_sequences_per_pack=data.packing.max_sequences_per_pack if data.packing else 1,
            shared_mask=data.packing.shared_mask if data.packing else False,
            attention_bias=self.attention_bias,
            split_qkv=self.split_qkv,
            qkv_products=self.qkv_products,
            activation=self.activation,
            scaled_queries=self.scaled_queries,
            square_mask=self.square_mask,
            relative_rows=self.relative_position_count,
            pooler=self.pooler,
            mlm_transform=self.mlm_transform,
            dropout=data.dropout > 0,
            attention_dropout=data.attention_dropout > 0,
            token_type_count=self.token_type_count,
            next_sentence=self.next_sentence,
            task=self.task,
            class_count=self.class_count or _TWO_CLASSES,
            dtype=formats.dtype,
            accumulator_dtype=formats.accumulator,
            functions_dtype=formats.functions,
            sharing=shards,
        )
        return bert(shape, named("BERT", self.size))

    def findings(self, spec: Any) -> Iterator[Finding]:
        """Yield problems of positions, masks and packs."""
        data: DataSpec = spec.data
        if self.position_count is not None and self.position_count < data.sequence_length:
            yield (
                ("model", "position_count"),
                f"{self.position_count} positions for sequences of {data.sequence_length} tokens",
                "raise it, or leave it out",
            )
        if self.relative_position_count and not hasattr(spec, "forward"):
            yield (
                ("model", "relative_position_count"),
                "relative positions are modelled for forward passes, not for training",
                "leave it out; training is then a little too fast",
            )
        masks = ("data", "masked_token_count")
        if self.task == "pretraining" and data.masked_token_count is None:
            what = "pre-training predicts masked positions; their number is missing"
            yield masks, what, "add it, for example 76 of 512 tokens; or set `model.task`"
        if self.task != "pretraining" and data.masked_token_count is not None:
            what = f"`task: {self.task}` predicts no masked positions"
            yield masks, what, f"leave it out, or `{setting(masks, None)}`"
        if self.task != "pretraining" and data.packing is not None:
            what = f"packs are modelled for pre-training, not for `task: {self.task}`"
            yield ("data", "packing"), what, f"leave it out, or `{setting(('data', 'packing'), None)}`"


FAMILY = Family(
    "a BERT",
    BertSpec,
    {
        Activity.TRAINING: {"data": (DataSpec, ...), **TRANSFORMER_TRAINING},
        Activity.FORWARD: {"data": (DataSpec, ...), "forward": (PassSpec, ...)},
    },
)
