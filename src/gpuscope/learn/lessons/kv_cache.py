"""Lesson: the key-value cache, and why decoding is limited by memory."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.explain.numbers import seconds, size, three
from gpuscope.explain.types import (
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
    Words,
)
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
    Words("The KV cache", "KV 缓存"),
    Words(
        "Why does generating one token cost almost as much as generating thirty-two at once?",
        "为什么一次生成一个词元，与一次生成三十二个的代价差不多？",
    ),
)
def kv_cache() -> Explanation:
    """Make the lesson."""
    h200 = device("h200")
    token = SHOWN.bytes_per_token(2)
    weights_s = SHOWN.parameters * 2 / h200.memory_bandwidth_bytes_per_s
    equal = SHOWN.parameters * 2 / token
    return Explanation(
        topic="lesson",
        title=Words("The KV cache", "KV 缓存"),
        summary=(
            Words(
                "To make the next token, attention needs the keys and values of all tokens before. "
                "They are kept: 2 x layers x heads x width numbers a token, "
                f"{size(token)} for {SHOWN.name} in BF16.",
                "生成下一个词元时，注意力需要之前所有词元的键和值。它们被保存下来：每个词元 "
                f"2 × 层数 × 头数 × 宽度个数，{SHOWN.name} 以 BF16 存放为 {size(token)}。",
            ),
            Words(
                "Each step reads all weights and the whole cache once. At the memory's rate the "
                f"weights alone take {seconds(weights_s)} on an H200; a batch shares that, so the "
                "tokens of a batch come almost for free.",
                "每一步都要把全部权重和整个缓存读一遍。以显存速率计，H200 上仅权重就需 "
                f"{seconds(weights_s)}；"
                "一个批共享这次读取，因此批内的其他词元几乎免费。",
            ),
            Words(
                f"The cache weighs as much as the weights at {three(equal / 1e3)} thousand "
                "tokens, over "
                "all sequences together. Fewer key-value heads, or 8-bit ones, move that "
                "further out.",
                f"所有序列合计约 {three(equal / 1e3)} 千个词元时，缓存与权重一样大。"
                "减少键值头或使用 8 位可以推迟这一点。",
            ),
        ),
        sections=(
            Section(Words("How large it is", "有多大"), (_table(), _curve())),
            Section(Words("Try it", "动手试试"), (_explorer(),)),
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
            Words(
                "The least time is bytes over the datasheet's bandwidth; arithmetic, launches "
                "and the "
                "host come on top. `gpuscope predict` counts those, too.",
                "最短用时为字节数除以规格书带宽；运算、启动和主机开销另计。`gpuscope predict` "
                "会一并计入。",
            ),
        ),
    )


def _table() -> Table:
    context = 8192
    return Table(
        title=Words("Bytes of the cache, BF16", "缓存的字节数，BF16"),
        columns=(
            Column(Words("model", "模型")),
            Column(Words("weights", "权重"), "bytes"),
            Column(Words("layers", "层数")),
            Column(Words("key-value heads", "键值头数")),
            Column(Words("a token", "每个词元"), "bytes"),
            Column(Words("8,192 tokens", "8,192 个词元"), "bytes"),
        ),
        rows=tuple(
            (
                d.name, d.parameters * 2, d.layers, d.kv_heads, d.bytes_per_token(2),
                d.bytes_per_token(2) * context,
            )
            for d in DECODERS
        ),
        note=Words(
            "Grouped heads (8 instead of 32) make the cache a quarter.",
            "分组的头（8 个而非 32 个）使缓存变为四分之一。",
        ),
    )  # fmt: skip


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
        series.append(Series(Words(f"batch {batch}", f"批大小 {batch}"), xs, ys))
    return Lines(
        title=Words(
            f"Least time of a step, {SHOWN.name} on an H200",
            f"一步的最短用时，H200 上的 {SHOWN.name}",
        ),
        x=Axis(Words("tokens in each sequence", "每个序列的词元数"), "", True),
        y=Axis(Words("time", "用时"), "s"),
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
        title=Words("Batch, context and the cache", "批、上下文与缓存"),
        sliders=(
            Slider("model", Words("model", "模型"), names, "", 1),
            Slider("device", Words("device", "设备"), devices),
            Slider("item", Words("cache", "缓存"), ("BF16", "FP8")),
            Slider("batch", Words("sequences", "序列数"), batches, "", 3),
            Slider("context", Words("tokens in each", "每个序列的词元数"), contexts, "", 3),
        ),
        outputs=(
            Output("cache", Words("cache", "缓存"), "bytes", tuple(caches), role="memory"),
            Output(
                "time", Words("least time per token", "每个词元的最短用时"), "s", tuple(times),
                plotted=False,
            ),
            Output("fits", Words("fits", "单设备放得下"), "", tuple(fits), plotted=False),
        ),
        x="context",
        log_x=True,
        log_y=True,
        reading=Words(
            "{batch} sequences of {context} tokens: the cache holds {cache}; at least {time} a "
            "token.",
            "{batch} 个序列、每个 {context} 个词元：缓存占 {cache}；每个词元至少 {time}。",
        ),
    )  # fmt: skip


def _fits(yes: bool) -> Words:
    return Words("yes", "是") if yes else Words("no", "否")
