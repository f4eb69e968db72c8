"""Architectures of Hugging Face Transformers: which one a file describes, and who reads it.

Source: [hf_transformers] for names and defaults.
"""

from __future__ import annotations

import re

from podsim.errors import Problem, SpecError
from podsim.importer import encoder_config, gpt_config, llama_config, t5_config
from podsim.importer.config_file import ConfigFile, printable
from podsim.importer.imported import Imported, architectures
from podsim.importer.left_out import note_left_out
from podsim.importer.reader import Reader
from podsim.specs.wording import shown

_FAMILIES = llama_config.FAMILIES | gpt_config.FAMILIES | encoder_config.FAMILIES | t5_config.FAMILIES
_BY_CLASS = {each.class_name: name for name, each in _FAMILIES.items()}
_CLASS = re.compile(rf"({'|'.join(_BY_CLASS)})(?:For|Model|LMHead|DoubleHeads|Encoder)")


def imported(config: ConfigFile) -> Imported:
    """The model that a file describes.

    Raises:
        SpecError: The architecture is not known, or dimensions are wrong or contradict one another.
    """
    family = family_of(config)
    reader = Reader(config, family)
    if family != "t5":
        _refuse_encoder_decoder(reader)
    note_left_out(reader)
    result = _FAMILIES[family].read(reader)
    reader.check()
    return result


def known_families() -> tuple[str, ...]:
    """Architectures that can be imported."""
    return tuple(sorted(_FAMILIES))


def family_of(config: ConfigFile) -> str:
    """The architecture, from `model_type` and from `architectures`.

    Raises:
        SpecError: There is none, it is not known, or the two contradict one another.
    """
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


def _refuse_encoder_decoder(reader: Reader) -> None:
    for name in ("is_encoder_decoder", "add_cross_attention"):
        if reader.config.data.get(name) is True:
            reader.complain(name, "decoders that read an encoder are not modelled", "import another model")
