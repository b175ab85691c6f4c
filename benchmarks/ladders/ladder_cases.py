"""The cases of the ladders: what each is, and how much work one step does."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CASES", "Case"]


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        name: of its scripts, naive/NAME.py and expert/NAME.py.
        en, zh: what it is.
        unit_en, unit_zh: what is counted.
        per_step: so many of them a step, on all devices together.
        expert: name of the script that it is held against; a case that is good already is held
            against itself.
    """

    name: str
    en: str
    zh: str
    unit_en: str
    unit_zh: str
    per_step: int
    expert: str = ""

    @property
    def by_hand(self) -> str:
        """The script that an expert wrote, as `measured.jsonl` names it."""
        return self.expert or f"expert/{self.name}"


_IMAGES, _TOKENS, _SEQUENCES = ("images", "图像"), ("tokens", "词元"), ("sequences", "序列")

CASES = (
    Case("resnet50", "ResNet-50 training, batch 64", "ResNet-50 训练，批大小 64", *_IMAGES, 64),
    Case("vit_b16", "ViT-B/16 training, batch 64", "ViT-B/16 训练，批大小 64", *_IMAGES, 64),
    Case("gpt2", "GPT-2 small training, 8 × 1024", "GPT-2 small 训练，8 × 1024", *_TOKENS, 8192),
    Case(
        "llama_decode", "Llama-3.1-8B decode, batch 1", "Llama-3.1-8B 解码，批大小 1", *_TOKENS, 1
    ),
    Case(
        "bert_large",
        "BERT-large training, bf16, 32 × 512",
        "BERT-large 训练，bf16，32 × 512",
        *_SEQUENCES,
        32,
    ),
    Case("lstm", "LSTM language model, 64 × 128", "LSTM 语言模型，64 × 128", *_TOKENS, 8192),
    Case("dlrm", "DLRM training, batch 4096", "DLRM 训练，批大小 4096", "samples", "样本", 4096),
    Case("t5", "T5-base training, 16 × 512", "T5-base 训练，16 × 512", *_SEQUENCES, 16),
    Case(
        "experts",
        "small mixture of experts, 8 × 1024",
        "小型混合专家模型，8 × 1024",
        *_TOKENS,
        8192,
    ),
    Case(
        "input_bound",
        "waits for its data loader, batch 64",
        "等待数据加载，批大小 64",
        *_IMAGES,
        64,
    ),
    Case(
        "already_good",
        "GPT-2 small, good already",
        "已经调好的 GPT-2 small",
        *_TOKENS,
        8192,
        expert="naive/already_good",
    ),
    Case("ddp_gpt2", "GPT-2 small, DDP on 2 GPUs", "GPT-2 small，2 卡 DDP", *_TOKENS, 16384),
)
