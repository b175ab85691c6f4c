"""Lesson: data, tensor, pipeline and expert parallelism, and ZeRO."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.blocks import Axis as HeatAxis
from gpuscope.document.blocks import (
    Column,
    Explanation,
    Explorer,
    HeatMap,
    Output,
    Section,
    Slider,
    Table,
)
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
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
    Text("Parallelism and ZeRO"),
    Text("How is a model that does not fit one GPU spread over many?"),
)
def parallelism() -> Explanation:
    """Make the lesson."""
    seven = 7e9
    plain = STAGES[0].bytes_per_rank(seven, 64) / 1e9
    full = STAGES[3].bytes_per_rank(seven, 64) / 1e9
    return Explanation(
        topic="lesson",
        title=Text("Parallelism and ZeRO"),
        summary=(
            Text(
                "Data parallelism gives each GPU other samples, and adds up the gradients. Tensor "
                "parallelism cuts each product, pipeline parallelism the list of layers, expert "
                "parallelism the experts."
            ),
            Text(
                "With mixed-precision Adam a parameter takes 16 bytes: 2 for the weight, 2 for its "
                "gradient, 12 for the optimizer. Seven billion need {plain} GB on each rank; "
                "ZeRO-3 over 64 ranks leaves {full} GB.",
                plain=Number(plain, ".0f"),
                full=Number(full, ".1f"),
            ),
            Text("What is not kept must be sent: ZeRO-3 sends half as much again as DDP."),
        ),
        sections=(
            Section(Text("What is kept and sent"), (_table(),)),
            Section(Text("A pipeline and its bubble"), (_pipeline(),)),
            Section(Text("Try it"), (_explorer(), _bubbles())),
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
            Text("Without activations, which come on top and depend on batch and recomputation."),
        ),
    )


def _table() -> Table:
    parameters, ranks = 7e9, 64.0
    return Table(
        title=Text("Seven billion parameters on 64 ranks"),
        columns=(
            Column(Text("way")),
            Column(Text("kept by each rank"), "bytes"),
            Column(Text("sent by each rank in a step"), "bytes"),
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
        title=Text(
            "{stages} stages, {batches} micro-batches: {bubble} of the time is bubble",
            stages=stages,
            batches=batches,
            bubble=Number(bubble, ".0%"),
        ),
        x=HeatAxis(Text("time")),
        y=HeatAxis(Text("stage")),
        values=schedule(stages, batches),
        classes=(Text("forward"), Text("backward"), Text("waits")),
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
                    fits.append(Text("yes") if held <= room else Text("no"))
    return Explorer(
        title=Text("What each rank keeps"),
        sliders=(
            Slider("way", Text("way"), tuple(s.name for s in STAGES)),
            Slider("device", Text("device"), devices),
            Slider("billions", Text("billions of parameters"), billions, "", 2),
            Slider("ranks", Text("ranks"), ranks, "", 3),
        ),
        outputs=(
            Output("kept", Text("kept by each rank"), "bytes", tuple(kept), role="memory"),
            Output("sent", Text("sent in a step"), "bytes", tuple(sent), plotted=False),
            Output("fits", Text("fits, without activations"), "", tuple(fits), plotted=False),
        ),
        x="ranks",
        log_x=True,
        log_y=True,
        reading=Text("{way} over {ranks} ranks: each keeps {kept} and sends {sent} a step."),
    )


def _bubbles() -> Explorer:
    stages = (2.0, 4.0, 8.0, 16.0)
    batches = tuple(float(2**k) for k in range(9))
    chunks = (1.0, 2.0, 4.0)
    found = [(p - 1) / (v * m + p - 1) for p in stages for v in chunks for m in batches]
    return Explorer(
        title=Text("The bubble of a pipeline"),
        sliders=(
            Slider("stages", Text("stages"), stages, "", 1),
            Slider("chunks", Text("parts a stage (interleaved)"), chunks),
            Slider("batches", Text("micro-batches"), batches, "", 3),
        ),
        outputs=(Output("bubble", Text("bubble"), "share", tuple(found), role="idle"),),
        x="batches",
        log_x=True,
        reading=Text(
            "{stages} stages and {batches} micro-batches: {bubble} of the time is bubble."
        ),
    )
