"""Lesson: the key-value cache, and why decoding is limited by memory."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.blocks import (
    Axis,
    Column,
    Explanation,
    Explorer,
    Lines,
    Output,
    Section,
    Series,
    Slider,
    Table,
)
from gpuscope.document.quantities import Bytes, Number, Seconds
from gpuscope.document.text import Text
from gpuscope.hardware import device
from gpuscope.learn.lessons.registry import lesson


@dataclass(frozen=True, slots=True)
class Decoder:
    """Published sizes of a language model, as its configuration file states them.

    Attributes:
        name: of the model.
        parameters: all of them.
        layers: blocks.
        kv_heads, head_dim: of keys and values.
    """

    name: str
    parameters: float
    layers: int
    kv_heads: int
    head_dim: int

    def bytes_per_token(self, item_bytes: float) -> float:
        """Keys and values of one token in all layers: 2 x layers x heads x width x size."""
        return 2 * self.layers * self.kv_heads * self.head_dim * item_bytes


DECODERS: tuple[Decoder, ...] = (
    Decoder("Llama-2-7B", 6.74e9, 32, 32, 128),
    Decoder("Llama-3.1-8B", 8.03e9, 32, 8, 128),
    Decoder("Qwen2.5-32B", 32.8e9, 64, 8, 128),
    Decoder("Llama-3.1-70B", 70.6e9, 80, 8, 128),
)
"""Hugging Face configurations of the models: num_hidden_layers, num_key_value_heads, head_dim."""

SHOWN = DECODERS[1]


@lesson(
    "kv-cache",
    11,
    Text("The KV cache"),
    Text("Why does generating one token cost almost as much as generating thirty-two at once?"),
)
def kv_cache() -> Explanation:
    """Make the lesson."""
    h200 = device("h200")
    token = SHOWN.bytes_per_token(2)
    weights_s = SHOWN.parameters * 2 / h200.memory_bandwidth_bytes_per_s
    equal = SHOWN.parameters * 2 / token
    return Explanation(
        topic="lesson",
        title=Text("The KV cache"),
        summary=(
            Text(
                "To make the next token, attention needs the keys and values of all tokens before. "
                "They are kept: 2 x layers x heads x width numbers a token, {token} for {shown} "
                "in BF16.",
                token=Bytes(token),
                shown=SHOWN.name,
            ),
            Text(
                "Each step reads all weights and the whole cache once. At the memory's rate the "
                "weights alone take {weights} on an H200; a batch shares that, so the tokens of a "
                "batch come almost for free.",
                weights=Seconds(weights_s),
            ),
            Text(
                "The cache weighs as much as the weights at {equal} thousand tokens, over all "
                "sequences together. Fewer key-value heads, or 8-bit ones, move that further out.",
                equal=Number(equal / 1e3),
            ),
        ),
        sections=(
            Section(Text("How large it is"), (_table(), _curve())),
            Section(Text("Try it"), (_explorer(),)),
        ),
        commands=(
            "gpuscope predict llama-3.1-8b --task decode --batch 1 --context 4096 --on h200",
            "gpuscope explain memory llama-3.1-8b --task decode --batch 32 --context 8192 --on "
            "h200",
        ),
        sources=(
            "R. Pope et al., Efficiently Scaling Transformer Inference, MLSys 2023",
            "J. Ainslie et al., GQA: Training Generalized Multi-Query Transformer Models, 2023",
            "The models' published configuration files",
        ),
        assumptions=(
            Text(
                "The least time is bytes over the datasheet's bandwidth; arithmetic, launches and "
                "the host come on top. `gpuscope predict` counts those, too."
            ),
        ),
    )


def _table() -> Table:
    context = 8192
    return Table(
        title=Text("Bytes of the cache, BF16"),
        columns=(
            Column(Text("model")),
            Column(Text("weights"), "bytes"),
            Column(Text("layers")),
            Column(Text("key-value heads")),
            Column(Text("a token"), "bytes"),
            Column(Text("8,192 tokens"), "bytes"),
        ),
        rows=tuple(
            (
                d.name,
                d.parameters * 2,
                d.layers,
                d.kv_heads,
                d.bytes_per_token(2),
                d.bytes_per_token(2) * context,
            )
            for d in DECODERS
        ),
        note=Text("Grouped heads (8 instead of 32) make the cache a quarter."),
    )


def _curve() -> Lines:
    h200 = device("h200")
    xs = tuple(float(2**k) for k in range(10, 18))
    series = []
    for batch in (1, 8, 32):
        ys = tuple(
            (SHOWN.parameters * 2 + batch * x * SHOWN.bytes_per_token(2))
            / h200.memory_bandwidth_bytes_per_s
            for x in xs
        )
        series.append(Series(Text("batch {batch}", batch=batch), xs, ys))
    return Lines(
        title=Text("Least time of a step, {shown} on an H200", shown=SHOWN.name),
        x=Axis(Text("tokens in each sequence"), "", True),
        y=Axis(Text("time"), "s"),
        series=tuple(series),
    )


def _explorer() -> Explorer:
    names = tuple(d.name for d in DECODERS)
    devices = ("h200", "h100", "a100", "l40s", "rtx-4090", "mi300x", "b200")
    batches = tuple(float(2**k) for k in range(8))
    contexts = tuple(float(2**k) for k in range(9, 18))
    caches, times, fits = [], [], []
    for decoder in DECODERS:
        for name in devices:
            found = device(name)
            for item in (2.0, 1.0):
                for batch in batches:
                    for context in contexts:
                        cache = batch * context * decoder.bytes_per_token(item)
                        total = cache + decoder.parameters * 2
                        caches.append(cache)
                        times.append(total / found.memory_bandwidth_bytes_per_s / batch)
                        fits.append(_fits(total <= found.memory_usable_bytes))
    return Explorer(
        title=Text("Batch, context and the cache"),
        sliders=(
            Slider("model", Text("model"), names, "", 1),
            Slider("device", Text("device"), devices),
            Slider("item", Text("cache"), ("BF16", "FP8")),
            Slider("batch", Text("sequences"), batches, "", 3),
            Slider("context", Text("tokens in each"), contexts, "", 3),
        ),
        outputs=(
            Output("cache", Text("cache"), "bytes", tuple(caches), role="memory"),
            Output("time", Text("least time per token"), "s", tuple(times), plotted=False),
            Output("fits", Text("fits"), "", tuple(fits), plotted=False),
        ),
        x="context",
        log_x=True,
        log_y=True,
        reading=Text(
            "{batch} sequences of {context} tokens: the cache holds {cache}; at least {time} a "
            "token."
        ),
    )


def _fits(yes: bool) -> Text:
    return Text("yes") if yes else Text("no")
