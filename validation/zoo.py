"""The workloads that predictions are held against: whole models, none of them calibrated on.

Each entry is a name, the target of `gpuscope predict`, and its options. `file.py:build` entries
are scripts as users write them (full of habits that cost time). Fixed: rows are added, never
removed or changed because they predict badly.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """One workload.

    Attributes:
        name: row name.
        target: built-in model name or `file.py:function` below `validation/workloads`.
        options: `WorkloadOptions` fields.
        group: vision, language, recommender, recurrent, diffusion, speech.
        graphs: a script that compiles or records CUDA graphs itself ("compiled", "graphed").
    """

    name: str
    target: str
    options: dict[str, object] = field(default_factory=dict)
    group: str = "language"
    graphs: str = ""

    @property
    def compiled(self) -> bool:
        """Whether the workload runs under torch.compile."""
        return bool(self.options.get("compile")) or self.graphs == "compiled"

    @property
    def task(self) -> str:
        """train, prefill, decode or inference; scripts train unless they say otherwise."""
        return str(self.options.get("task") or SCRIPT_TASKS.get(self.name, "train"))


SCRIPT_TASKS = {"llama-8b-decode-static": "decode", "unet-channels-last": "inference"}
"""What scripts do that do not train."""


def _e(
    name: str, target: str, group: str = "language", graphs: str = "", **options: object
) -> Entry:
    return Entry(name, target, options, group, graphs)


ZOO: tuple[Entry, ...] = (
    _e("gpt2-train-b8", "gpt2", task="train", batch=8, seq=1024, dtype="bfloat16", amp=True),
    _e("gpt2-train-fp32", "gpt2", task="train", batch=4, seq=512, dtype="float32"),
    _e("gpt2-train-tiny", "gpt2", task="train", batch=1, seq=64, dtype="bfloat16", amp=True),
    _e("gpt2-xl-train", "gpt2-xl", task="train", batch=4, seq=1024, dtype="bfloat16", amp=True),
    _e("bert-base-train", "bert-base", task="train", batch=32, seq=128, dtype="bfloat16", amp=True),
    _e("bert-large-train", "bert-large", task="train", batch=32, seq=512, dtype="bfloat16"),
    _e("t5-base-train", "t5-base", task="train", batch=8, seq=512, dtype="bfloat16"),
    _e("llama-1b-train", "llama-3.2-1b", task="train", batch=4, seq=2048, dtype="bfloat16"),
    _e(
        "llama-8b-train",
        "llama-3.1-8b",
        task="train",
        batch=1,
        seq=4096,
        dtype="bfloat16",
        optimizer="adamw-fused",
    ),
    _e(
        "llama-1b-ckpt",
        "llama-3.2-1b",
        task="train",
        batch=8,
        seq=2048,
        dtype="bfloat16",
        checkpointing=True,
    ),
    _e("llama-8b-prefill", "llama-3.1-8b", task="prefill", batch=1, seq=2048, dtype="bfloat16"),
    _e("llama-8b-prefill-odd", "llama-3.1-8b", task="prefill", batch=3, seq=777, dtype="bfloat16"),
    _e(
        "llama-8b-decode-b1", "llama-3.1-8b", task="decode", batch=1, context=1024, dtype="bfloat16"
    ),
    _e(
        "llama-8b-decode-b64",
        "llama-3.1-8b",
        task="decode",
        batch=64,
        context=2048,
        dtype="bfloat16",
    ),
    _e("gpt2-decode-b1", "gpt2", task="decode", batch=1, context=512, dtype="bfloat16"),
    _e("qwen3-8b-prefill", "qwen3-8b", task="prefill", batch=1, seq=8192, dtype="bfloat16"),
    _e(
        "qwen3-moe-prefill",
        "qwen3-30b-a3b",
        task="prefill",
        batch=1,
        seq=2048,
        dtype="bfloat16",
        layers=12,
    ),
    _e(
        "mixtral-train", "mixtral-8x7b", task="train", batch=1, seq=2048, dtype="bfloat16", layers=2
    ),
    _e("resnet50-train-fp32", "resnet50", "vision", task="train", batch=64, dtype="float32"),
    _e(
        "resnet50-train-amp",
        "resnet50",
        "vision",
        task="train",
        batch=128,
        dtype="bfloat16",
        amp=True,
    ),
    _e("resnet18-train-b1", "resnet18", "vision", task="train", batch=1, dtype="float32"),
    _e("resnet50-infer", "resnet50", "vision", task="inference", batch=256, dtype="float16"),
    _e("vit-b-train", "vit-b-16", "vision", task="train", batch=64, dtype="bfloat16", amp=True),
    _e("vit-l-infer", "vit-l-16", "vision", task="inference", batch=32, dtype="bfloat16"),
    _e(
        "convnext-train",
        "convnext-tiny",
        "vision",
        task="train",
        batch=64,
        dtype="bfloat16",
        amp=True,
    ),
    _e("swin-train", "swin-t", "vision", task="train", batch=64, dtype="bfloat16", amp=True),
    _e("unet-train", "sd15-unet", "diffusion", task="train", batch=4, dtype="bfloat16", amp=True),
    _e("unet-infer", "sd15-unet", "diffusion", task="inference", batch=2, dtype="float16"),
    _e("dit-train", "dit-xl-2", "diffusion", task="train", batch=16, dtype="bfloat16", amp=True),
    _e("whisper-train", "whisper-small", "speech", task="train", batch=8, dtype="bfloat16"),
    _e("lstm-train", "lstm", "recurrent", task="train", batch=64, seq=128, dtype="float32"),
    _e("dlrm-train", "dlrm", "recommender", task="train", batch=2048, dtype="float32"),
    _e("user-gpt2-naive", "gpt2_naive.py:build"),
    _e("user-resnet-input", "resnet_input.py:build", "vision"),
    _e("user-mlp-small", "mlp_small.py:build", "other"),
    _e("user-encoder", "encoder.py:build"),
    # From here on: measured once, after every constant was fixed.
    _e(
        "gpt2-medium-train",
        "gpt2-medium",
        task="train",
        batch=4,
        seq=1024,
        dtype="bfloat16",
        amp=True,
    ),
    _e("bert-large-train-fp32", "bert-large", task="train", batch=8, seq=128, dtype="float32"),
    _e("t5-large-train", "t5-large", task="train", batch=4, seq=512, dtype="bfloat16", amp=True),
    _e(
        "llama-3b-train",
        "llama-3.2-3b",
        task="train",
        batch=1,
        seq=2048,
        dtype="bfloat16",
        optimizer="adamw-fused",
    ),
    _e("qwen2.5-0.5b-train", "qwen2.5-0.5b", task="train", batch=4, seq=1024, dtype="bfloat16"),
    _e("mistral-decode-b8", "mistral-7b", task="decode", batch=8, context=4096, dtype="bfloat16"),
    _e("gemma-2-prefill", "gemma-2-2b", task="prefill", batch=2, seq=2048, dtype="bfloat16"),
    _e("phi-3-prefill", "phi-3-mini", task="prefill", batch=4, seq=1024, dtype="bfloat16"),
    _e("qwen3-0.6b-decode", "qwen3-0.6b", task="decode", batch=1, context=2048, dtype="bfloat16"),
    _e(
        "resnet101-train", "resnet101", "vision", task="train", batch=64, dtype="bfloat16", amp=True
    ),
    _e("resnet34-train", "resnet34", "vision", task="train", batch=128, dtype="float32"),
    _e("vit-l-train", "vit-l-16", "vision", task="train", batch=32, dtype="bfloat16", amp=True),
    _e("swin-s-infer", "swin-s", "vision", task="inference", batch=64, dtype="float16"),
    _e("convnext-b-infer", "convnext-base", "vision", task="inference", batch=64, dtype="bfloat16"),
    _e("whisper-base-train", "whisper-base", "speech", task="train", batch=16, dtype="bfloat16"),
    _e("lstm-small-batch", "lstm", "recurrent", task="train", batch=16, seq=64, dtype="float32"),
    _e("dlrm-large-batch", "dlrm", "recommender", task="train", batch=16384, dtype="float32"),
    _e("gpt2-odd", "gpt2", task="train", batch=3, seq=777, dtype="bfloat16", amp=True),
    _e(
        "gpt2-compiled",
        "gpt2",
        task="train",
        batch=8,
        seq=1024,
        dtype="bfloat16",
        amp=True,
        compile="default",
    ),
    _e(
        "resnet50-compiled",
        "resnet50",
        "vision",
        task="train",
        batch=64,
        dtype="bfloat16",
        amp=True,
        compile="default",
    ),
    _e(
        "bert-base-compiled",
        "bert-base",
        task="train",
        batch=32,
        seq=512,
        dtype="bfloat16",
        amp=True,
        compile="default",
    ),
    # From here on: chosen on 2026-11-21 before any of them was measured; measured once.
    _e("t5-small-odd", "t5-small", task="train", batch=3, seq=777, dtype="bfloat16"),
    _e("llama-1b-long", "llama-3.2-1b", task="train", batch=1, seq=16384, dtype="bfloat16"),
    _e("olmoe-train", "experts.py:build"),
    _e("resnet50-first-benchmark", "channels_last.py:resnet_first", "vision"),
    _e("resnet50-last-benchmark", "channels_last.py:resnet_last", "vision"),
    _e("unet-channels-last", "channels_last.py:unet_last", "diffusion"),
    _e("gpt2-fp16-scaler", "gpt2", task="train", batch=12, seq=512, dtype="float16", amp=True),
    _e(
        "bert-large-ckpt",
        "bert-large",
        task="train",
        batch=24,
        seq=384,
        dtype="bfloat16",
        amp=True,
        checkpointing=True,
    ),
    _e("dlrm-multi-hot", "dlrm_multi_hot.py:build", "recommender"),
    _e("gru-train", "recurrent.py:gru", "recurrent"),
    _e("bilstm-train", "recurrent.py:bilstm", "recurrent"),
    _e("rnn-train", "recurrent.py:rnn", "recurrent"),
    _e("vit-h-train", "transformers_of_images.py:vit_h", "vision"),
    _e("dit-s-train", "transformers_of_images.py:dit_s", "diffusion"),
    _e("bert-base-tiny", "bert-base", task="train", batch=1, seq=64, dtype="bfloat16", amp=True),
    _e("llama-1b-tiny", "llama-3.2-1b", task="train", batch=1, seq=64, dtype="bfloat16"),
    _e("vit-b-tiny", "vit-b-16", "vision", task="train", batch=1, dtype="bfloat16", amp=True),
    _e("gemma-3-1b-prefill", "gemma-3-1b", task="prefill", batch=4, seq=1536, dtype="bfloat16"),
    _e(
        "qwen3-moe-decode",
        "qwen3-30b-a3b",
        task="decode",
        batch=16,
        context=1024,
        dtype="bfloat16",
        layers=16,
    ),
    _e(
        "llama-3b-decode-b32",
        "llama-3.2-3b",
        task="decode",
        batch=32,
        context=4096,
        dtype="bfloat16",
    ),
    _e("graphed-encoder", "graphs.py:graphed_callable", graphs="graphed"),
    _e(
        "gpt2-medium-compiled",
        "gpt2-medium",
        task="train",
        batch=4,
        seq=1024,
        dtype="bfloat16",
        amp=True,
        compile="default",
    ),
    _e(
        "vit-b-compiled",
        "vit-b-16",
        "vision",
        task="train",
        batch=64,
        dtype="bfloat16",
        amp=True,
        compile="default",
    ),
    _e(
        "llama-1b-compiled",
        "llama-3.2-1b",
        task="train",
        batch=4,
        seq=2048,
        dtype="bfloat16",
        compile="default",
    ),
    _e(
        "bert-large-compiled",
        "bert-large",
        task="train",
        batch=16,
        seq=512,
        dtype="bfloat16",
        amp=True,
        compile="default",
    ),
    _e(
        "convnext-compiled",
        "convnext-tiny",
        "vision",
        task="train",
        batch=64,
        dtype="bfloat16",
        amp=True,
        compile="default",
    ),
    _e(
        "t5-base-compiled",
        "t5-base",
        task="train",
        batch=8,
        seq=512,
        dtype="bfloat16",
        compile="default",
    ),
    _e(
        "resnet50-fp32-compiled",
        "resnet50",
        "vision",
        task="train",
        batch=64,
        dtype="float32",
        compile="default",
    ),
    _e(
        "resnet50-graphs",
        "resnet50",
        "vision",
        task="train",
        batch=64,
        dtype="bfloat16",
        amp=True,
        compile="reduce-overhead",
    ),
    _e(
        "swin-compiled",
        "swin-t",
        "vision",
        task="train",
        batch=64,
        dtype="bfloat16",
        amp=True,
        compile="default",
    ),
    _e(
        "whisper-compiled",
        "whisper-small",
        "speech",
        task="train",
        batch=8,
        dtype="bfloat16",
        compile="default",
    ),
    _e(
        "gpt2-decode-graphs",
        "gpt2",
        task="decode",
        batch=1,
        context=512,
        dtype="bfloat16",
        compile="reduce-overhead",
    ),
    _e(
        "llama-1b-prefill-graphs",
        "llama-3.2-1b",
        task="prefill",
        batch=2,
        seq=1024,
        dtype="bfloat16",
        compile="reduce-overhead",
    ),
    _e("llama-8b-decode-static", "graphs.py:llama_8b_static", graphs="compiled"),
)


def _from(name: str) -> int:
    return next(i for i, e in enumerate(ZOO) if e.name == name)


NEWEST: frozenset[str] = frozenset(e.name for e in ZOO[_from("t5-small-odd") :])
"""Rows that were chosen, and then measured once, after models and constants were made."""

FRESH: frozenset[str] = frozenset(e.name for e in ZOO[_from("gpt2-medium-train") :])
"""Rows that were measured after every constant was fixed."""
