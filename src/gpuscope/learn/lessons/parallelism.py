"""Lesson: data, tensor, pipeline and expert parallelism, and ZeRO."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.explain.types import Axis as HeatAxis
from gpuscope.explain.types import (
    Column,
    Explanation,
    Explorer,
    HeatMap,
    Output,
    Section,
    Slider,
    Table,
    Words,
)
from gpuscope.hardware import device
from gpuscope.learn.lessons.registry import lesson

BF16_BYTES = 2
ADAM_BYTES = 12
"""Master copy and two moments in float32, as ZeRO counts mixed-precision Adam."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What ZeRO (or FSDP) splits: gradients, weights; optimizer states from stage 1 on."""

    name: str
    states: bool
    gradients: bool
    weights: bool

    def bytes_per_rank(self, parameters: float, ranks: float) -> float:
        """Bytes of weights, gradients and optimizer states on each rank."""
        return parameters * (
            BF16_BYTES / (ranks if self.weights else 1)
            + BF16_BYTES / (ranks if self.gradients else 1)
            + ADAM_BYTES / (ranks if self.states else 1)
        )

    def sent_per_step(self, parameters: float, ranks: float) -> float:
        """Bytes that each rank sends in a step: all-reduce, or reduce-scatter and all-gathers."""
        share = (ranks - 1) / ranks
        passes = 3 if self.weights else 2
        return passes * share * parameters * BF16_BYTES


STAGES: tuple[Stage, ...] = (
    Stage("DDP", False, False, False),
    Stage("ZeRO-1", True, False, False),
    Stage("ZeRO-2", True, True, False),
    Stage("ZeRO-3 / FSDP", True, True, True),
)


@lesson(
    "parallelism",
    12,
    Words("Parallelism and ZeRO", "并行与 ZeRO"),
    Words(
        "How is a model that does not fit one GPU spread over many?",
        "一个 GPU 放不下的模型怎样分到许多 GPU 上？",
    ),
)
def parallelism() -> Explanation:
    """Make the lesson."""
    seven = 7e9
    plain = STAGES[0].bytes_per_rank(seven, 64) / 1e9
    full = STAGES[3].bytes_per_rank(seven, 64) / 1e9
    return Explanation(
        topic="lesson",
        title=Words("Parallelism and ZeRO", "并行与 ZeRO"),
        summary=(
            Words(
                "Data parallelism gives each GPU other samples, and adds up the gradients. Tensor "
                "parallelism cuts each product, pipeline parallelism the list of layers, expert "
                "parallelism the experts.",
                "数据并行让每个 GPU 处理不同样本，再把梯度相加。张量并行切分每个矩阵乘法，"
                "流水线并行切分层的序列，专家并行切分各个专家。",
            ),
            Words(
                "With mixed-precision Adam a parameter takes 16 bytes: 2 for the weight, 2 for its "
                f"gradient, 12 for the optimizer. Seven billion need {plain:.0f} GB on each "
                "rank; ZeRO-3 "
                f"over 64 ranks leaves {full:.1f} GB.",
                "混合精度 Adam 下每个参数占 16 字节：权重 2、梯度 2、优化器 12。"
                f"70 亿参数在每个 rank 上需要 {plain:.0f} GB；ZeRO-3 分到 64 个 rank 后为 "
                f"{full:.1f} GB。",
            ),
            Words(
                "What is not kept must be sent: ZeRO-3 sends half as much again as DDP.",
                "不保存的就要传输：ZeRO-3 的通信量比 DDP 多一半。",
            ),
        ),
        sections=(
            Section(Words("What is kept and sent", "保存什么，传输什么"), (_table(),)),
            Section(Words("A pipeline and its bubble", "流水线与气泡"), (_pipeline(),)),
            Section(Words("Try it", "动手试试"), (_explorer(), _bubbles())),
        ),
        commands=(
            "gpuscope explain collective all_gather 64MB --on 64xh100",
            "gpuscope explain memory gpt2 --task train --on h200",
        ),
        sources=(
            "S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter "
            "Models, SC 2020 (2 + 2 + 12 bytes a parameter; 3/2 of the communication for stage 3)",
            "D. Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, "
            "SC 2021 (bubble (p - 1) / (m + p - 1) of the time)",
        ),
        assumptions=(
            Words(
                "Without activations, which come on top and depend on batch and recomputation.",
                "不含激活值；它们另计，并取决于批大小与重计算。",
            ),
        ),
    )


def _table() -> Table:
    parameters, ranks = 7e9, 64.0
    return Table(
        title=Words("Seven billion parameters on 64 ranks", "70 亿参数，64 个 rank"),
        columns=(
            Column(Words("way", "方式")),
            Column(Words("kept by each rank", "每个 rank 保存"), "bytes"),
            Column(Words("sent by each rank in a step", "每步每个 rank 发送"), "bytes"),
        ),
        rows=tuple(
            (s.name, s.bytes_per_rank(parameters, ranks), s.sent_per_step(parameters, ranks))
            for s in STAGES
        ),
    )


def schedule(stages: int, batches: int) -> tuple[tuple[float, ...], ...]:
    """Who does what when in a pipeline of forward and then backward passes (GPipe).

    Returns:
        One row a stage: 0 forward, 1 backward (twice as long as forward), 2 waiting.
    """
    width = 3 * (batches + stages - 1)
    rows = []
    for stage in range(stages):
        row = [2.0] * width
        for batch in range(batches):
            row[stage + batch] = 0.0
            begin = batches + stages - 1 + 2 * (stages - 1 - stage + batch)
            row[begin] = row[begin + 1] = 1.0
        rows.append(tuple(row))
    return tuple(rows)


def _pipeline() -> HeatMap:
    stages, batches = 4, 8
    bubble = (stages - 1) / (batches + stages - 1)
    return HeatMap(
        title=Words(
            f"{stages} stages, {batches} micro-batches: {bubble:.0%} of the time is bubble",
            f"{stages} 个阶段、{batches} 个微批：{bubble:.0%} 的时间是气泡",
        ),
        x=HeatAxis(Words("time", "时间")),
        y=HeatAxis(Words("stage", "阶段")),
        values=schedule(stages, batches),
        classes=(Words("forward", "前向"), Words("backward", "反向"), Words("waits", "等待")),
        roles=("compute", "shared", "idle"),
    )


def _explorer() -> Explorer:
    billions = (1.0, 3.0, 7.0, 13.0, 32.0, 70.0, 180.0, 405.0)
    ranks = tuple(float(2**k) for k in range(13))
    devices = ("h200", "h100", "a100", "rtx-4090", "mi300x")
    kept, sent, fits = [], [], []
    for stage in STAGES:
        for name in devices:
            room = device(name).memory_usable_bytes
            for b in billions:
                for n in ranks:
                    held = stage.bytes_per_rank(b * 1e9, n)
                    kept.append(held)
                    sent.append(stage.sent_per_step(b * 1e9, n))
                    fits.append(Words("yes", "是") if held <= room else Words("no", "否"))
    return Explorer(
        title=Words("What each rank keeps", "每个 rank 保存多少"),
        sliders=(
            Slider("way", Words("way", "方式"), tuple(s.name for s in STAGES)),
            Slider("device", Words("device", "设备"), devices),
            Slider("billions", Words("billions of parameters", "参数（十亿）"), billions, "", 2),
            Slider("ranks", Words("ranks", "rank 数"), ranks, "", 3),
        ),
        outputs=(
            Output(
                "kept", Words("kept by each rank", "每个 rank 保存"), "bytes", tuple(kept),
                role="memory",
            ),
            Output(
                "sent", Words("sent in a step", "每步发送"), "bytes", tuple(sent), plotted=False
            ),
            Output(
                "fits", Words("fits, without activations", "放得下（不含激活）"), "", tuple(fits),
                plotted=False,
            ),
        ),
        x="ranks",
        log_x=True,
        log_y=True,
        reading=Words(
            "{way} over {ranks} ranks: each keeps {kept} and sends {sent} a step.",
            "{way}，{ranks} 个 rank：每个保存 {kept}，每步发送 {sent}。",
        ),
    )  # fmt: skip


def _bubbles() -> Explorer:
    stages = (2.0, 4.0, 8.0, 16.0)
    batches = tuple(float(2**k) for k in range(9))
    chunks = (1.0, 2.0, 4.0)
    found = [(p - 1) / (v * m + p - 1) for p in stages for v in chunks for m in batches]
    return Explorer(
        title=Words("The bubble of a pipeline", "流水线的气泡"),
        sliders=(
            Slider("stages", Words("stages", "阶段数"), stages, "", 1),
            Slider("chunks", Words("parts a stage (interleaved)", "每阶段部分数"), chunks),
            Slider("batches", Words("micro-batches", "微批数"), batches, "", 3),
        ),
        outputs=(
            Output("bubble", Words("bubble", "气泡"), "share", tuple(found), role="idle"),
        ),
        x="batches",
        log_x=True,
        reading=Words(
            "{stages} stages and {batches} micro-batches: {bubble} of the time is bubble.",
            "{stages} 个阶段、{batches} 个微批：{bubble} 的时间是气泡。",
        ),
    )
