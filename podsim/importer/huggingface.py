"""Architectures of Hugging Face Transformers: detection, choice of a reader, and keys that no model supports.

Every key of a file is either read, without effect on time, or refused.

Source: [hf_transformers] for names and defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.escaped import printable
from podsim.importer import decoder_config, encoder_config
from podsim.importer.any_decoder import any_decoder, has_dimensions
from podsim.importer.reader import ConfigFile, Reader
from podsim.importer.request import ConfigFamily, Imported, architectures
from podsim.scenario.wording import quoted

_KNOWN = decoder_config.FAMILIES | encoder_config.FAMILIES
_ANY_DECODER = "decoder"
"""Family of decoders without a reader of their own, which are read from their dimensions."""
_FAMILIES = _KNOWN | {_ANY_DECODER: ConfigFamily("", any_decoder)}
_FAMILY_OF_CLASS = {family.class_name: name for name, family in _KNOWN.items()}
_CLASS = re.compile(rf"({'|'.join(_FAMILY_OF_CLASS)})(?:For|Model|LMHead|DoubleHeads|Encoder)")


def imported(config: ConfigFile) -> Imported:
    """Return the model that a file describes, or raise an error with all its problems."""
    family = family_of(config)
    keys = _RecordedKeys(config.data)
    reader = Reader(replace(config, data=keys), family)
    for name in ("is_encoder_decoder", "add_cross_attention") if family != "t5" else ():
        if keys.get(name) is True:
            reader.complain(name, "decoders that read an encoder are not modelled", _IMPORT_GRAPH)
    _note_unsupported_features(reader)
    result = _FAMILIES[family].read(reader)
    _refuse_unread_keys(reader, keys)
    reader.check()
    return replace(result, config=config, notes=tuple(reader.notes))


def known_families() -> tuple[str, ...]:
    """Return the values of `model_type` with a reader of their own."""
    return tuple(sorted(_KNOWN))


def family_of(config: ConfigFile) -> str:
    """Return the name of the reader for a file, from `model_type` and `architectures`.

    Raises:
        SpecError: No reader fits, or the two keys disagree.
    """
    model_type = config.data.get("model_type")
    names = architectures(config)
    classes = {_FAMILY_OF_CLASS[match[1]] for match in map(_CLASS.match, names) if match}
    if model_type is None and len(classes) == 1:
        return classes.pop()
    known = ", ".join(known_families())
    if isinstance(model_type, str) and (features := _HIDDEN_FEATURES.get(model_type)):
        what = f"`{model_type}` models are not known: their keys do not say that they have {features}"
        raise SpecError([Problem(config.where("model_type"), "model_type", what, _IMPORT_GRAPH)])
    if model_type not in known_families() and has_dimensions(config.data) and _is_decoder(config, names):
        return _ANY_DECODER
    if model_type is None:
        what = f"nothing known says which model this is: {_without_type(names)}"
        raise SpecError([Problem(config.name, "", what, f'add `"model_type"`, one of: {known}')])
    where = config.where("model_type")
    if not isinstance(model_type, str):
        what = f"needs text, not {quoted(model_type)}"
        raise SpecError([Problem(where, "model_type", what, f"write one of: {known}")])
    if model_type not in known_families():
        what = f"{printable(quoted(model_type))} models are not known, and the file has not the dimensions of a decoder"
        raise SpecError([Problem(where, "model_type", what, _IMPORT_GRAPH)])
    if classes and model_type not in classes:
        what = f"model_type is `{model_type}`, architectures has `{printable(names[0])}`"
        raise SpecError([Problem(where, "model_type", what, "correct one of the two")])
    return model_type


_HIDDEN_FEATURES = {
    **dict.fromkeys(("gemma2", "gemma3", "gemma3_text"), "norms behind blocks, and windows in some layers"),
    **dict.fromkeys(("olmo2", "olmo3", "glm4"), "norms behind blocks"),
    **dict.fromkeys(("bloom", "mpt", "jais"), "positions as slopes of the scores (ALiBi)"),
    "cohere2": "blocks beside the attention, and windows in some layers",
    "qwen": "an intermediate_size that counts both halves of gated blocks",
    "baichuan": "positions that differ between its sizes",
    "phimoe": "layer norms under keys of RMS norms",
    "exaone": "RMS norms under keys of layer norms",
}
"""Features that the keys of a file do not show, by architecture; these architectures are refused."""
_ENCODER_KEYS = ("type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob", "num_hidden_groups")


def _is_decoder(config: ConfigFile, names: list[str]) -> bool:
    """Return True if no key indicates another kind of model."""
    model_type = config.data.get("model_type")
    if not names and any(key in config.data for key in _ENCODER_KEYS):
        return False
    is_decoder_class = not names or any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names)
    is_valid = isinstance(model_type, str | None)
    return is_decoder_class and is_valid and config.data.get("is_encoder_decoder") is not True


class _RecordedKeys(dict[str, Any]):
    """Keys of a file, with a record of the keys that were read."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, and record its key as read."""
        self.read.add(key)
        return super().get(key, default)


def _refuse_unread_keys(reader: Reader, keys: _RecordedKeys) -> None:
    """Record the keys that no reader has read, unless they have no effect on time."""
    patterns = (_WITHOUT_EFFECT, _WITHOUT_EFFECT_BY_FAMILY.get(reader.family, _WITHOUT_EFFECT))
    unknown = [
        key
        for key, value in keys.items()
        # A switch that is off, or a number that is zero, has no effect.
        if value and key not in keys.read and not any(pattern.fullmatch(key) for pattern in patterns)
    ]
    for key in unknown[:_MOST_NAMED]:
        if key in _UNSUPPORTED_KEYS:
            reader.complain(key, f"{_UNSUPPORTED_KEYS[key]} are not modelled", _IMPORT_GRAPH)
        else:
            what = f"key `{printable(key)}` is not known for a {reader.family}, and may change shapes or work"
            reader.complain(key, what, f"remove it if it changes neither; otherwise {_IMPORT_GRAPH}")


def _without_type(names: list[str]) -> str:
    if not names:
        return "`model_type` is missing"
    return f"`model_type` is missing, and architectures has {printable(quoted(names[0]))}"


_OBJECT, _NUMBER = "an object", "a number above zero"
_UNSUPPORTED_FEATURES = {
    "rope_scaling": ("rope scaling", _OBJECT),
    "rope_parameters": ("rope scaling", _OBJECT),
    "attn_logit_softcapping": ("soft-capping of attention scores", _NUMBER),
    "final_logit_softcapping": ("soft-capping of logits", _NUMBER),
    "quantization_config": ("narrow weights as in the file; `precision: {weights: int4}` simulates some", _OBJECT),
}
"""Features that no family simulates, and the type of their value, by key; a note lists them."""
_MOST_NAMED = 12
_IMPORT_GRAPH = (
    "import it as ONNX, or export its shapes where PyTorch is (`podsim import --torch-script` prints what does that)"
    " and import those"
)
_LATENT, _SHARED, _MIXED = "latent keys and values", "experts that all tokens share", "layers of several kinds"
_QUERY_NORMS, _STATES = "norms of queries and keys", "recurrent layers"
_UNSUPPORTED_KEYS = {
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), _LATENT),
    **dict.fromkeys(("n_shared_experts", "num_shared_experts", "shared_expert_intermediate_size"), _SHARED),
    **dict.fromkeys(("n_routed_experts", "moe_layer_freq", "first_k_dense_replace", "layer_types"), _MIXED),
    **dict.fromkeys(("no_rope_layers", "attention_types", "attention_layers", "mlp_layer_types"), _MIXED),
    **dict.fromkeys(("num_local_experts", "num_experts", "moe_intermediate_size"), "experts of this architecture"),
    **dict.fromkeys(
        ("block_types", "attn_layer_period", "global_attn_every_n_layers", "sliding_window_pattern"), _MIXED
    ),
    **dict.fromkeys(("use_qk_norm", "qk_layernorm", "qk_norm", "use_qk_layernorm"), _QUERY_NORMS),
    **dict.fromkeys(("ssm_cfg", "state_size", "mamba_d_state", "conv_kernel", "lru_width"), _STATES),
    "num_nextn_predict_layers": "heads for several tokens",
    "cross_attention_layers": "layers that read another model",
    "text_config": "models of several kinds of input",
    "vision_config": "models of images and words",
    "audio_config": "models of sound and words",
}
"""Features that no family simulates, by key; a file with such a key is refused."""
_WITHOUT_EFFECT = re.compile(
    r"""(
    _.* | .*_token_ids? | .*_token_index | .*_loss_coef | .*_loss_weight | summary_.* | .*dtype | .*_init | init_.*
    | (use|output|return)_(cache|attentions|hidden_states|router_logits|past|scores|dict|dict_in_generate|bfloat16)
    | architectures | model_type | transformers_version | name_or_path | auto_map
    | tokenizer_class | transformers\.js_config
    | attn_implementation | use_flash_attention(_2)? | initializer_range | initializer_factor | pretraining_tp
    | gradient_checkpointing | use_gradient_checkpointing | unsloth_.* | torchscript | .*_eps | norm_epsilon
    | layer_norm_epsilon | layer_norm_elementwise_affine | rope_theta | rope_interleaved | rotary | rotary_emb_base
    | rotary_base | rotary_emb_interleaved | original_max_position_embeddings | n_ctx | n_positions | model_max_length
    | norm_topk_prob | router_jitter_noise | input_jitter_noise | prefix | finetuning_task | task_specific_params
    | problem_type | id2label | label2id | num_labels | is_decoder | is_encoder_decoder | add_cross_attention
    | separate_cls | .*_dropout(_prob)? | embd_pdrop | scale_att.* | reorder_and_upcast_attn
    | attention_softmax_in_fp32 | apply_residual_connection_post_layernorm | tie_word_embeddings
    | max_length | min_length | max_new_tokens | do_sample | early_stopping | num_beams | num_beam_groups
    | num_return_sequences | temperature | top_[kp] | typical_p | diversity_penalty | repetition_penalty
    | length_penalty | no_repeat_ngram_size | encoder_no_repeat_ngram_size | bad_words_ids | chunk_size_feed_forward
    | layerdrop | inference_runner | runner_type | fused_.* | parallel_.*_lm_head
    )""",
    re.VERBOSE,
)
"""Keys without effect on the simulated time: names, training settings, constants of norms and rotations."""
_WITHOUT_EFFECT_BY_FAMILY = {
    "bert": re.compile("pooler_.*|directionality|position_embedding_type"),
    "roberta": re.compile("pooler_.*|position_embedding_type"),
    "vit": re.compile("pooler_.*|encoder_stride"),
    "gpt_bigcode": re.compile(
        "pad_key_length|pre_allocate_kv_cache|validate_runner_input|max_(batch_size|sequence_length)"
    ),
    "t5": re.compile("relative_attention_.*|dense_act_fn|is_gated_act"),
}
"""Further keys of an architecture without effect on the simulated time."""
_PLAIN_ROPE = "default"
_ROPE = ("rope_scaling", "rope_parameters")


def _note_unsupported_features(reader: Reader) -> None:
    """Add a note for each feature of `_UNSUPPORTED_FEATURES` in the file."""
    for key, (feature, type_name) in _UNSUPPORTED_FEATURES.items():
        value = reader.config.data.get(key)
        if value is None or (key in _ROPE and _is_plain_rope(value)):
            continue
        if not _has_type(value, type_name):
            reader.refuse(key, f"needs {type_name}, or `null`", "write `null`")
        else:
            reader.notes.append(f"not modelled: {feature} ({key})")


def _has_type(value: Any, type_name: str) -> bool:
    if type_name == _OBJECT:
        return isinstance(value, dict)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _is_plain_rope(value: Any) -> bool:
    """Return True for rotary positions without scaling, in all layers or in each kind of layer."""
    if not isinstance(value, dict):
        return False
    kinds = [kind for kind in value.values() if isinstance(kind, dict)]
    return all(kind.get("rope_type", kind.get("type", _PLAIN_ROPE)) == _PLAIN_ROPE for kind in kinds or [value])
