"""The section of docs/plan-accuracy.md on fine-tuning: what `tuning_memory.py` predicted, measured.

Reads `results/tuning_memory.json` (predicted and committed before any was run),
`tuning_memory_h100.jsonl` (measured), `tuning_memory_eager.json` (Gemma 2 with the attention
that was measured) and `plan_today.json` (all by today's code, with that attention).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plan_today import today

RESULTS = Path(__file__).resolve().parent / "results"
GIB, MIB = 2**30, 2**20

TEXT: dict[str, dict[str, Any]] = {
    "en": {
        "title": "## Fine-tuning on an H100",
        "intro": (
            "{count} steps of six models in full, with LoRA and with QLoRA were predicted and "
            "committed before any was run (`validation/tuning_memory.py`). Measured with PyTorch "
            "2.11, transformers' models with random weights, `peft` 0.21.2 and `bitsandbytes` "
            "0.50.2 themselves, of which nothing is in the prediction. {ran} of {count} ran. Nothing "
            "was tuned on them."
        ),
        "totals": "| what | target | result |",
        "peak": "peak memory: mean error, worst",
        "same": "… Gemma 2 with the attention that was measured",
        "step": "step as said before: median error, inside its 80 % interval",
        "today": "the same by today's code",
        "head": "| step | predicted | measured | error | step said before | today | measured |",
        "read": (
            "{near} of the {ran} peaks are right to 0.05 %. The one large error is Gemma 2 with LoRA: "
            "the script asked for attention step by step, which keeps the cap on its scores, and "
            "the prediction took what transformers takes by itself, a fused kernel that leaves the "
            "cap out. Scores of all 26 layers stay for the backward pass then, 129 MiB a layer. "
            "Captured with the same attention the three peaks of Gemma 2 are {eager} off. Full "
            "fine-tuning did not show it: its peak is in the update. What is left is a few MiB of "
            "what `bitsandbytes` takes for a moment.\n\nOutside of PyTorch's allocator {outside} "
            "MiB were taken, for the context and for kernels. With the first paged optimizer over a "
            "whole model this became {paged} MiB: its states, two bytes for each of 1.72 billion "
            "parameters, lie on the device as long as there is room, and no allocator counts them. "
            "They are not part of a predicted peak, since the driver moves them when room is "
            "wanted.\n\nSteps are longer than was predicted. Worst was full fine-tuning with 8-bit "
            "AdamW (Mistral 7B 501 ms against 251): the update was taken to be bound by memory, 10 "
            "bytes a parameter. It is not: `bitsandbytes` searches a table of 256 for every value, "
            "some 520 instructions a warp, and waits for the device after each tensor. Measured "
            "alone on an H200 since, an element takes 26.7 ps, eleven times what its bytes would "
            "(`benchmarks/micro/adamw_8bit.py`). Gemma 2's attention in steps and QLoRA of small "
            "models were likely paced by the host, of which no bench was made there."
        ),
    },
    "zh": {
        "title": "## 在一块 H100 上微调",
        "intro": (
            "六个模型的 {count} 个微调步（全量、LoRA 和 QLoRA）在任何一个运行之前就已预测并提交"
            "（`validation/tuning_memory.py`）。用 PyTorch 2.11、transformers 的随机权重模型、`peft` 0.21.2 和 "
            "`bitsandbytes` 0.50.2 本身测量，预测中没有用到它们。{count} 个中 {ran} 个运行成功。没有任何东西按它们调整过。"
        ),
        "totals": "| 内容 | 目标 | 结果 |",
        "peak": "显存峰值：平均误差，最差",
        "same": "… Gemma 2 用测量时的注意力",
        "step": "此前预测的步时：误差中位数，落在 80 % 区间内",
        "today": "同上，按今天的代码",
        "head": "| 步 | 预测 | 实测 | 误差 | 此前预测的步时 | 今天 | 实测 |",
        "read": (
            "{ran} 个峰值中 {near} 个误差在 0.05 % 以内。唯一的大误差是 Gemma 2 的 LoRA：脚本要求逐步计算注意力，以保留其分数的上限；"
            "预测则取 transformers 自己的选择，即略去上限的融合核。逐步计算时全部 26 层的分数要留给反向，每层 129 MiB。"
            "用相同的注意力捕获后，Gemma 2 的三个峰值误差为 {eager}。全量微调没有显出这一点：其峰值在更新时。剩下的是 "
            "`bitsandbytes` 临时占用的几 MiB。\n\n在 PyTorch 分配器之外占用 {outside} MiB，用于上下文和核。第一次对整个模型使用分页"
            "优化器后变为 {paged} MiB：其状态（17.2 亿参数各两字节）只要有空间就留在设备上，没有分配器计入它们。由于驱动会在需要"
            "空间时移走它们，预测的峰值不含它们。\n\n步时比此前预测的长。最差的是 8 位 AdamW 的全量微调（Mistral 7B 为 501 毫秒，"
            "预测 251）：当时认为更新受内存限制，每参数 10 字节。其实不是：`bitsandbytes` 为每个值在 256 项的表中查找，每个 warp 约 520 条"
            "指令，并在每个张量之后等待设备。此后在 H200 上单独测得每元素 26.7 ps，是其字节所需时间的十一倍"
            "（`benchmarks/micro/adamw_8bit.py`）。Gemma 2 的逐步注意力和小模型的 QLoRA 很可能由主机决定速度，那台主机没有做过基准测试。"
        ),
    },
}

Line = dict[str, Any]


def cases() -> list[Line]:
    """Every case: what was measured, what was predicted, and that with the measured attention."""
    said = {line["case"]: line for line in json.loads(_text("tuning_memory.json"))}
    anew = {line["case"]: line for line in json.loads(_text("tuning_memory_eager.json"))}
    now = today()["tuning"]
    measured = [json.loads(line) for line in _text("tuning_memory_h100.jsonl").splitlines()]
    return [
        {
            **line,
            "said": said[line["case"]],
            "same": anew.get(line["case"], said[line["case"]]),
            "today": now.get(line["case"]),
        }
        for line in measured
    ]


def off(lines: Sequence[Line], which: str = "said") -> list[float]:
    """Relative errors of predicted peaks."""
    return [line[which]["peak_bytes"] / line["peak_bytes"] - 1 for line in lines]


def inside(by: str = "same") -> list[bool]:
    """Of each step whether its 80 % interval, with the measured attention, holds it."""
    ran = [line for line in cases() if line["outcome"] == "ran"]
    return [line[by]["low_s"] <= _step_s(line) <= line[by]["high_s"] for line in ran]


def section(lang: str) -> list[str]:
    """Paragraphs and tables, as Markdown."""
    words, found = TEXT[lang], cases()
    ran = [line for line in found if line["outcome"] == "ran"]
    eager = [abs(error) for error in off([x for x in ran if x["same"] is not x["said"]], "same")]
    outside = [line["outside_bytes"] / MIB for line in ran]
    return [
        words["title"],
        words["intro"].format(count=len(found), ran=len(ran)),
        _totals(words, ran),
        _every(words, ran),
        words["read"].format(
            ran=len(ran),
            near=sum(abs(error) <= 0.0005 for error in off(ran)),
            eager=f"{100 * min(eager):.2f}–{100 * max(eager):.2f} %",
            outside=f"{min(outside):.0f}–{sorted(outside)[len(outside) // 2]:.0f}",
            paged=f"{max(outside):,.0f}",
        ),
    ]


def _totals(words: dict[str, Any], ran: Sequence[Line]) -> str:
    def both(which: str) -> str:
        errors = [100 * abs(error) for error in off(ran, which)]
        return f"{statistics.fmean(errors):.2f} %, {max(errors):.2f} %"

    def steps(by: str) -> str:
        errors = [abs(line[by]["step_s"] / _step_s(line) - 1) for line in ran]
        return f"{100 * statistics.median(errors):.0f} %, {sum(inside(by))}/{len(ran)}"

    return "\n".join(
        (
            words["totals"],
            "|---|---:|---:|",
            f"| {words['peak']} | 3 %, 6 % | {both('said')} |",
            f"| {words['same']} | | {both('same')} |",
            f"| {words['step']} | – | {steps('same')} |",
            f"| {words['today']} | – | {steps('today')} |",
        )
    )


def _every(words: dict[str, Any], ran: Sequence[Line]) -> str:
    rows = [
        f"| {line['case']} | {line['said']['peak_bytes'] / GIB:.2f} GiB "
        f"| {line['peak_bytes'] / GIB:.2f} GiB | {100 * error:+.2f} % "
        f"| {1e3 * line['said']['step_s']:.0f} ms | {1e3 * line['today']['step_s']:.0f} ms "
        f"| {1e3 * _step_s(line):.0f} ms |"
        for line, error in zip(ran, off(ran), strict=True)
    ]
    return "\n".join((words["head"], "|---|---:|---:|---:|---:|---:|---:|", *rows))


def _step_s(line: Line) -> float:
    """The quicker of the two steps after the first: the other still loads kernels."""
    return float(min(line["steps_s"]))


def _text(name: str) -> str:
    return (RESULTS / name).read_text(encoding="utf-8")
