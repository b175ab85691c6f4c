"""Which decoder stands for the model that a row prints."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuscope.program.models import find
from gpuscope.program.models.parallel.published import PUBLISHED, published_model
from gpuscope.program.models.parallel.size import TransformerSize
from published.rows import Row
from published.stacks import Stack

_DRESSING = re.compile(
    r"\s*\(.*\)$|^(meta-llama|meta|nvidia|google|openai|hf)[-_/ ]"
    r"|[-_ ](maxtext|instruct|base|hf|pre-?training|lora)$",
    re.I,
)
"""What surrounds a name: a remark in parentheses, whose model it is, what is done with it."""

_SPELLINGS: tuple[tuple[str, str], ...] = (
    # Llama 3 and 3.1 have one shape; 3.3 has it, too. 3.2 is a family of its own.
    (r"llama3(?:\.[013])?-?(8|70|405)b", "llama-3.1-{}b"),
    (r"llama2-?(7|13|34|70)b", "llama-2-{}b"),
    (r"mixtral-?8x(7|22)b", "mixtral-8x{}b"),
    (r"mistral-?7b", "mistral-7b"),
    (r"deepseek-?v?(2|3)", "deepseek-v{}"),
    (r"deepseek-?r1", "deepseek-v3"),
    (r"kimi-?k2", "kimi-k2"),
    (r"gpt-?3-?(5|20|175)b", "gpt-3-{}b"),
    (r"turing-?530b", "gpt-530b"),
    # NeMo's first 8 billion are Nemotron-3; its larger ones are Nemotron-4.
    (r"nemotron-?8b", "nemotron-3-8b"),
    (r"nemotron-?4?-?(15|340)b", "nemotron-4-{}b"),
    (r"nemotron-?3-?nano", "nemotron-3-nano-30b-a3b"),
    (r"nemotron-?h-?(8|47|56)b", "nemotron-h-{}b"),
)
"""Ways to write a name, all of it, and what the catalogue calls it; others by the same letters."""

_CUT = re.compile(r"(.+) truncated to (\d+) layers")

_SCALE = {"M": 1e6, "B": 1e9, "T": 1e12}
_MOST_OFF = 0.1
"""Further from what a row prints ("8B" is 8.03 or 7.6 billion) it is another model."""

_SCALED = re.compile(r"MaxText (16|32|64|128|256|512|1024)B(?: model)?")
"""Decoders of MaxText's own tables, named by their scale."""

_MAXTEXT = TransformerSize(
    layers=16,
    hidden=2560,
    heads=8,
    kv_heads=8,
    head=256,
    ffn=8192,
    vocabulary=32768,
    context=2048,
    gated=False,
    activation="relu",
    tied=True,
)
"""MaxText/configs/base.yml of December 2023 (commit 76bd53b0f), when the tables of v4, v5e and v5p
were written; they have not changed since."""

_MAXTEXT_NAMED = {
    "MaxText 22B model": replace(
        _MAXTEXT, layers=48, hidden=6144, heads=24, kv_heads=24, ffn=24576
    ),
    "MaxText 52B model": replace(
        _MAXTEXT, layers=32, hidden=12288, heads=32, kv_heads=32, ffn=49152
    ),
}
"""MaxText/configs/v4/22b.sh and 52b.sh, the same commit."""


def size_of(row: Row, stack: Stack | None = None) -> TransformerSize | None:
    """The decoder; None where its numbers are not known.

    Raises:
        ValueError: it has another number of parameters than the row prints.
    """
    size = _size(row)
    if size is None:
        return None
    if stack is not None and size.experts is not None and "dense_layers" in stack.model:
        experts = replace(size.experts, dense_layers=int(stack.model["dense_layers"]))
        size = replace(size, experts=experts)
    asked = printed_parameters(row)
    if asked is not None and abs(size.parameters / asked - 1) > _MOST_OFF:
        here = f"{size.parameters / 1e9:.1f}B"
        raise ValueError(
            f"{row.model} has {here} parameters here, where the row prints {row.params}"
        )
    return size


def printed_parameters(row: Row) -> float | None:
    """Parameters as a row prints them ("529.6B"); None where it prints none."""
    found = re.fullmatch(r"([\d.]+)\s*([MBT])", row.params or "", re.I)
    return None if found is None else float(found[1]) * _SCALE[found[2].upper()]


def name_of(model: str) -> str:
    """What the catalogue of models would call what a row prints: case, separators and words around
    the name do not matter."""
    before, bare = "", model.strip()
    while before != bare:
        before, bare = bare, _DRESSING.sub("", bare).strip()
    bare = re.sub(r"[\s_/-]+", "-", bare).lower()
    bare = re.sub(r"^llama-", "llama", bare)
    for spelling, name in _SPELLINGS:
        found = re.fullmatch(spelling, bare)
        if found is not None:
            return name.format(*found.groups())
    return bare.replace("llama", "llama-", 1) if bare.startswith("llama") else bare


def _size(row: Row) -> TransformerSize | None:
    if row.shape is not None:
        return _shaped(row)
    scaled = _SCALED.fullmatch(row.model)
    if scaled is not None:
        return scaled_size(int(scaled[1]))
    if row.model in _MAXTEXT_NAMED:
        return _MAXTEXT_NAMED[row.model]
    if row.model.startswith("MPT-"):
        known = PUBLISHED.get(row.model.lower())
        return None if known is None else replace(known, context=row.seq or 2048)
    cut = _CUT.fullmatch(row.model)
    if cut is not None:
        whole = _named(name_of(cut[1]))
        return None if whole is None else whole.deep(int(cut[2]))
    named = _named(name_of(row.model))
    return named if named is not None else _by_parameters(row)


def scaled_size(scale: int) -> TransformerSize:
    """The decoder of a scale, a power of two.

    `global_parameter_scale` multiplies the sizes of configs/base.yml by powers of two
    (`get_individual_scales` in MaxText/pyconfig.py).
    """
    whole, rest = divmod(scale.bit_length() - 1, 3)
    wide, deep, long = 2 ** (whole + (rest > 0)), 2**whole, 2 ** (whole + (rest > 1))
    base = _MAXTEXT
    return replace(
        base,
        layers=base.layers * deep,
        hidden=base.hidden * long,
        heads=base.heads * wide,
        kv_heads=base.kv_heads * wide,
        ffn=base.ffn * wide,
    )


def _shaped(row: Row) -> TransformerSize:
    """A GPT of the sizes that a row prints; a published one where they are its."""
    assert row.shape is not None
    layers, hidden, heads, words = row.shape
    for known in PUBLISHED.values():
        if (known.layers, known.hidden, known.heads, known.vocabulary) == row.shape:
            return known
    return replace(
        PUBLISHED["gpt-3-175b"],
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head=hidden // heads,
        ffn=4 * hidden,
        vocabulary=words,
        context=row.seq or 2048,
        tied=False,
    )


def _by_parameters(row: Row) -> TransformerSize | None:
    """The GPT of a number of parameters, printed to four digits ("529.6B")."""
    asked = printed_parameters(row)
    if asked is None or not row.model.startswith("GPT"):
        return None
    gpts = [size for name, size in PUBLISHED.items() if name.startswith("gpt-")]
    nearest = min(gpts, key=lambda size: abs(size.parameters - asked))
    return nearest if abs(nearest.parameters / asked - 1) < 0.01 else None


def _named(name: str) -> TransformerSize | None:
    published = published_model(name)
    if published is not None and published.size is not None:
        return published.size()
    try:
        model = find(name)
    except Exception:
        return None
    return model.size() if model.size is not None else None
