"""What a `config.json` asks for and no model has."""

from __future__ import annotations

from typing import Any

from podsim.importer.reader import Reader

_OBJECT, _NUMBER = "an object", "a number above zero"
_LEFT_OUT = {
    "rope_scaling": ("rope scaling", _OBJECT),
    "attention_chunk_size": ("attention in chunks", _NUMBER),
    "attn_logit_softcapping": ("soft-capping of attention scores", _NUMBER),
    "final_logit_softcapping": ("soft-capping of logits", _NUMBER),
    "quantization_config": ("narrow weights as in the file; `precision: {weights: int4}` simulates some", _OBJECT),
}
"""Keys of any family, what they ask for, and what has to stand there."""
_PLAIN_ROPE = "default"


def note_left_out(reader: Reader) -> None:
    """Note what the file asks for and is not modelled, whatever the family."""
    for key, (words, needed) in _LEFT_OUT.items():
        value = reader.config.data.get(key)
        if value is None or (key == "rope_scaling" and _is_plain(value)):
            continue
        if not _is(value, needed):
            reader.refuse(key, f"needs {needed}, or `null`", "write `null`")
        else:
            reader.notes.append(f"not modelled: {words} ({key})")


def note_window(reader: Reader, default: int | None) -> None:
    """Note attention that does not reach all tokens.

    Args:
        reader: Reads the file.
        default: The window if the file gives none; None for no window.
    """
    window = reader.whole("window", ["sliding_window"], default or 0, null=0).whole
    if window:
        what = f"sliding window attention (sliding_window {window}): tokens attend to all before them"
        reader.notes.append(f"not modelled: {what}")


def _is(value: Any, needed: str) -> bool:
    if needed == _OBJECT:
        return isinstance(value, dict)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _is_plain(value: Any) -> bool:
    """Whether rotary positions are as they were published first."""
    return isinstance(value, dict) and value.get("rope_type", value.get("type")) == _PLAIN_ROPE
