"""Architectures of Hugging Face Transformers: which one a file describes, who reads it, and what no model has.

Source: [hf_transformers] for names and defaults.
"""

from __future__ import annotations

import re
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.importer import decoder_config, encoder_config
from podsim.importer.reader import ConfigFile, Reader, printable
from podsim.importer.request import Imported, architectures
from podsim.scenario.wording import shown

_FAMILIES = decoder_config.FAMILIES | encoder_config.FAMILIES
_BY_CLASS = {each.class_name: name for name, each in _FAMILIES.items()}
_CLASS = re.compile(rf"({'|'.join(_BY_CLASS)})(?:For|Model|LMHead|DoubleHeads|Encoder)")


def imported(config: ConfigFile) -> Imported:
    """The model that a file describes."""
    family = family_of(config)
    reader = Reader(config, family)
    for name in ("is_encoder_decoder", "add_cross_attention") if family != "t5" else ():
        if config.data.get(name) is True:
            reader.complain(name, "decoders that read an encoder are not modelled", "import another model")
    note_left_out(reader)
    result = _FAMILIES[family].read(reader)
    reader.check()
    return result


def known_families() -> tuple[str, ...]:
    """Architectures that can be imported."""
    return tuple(sorted(_FAMILIES))


def family_of(config: ConfigFile) -> str:
    """The architecture, from `model_type` and from `architectures`."""
    written = config.data.get("model_type")
    names = architectures(config)
    classes = {_BY_CLASS[match[1]] for match in map(_CLASS.match, names) if match}
    if written is None and len(classes) == 1:
        return classes.pop()
    known = ", ".join(known_families())
    if written is None:
        what = f"nothing known says which model this is: {_or_nothing(names)}"
        raise SpecError([Problem(config.name, "", what, f'add `"model_type"`, one of: {known}')])
    where = config.where("model_type")
    if not isinstance(written, str):
        what = f"needs text, not {shown(written)}"
        raise SpecError([Problem(where, "model_type", what, f"write one of: {known}")])
    if written not in known_families():
        do = f"import one of these: {known}; or start from `scenarios/template.yaml`"
        raise SpecError([Problem(where, "model_type", f"{printable(shown(written))} models are not known", do)])
    if classes and written not in classes:
        what = f"model_type is `{written}`, architectures has `{printable(names[0])}`"
        raise SpecError([Problem(where, "model_type", what, "correct one of the two")])
    return written


def _or_nothing(names: list[str]) -> str:
    if not names:
        return "`model_type` is missing"
    return f"`model_type` is missing, and architectures has {printable(shown(names[0]))}"


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


def _is(value: Any, needed: str) -> bool:
    if needed == _OBJECT:
        return isinstance(value, dict)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _is_plain(value: Any) -> bool:
    """True for rotary positions as they were published first."""
    return isinstance(value, dict) and value.get("rope_type", value.get("type")) == _PLAIN_ROPE
