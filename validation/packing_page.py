# ruff: noqa: E501 a paragraph of a page is a line
"""The section of docs/plan-accuracy.md on packed rows: what `packing_steps.py` predicted, measured.

Reads `results/plan_today.json` (by today's code), `results/packing_steps_h200.json` (predicted for the device that came, by the code that
predicted `packing_steps_h100.json` before any was run) and `packing_steps.jsonl` (measured).
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from plan_today import today

RESULTS = Path(__file__).resolve().parent / "results"

TEXT = {
    "en": """\
## Packed rows on an H200

36 fine-tuning steps of two models, with LoRA (peft 0.21.2) and in full, on two mixes of lengths (*wide*: `lognormal:400,0.8`, *long*: `256..2048`) and each way to lay examples in rows were predicted for an H100 and committed before any was run (`validation/packing_steps.py`). The machine that came had an H200, PyTorch 2.11 and transformers 5.17; the figures below are the same prediction for that device, made after by the same code. A step is a micro-batch and the update; each case runs six micro-batches that were drawn from its mix (sixteen where one example is a row). *flash* is `DataCollatorWithFlattening` and the copy of FlashAttention-2 inside PyTorch, *mask* the mask that transformers makes of positions, *padded* four examples a micro-batch, *single* one, *none* rows of one length.

| what | result |
|---|---|
| in full, rows of one width (none, flash, mask): 10 steps | median error 2.4 %, worst 8.7 %, all too short; 8 inside their 80 % interval |
| with LoRA, the same: 10 steps | 3 to 32 % too short; 8 inside |
| rows of ever new widths (padded, single): 16 steps | 89 % too short to 12 % too long; 2 inside |
| inside, of all 36: as said before; by today's code | {said}; {today} |
| peak memory, 36 | 28 right to 0.05 %, the eight padded ones 3.7 to 4.4 % too high |

| step | said before | today | measured | error of the first | inside | a token, predicted | measured | peak |
|---|---:|---:|---:|---:|---|---:|---:|---:|
{body}

Which way is best is right: in full fine-tuning flash, mask, padded, single in this order for each token, predicted and measured, with both models and mixes; with LoRA flash and mask change places on the long mix (3 and 13 %), the rest is as predicted. Padding costs more than predicted, one example a step up to 3.4 times the time.

Three things were not in the prediction. The device's own work is: a profiled flash step of Llama 3.2 1B with LoRA is 87.8 ms of kernels, its step is predicted with 91.6 ms.

1. *A width that was not seen before.* LoRA with one example a step (15 ms of kernels) takes 283 ms where launches explain about 95; in full, on the same lengths later in the same process, 88 ms. Measured afterwards, as expected before (`validation/new_shapes.py`, `results/new_shapes.jsonl`): cuDNN's attention makes a plan for each new shape, 49 to 71 ms forward and 62 to 84 backward (the very first 0.83 s), with a mask up to 1.4 s each for the first; after that 0.2 to 1.6 ms. FlashAttention makes none, products take 4 to 5 ms (less than one was expected). The same 18 lengths with LoRA: 284 ms a step in the mean the first time, 123 the second, 114 the third, 113 for one length. So pad to a few widths (multiples of 128, say), or pack with flash.
2. *The host.* peft issues 4,100 launches a step for 16 layers. With 23 to 35 µs for each, more than the 20 predicted, the host paces every LoRA step here; how fast it is differs from machine to machine ([accuracy.md](accuracy.md)).
3. *A mask that was left out.* The fullest padded micro-batch held four examples of 2,048 tokens: without padding transformers makes no mask. A micro-batch with one of them and three shorter ones would have had it; none was measured.
""",
    "zh": """\
## 在 H200 上打包的行

两个模型的 36 个微调步骤——LoRA（peft 0.21.2）与全量，两种长度分布（*wide*：`lognormal:400,0.8`，*long*：`256..2048`），以及每种把样本排成行的方式——先对 H100 预测并提交，之后才运行（`validation/packing_steps.py`）。实际的机器是 H200，PyTorch 2.11，transformers 5.17；下面的数字是同一代码事后对该设备做的同一预测。一步是一个微批加更新；每种情形运行从其分布中抽取的六个微批（一行一个样本时为十六个）。*flash* 是 `DataCollatorWithFlattening` 加 PyTorch 内的 FlashAttention-2，*mask* 是 transformers 由位置生成的掩码，*padded* 每个微批四个样本，*single* 一个，*none* 为等长的行。

| 项目 | 结果 |
|---|---|
| 全量，等宽的行（none、flash、mask）：10 步 | 误差中位数 2.4 %，最大 8.7 %，全部偏短；8 个在 80 % 区间内 |
| LoRA，同上：10 步 | 偏短 3 到 32 %；8 个在区间内 |
| 宽度总是新的行（padded、single）：16 步 | 偏短 89 % 到偏长 12 %；2 个在区间内 |
| 区间内，全部 36 步：此前预测；按今天的代码 | {said}；{today} |
| 峰值内存，36 个 | 28 个误差不超过 0.05 %，八个 padded 偏高 3.7 到 4.4 % |

| 步骤 | 此前预测 | 今天 | 实测 | 前者的误差 | 区间内 | 每个 token，预测 | 实测 | 峰值 |
|---|---:|---:|---:|---:|---|---:|---:|---:|
{body}

哪种方式最好，预测是对的：全量微调时，两个模型、两种分布下，每个 token 的顺序预测与实测都是 flash、mask、padded、single；LoRA 时 flash 与 mask 在 long 分布上互换（相差 3 % 和 13 %），其余与预测相同。填充的代价比预测的大，每步一个样本时用时多达 3.4 倍。

预测中缺了三样。设备自身的工作并不缺：Llama 3.2 1B 用 LoRA 的一个 flash 步骤，剖析得内核 87.8 ms，预测的步骤为 91.6 ms。

1. *没见过的宽度。* LoRA 每步一个样本（内核 15 ms）用了 283 ms，而启动只能解释约 95 ms；同一进程中稍后用同样长度做全量微调只要 88 ms。事后测量与事先写下的预期一致（`validation/new_shapes.py`，`results/new_shapes.jsonl`）：cuDNN 注意力为每个新形状制定计划，前向 49 到 71 ms，反向 62 到 84 ms（第一个 0.83 s），有掩码时最初几个各多达 1.4 s；之后为 0.2 到 1.6 ms。FlashAttention 没有这一步，矩阵乘第一次 4 到 5 ms（预期不到 1）。同样 18 个长度用 LoRA：第一遍平均每步 284 ms，第二遍 123，第三遍 114，单一长度 113。因此请填充到少数几种宽度（例如 128 的倍数），或用 flash 打包。
2. *主机。* peft 在 16 层上每步发出 4,100 次启动。每次 23 到 35 µs，多于预测的 20 µs，因此这里每个 LoRA 步骤都由主机决定；主机的快慢因机器而异（[accuracy.md](accuracy.md)）。
3. *没有生成的掩码。* 最满的 padded 微批由四个 2,048 个 token 的样本组成：没有填充，transformers 就不生成掩码。若其中一个这么长、另外三个较短，就会有掩码；没有测量这种情形。
""",
}


def packing_section(lang: str) -> str:
    """The section in that language."""
    counts = f"{sum(inside())}/{len(_pairs())}", f"{sum(inside(True))}/{len(_pairs())}"
    text = TEXT[lang].strip().replace("{said}", counts[0]).replace("{today}", counts[1])
    return text.replace("{body}", "\n".join(_rows()))


def inside(anew: bool = False) -> list[bool]:
    """Of each step whether its 80 % interval holds the mean of its micro-batches.

    Args:
        anew: the interval by today's code, not the one that was said before.
    """
    return [said["low_s"] <= found["mean_s"] <= said["high_s"] for said, found in _pairs(anew)]


def _pairs(anew: bool = False) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What was predicted and what was measured of each step."""
    path = RESULTS / "packing_steps_h200.json"
    predicted = {line["case"]: line for line in json.loads(path.read_text(encoding="utf-8"))}
    if anew:
        predicted = today()["packed"]
    text = (RESULTS / "packing_steps.jsonl").read_text(encoding="utf-8")
    return [(predicted[found["case"]], found) for found in map(json.loads, text.splitlines())]


def _rows() -> list[str]:
    rows = []
    for (said, found), (now, _) in zip(_pairs(), _pairs(True), strict=True):
        step_s, mean_s = said["step_s"], found["mean_s"]
        held = "✓" if said["low_s"] <= mean_s <= said["high_s"] else ""
        tokens = statistics.mean(found["tokens"])
        cells = (
            found["case"],
            f"{step_s * 1e3:.0f} ms",
            f"{now['step_s'] * 1e3:.0f} ms",
            f"{mean_s * 1e3:.0f} ms",
            f"{100 * (step_s / mean_s - 1):+.0f} %",
            held,
            f"{1e6 * step_s / said['tokens']:.0f} µs",
            f"{1e6 * mean_s / tokens:.0f} µs",
            f"{100 * (said['peak_bytes'] / found['peak_bytes'] - 1):+.2f} %",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows
