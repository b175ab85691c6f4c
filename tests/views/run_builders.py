"""A small GPT training step on an H200, costed by hand, for the tests of the views.

The program is written out operator by operator with round figures; simulation, memory and
analysis are the real ones, so every number in the run fits every other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from gpuscope.analysis import analyze
from gpuscope.cost.types import CostedOp, CostedProgram, HostCost, Kernel
from gpuscope.hardware import Device, device
from gpuscope.program.types import ModuleInfo, Op, Phase, Program, Storage, TensorSpec
from gpuscope.run import Run
from gpuscope.timeline import attach_memory, simulate, simulate_memory, step_time_interval

BATCH, SEQ, HEADS, VOCAB = 8, 1024, 12, 50257
MS, US = 1e-3, 1e-6


def spec(*shape: int, dtype: str = "bfloat16", storage: int = -1) -> TensorSpec:
    """A contiguous tensor."""
    stride, steps = 1, []
    for size in reversed(shape):
        steps.append(stride)
        stride *= size
    return TensorSpec(shape, tuple(reversed(steps)), dtype, storage=storage)


@dataclass
class Script:
    """Collects operators, kernels and storages in program order."""

    gpu: Device
    items: list[CostedOp] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)

    def hold(self, nbytes: int, category: str, died: int | None, module: str, label: str) -> None:
        """A storage; those of parameters and states are there before the step."""
        resident = category in ("parameter", "gradient", "optimizer_state")
        born = -1 if resident else len(self.items) - 1
        self.storages.append(
            Storage(len(self.storages), nbytes, category, born, died, module, label)
        )

    def matmul(self, module: str, phase: Phase, m: int, n: int, k: int) -> None:
        flops, moved = 2.0 * m * n * k, 2.0 * (m * k + k * n + m * n)
        compute, memory = flops / (0.72 * 989e12), moved / (0.9 * 4.8e12)
        blocks = -(-m // 128) * -(-n // 256)
        self.add(
            "aten::addmm",
            module,
            phase,
            (spec(m, k), spec(k, n)),
            (spec(m, n),),
            Kernel(
                "gemm_bf16_128x256x64_tn",
                "matmul",
                len(self.items),
                max(compute, memory) + 2 * US,
                compute,
                compute * 1.3,
                flops,
                moved * 0.7,
                moved * 0.3,
                moved,
                grid=blocks,
                block=384,
                tile=(128, 256, 64),
                waves=blocks / (self.gpu.compute_units or 1),
                occupancy=0.19,
                limiter="tensor_core" if compute > memory else "memory",
                dtype="bfloat16",
                compute_s=compute,
                memory_s=memory,
                origin="calibrated",
            ),
        )

    def attention(self, module: str, phase: Phase, factor: float) -> None:
        flops = 2.0 * BATCH * HEADS * SEQ * SEQ * 64 * 2 / 2 * factor
        moved = 2.0 * BATCH * SEQ * 768 * 4 * factor
        compute = flops / (0.5 * 989e12)
        self.add(
            "gpuscope::attention",
            module,
            phase,
            (spec(BATCH, HEADS, SEQ, 64),) * 3,
            (spec(BATCH, HEADS, SEQ, 64),),
            Kernel(
                "flash_fwd_hd64" if phase == "forward" else "flash_bwd_hd64",
                "attention",
                len(self.items),
                compute + 3 * US,
                compute,
                compute * 1.5,
                flops,
                moved * 0.8,
                moved * 0.2,
                moved,
                grid=BATCH * HEADS * 8,
                block=256,
                tile=(128, 128, 64),
                waves=BATCH * HEADS * 8 / 264,
                occupancy=0.25,
                limiter="tensor_core",
                dtype="bfloat16",
                compute_s=compute,
                memory_s=moved / 4.3e12,
            ),
        )

    def stream(
        self, name: str, kind: str, module: str, phase: Phase, nbytes: float, **extra: object
    ) -> None:
        """A kernel that reads and writes memory once."""
        time = nbytes / 4.1e12 + 2 * US
        limiter = "memory" if time > 5 * US else "launch"
        self.add(
            name,
            module,
            phase,
            (spec(int(nbytes) // 4),),
            (spec(int(nbytes) // 4),),
            Kernel(
                name.partition("::")[2] + "_vectorized",
                kind,
                len(self.items),
                time,
                time * 0.95,
                time * 1.15,
                nbytes / 4,
                nbytes / 2,
                nbytes / 2,
                nbytes,
                grid=max(1, int(nbytes) // 8192),
                block=256,
                waves=nbytes / 8192 / 1056,
                occupancy=1.0,
                limiter=limiter,
                dtype="float32",
                memory_s=nbytes / 4.8e12,
            ),
            **extra,
        )

    def upload(self, nbytes: int) -> None:
        time = nbytes / 5e10 + 8 * US
        self.add(
            "aten::_to_copy",
            "",
            "input",
            (spec(BATCH, SEQ, dtype="int64"),),
            (spec(BATCH, SEQ, dtype="int64"),),
            Kernel(
                "copy_h2d",
                "transfer",
                len(self.items),
                time,
                time,
                time * 1.5,
                least_bytes=nbytes,
                limiter="link",
                lane="copy_h2d",
            ),
        )

    def add(
        self,
        name: str,
        module: str,
        phase: Phase,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        kernel: Kernel,
        **extra: object,
    ) -> None:
        op = Op(
            len(self.items),
            name,
            inputs=inputs,
            outputs=outputs,
            module=module,
            phase=phase,
            **extra,
        )
        host = HostCost(12 * US if phase == "forward" else 7 * US, 3 * US, 2 * US, op.sync)
        self.items.append(CostedOp(op, (kernel,), host))


def _block(script: Script, module: str, phase: Phase, hidden: int) -> None:
    rows, backward = BATCH * SEQ, phase == "backward"
    wide = 2.0 * rows * hidden
    for part in (
        "ln_1",
        "attn.c_attn",
        "attn",
        "attn.c_proj",
        "ln_2",
        "mlp.c_fc",
        "mlp.act",
        "mlp.c_proj",
        "",
    ):
        path = f"{module}.{part}" if part else module
        if part.startswith("ln"):
            name = "aten::native_layer_norm" + ("_backward" if backward else "")
            script.stream(name, "normalization", path, phase, wide * (3 if backward else 2))
        elif part == "attn":
            script.attention(path, phase, 2.5 if backward else 1.0)
        elif part == "mlp.act":
            name = "aten::gelu" + ("_backward" if backward else "")
            script.stream(name, "pointwise", path, phase, wide * 8)
        elif part == "":
            script.stream("aten::add", "pointwise", path, phase, wide * 3)
        else:
            n, k = {"attn.c_attn": (3, 1), "attn.c_proj": (1, 1), "mlp.c_fc": (4, 1)}.get(
                part, (1, 4)
            )
            for _ in range(2 if backward else 1):
                script.matmul(path, phase, rows, n * hidden, k * hidden)
        if not backward:
            script.hold(int(wide * 2), "activation", None, path, f"{part or 'add'} output")


def _modules(layers: int, hidden: int) -> tuple[ModuleInfo, ...]:
    found = [ModuleInfo("", "GPT"), ModuleInfo("wte", "Embedding", VOCAB * hidden)]
    for i in range(layers):
        h = f"h.{i}"
        found += [
            ModuleInfo(h, "Block"),
            ModuleInfo(f"{h}.ln_1", "LayerNorm", 2 * hidden),
            ModuleInfo(f"{h}.attn", "Attention"),
            ModuleInfo(f"{h}.attn.c_attn", "Linear", 3 * hidden * (hidden + 1)),
            ModuleInfo(f"{h}.attn.c_proj", "Linear", hidden * (hidden + 1)),
            ModuleInfo(f"{h}.ln_2", "LayerNorm", 2 * hidden),
            ModuleInfo(f"{h}.mlp", "MLP"),
            ModuleInfo(f"{h}.mlp.c_fc", "Linear", 4 * hidden * (hidden + 1)),
            ModuleInfo(f"{h}.mlp.act", "GELU"),
            ModuleInfo(f"{h}.mlp.c_proj", "Linear", hidden * (4 * hidden + 1)),
        ]
    return (*found, ModuleInfo("lm_head", "Linear"))


def gpt_step(layers: int = 4, hidden: int = 768, gpu: str = "h200") -> CostedProgram:
    """The costed step."""
    script = Script(device(gpu))
    rows = BATCH * SEQ
    parameters = VOCAB * hidden + layers * 12 * hidden * hidden
    for category, size in (("parameter", 4), ("gradient", 4), ("optimizer_state", 8)):
        for i in range(layers):
            script.hold(12 * hidden * hidden * size, category, None, f"h.{i}", category)
        script.hold(VOCAB * hidden * size, category, None, "wte", category)
    script.upload(rows * 8)
    script.stream("aten::embedding", "gather", "wte", "forward", 4.0 * rows * hidden)
    for i in range(layers):
        _block(script, f"h.{i}", "forward", hidden)
    script.matmul("lm_head", "forward", rows, VOCAB, hidden)
    script.hold(4 * rows * VOCAB, "activation", None, "lm_head", "logits")
    script.stream("aten::_log_softmax", "reduction", "", "forward", 6.0 * rows * VOCAB)
    script.hold(4 * rows * VOCAB, "temporary", len(script.items) + 1, "", "softmax")
    script.matmul("lm_head", "backward", rows, hidden, VOCAB)
    for i in reversed(range(layers)):
        _block(script, f"h.{i}", "backward", hidden)
    for _ in range(12):
        script.stream("aten::_fused_adamw_", "optimizer", "", "optimizer", parameters * 28.0 / 12)
    script.stream("aten::item", "copy", "", "other", 4.0, sync="item")
    # The backward pass of a module is the last to need what its forward pass left.
    last = {item.op.module: item.op.index for item in script.items if item.op.phase == "backward"}
    storages = tuple(
        replace(s, died=last[s.module] + 1) if s.category == "activation" else s
        for s in script.storages
    )
    program = Program(
        "gpt-mini train, batch 8 x 1024 tokens, bfloat16 autocast, adamw",
        tuple(item.op for item in script.items),
        storages,
        _modules(layers, hidden),
        parameters,
        ("The data loader keeps up.",),
        task="train",
        samples=BATCH,
        tokens=rows,
        dtype="bfloat16",
        capture_s=0.4,
    )
    return CostedProgram(program, script.gpu.id, tuple(script.items), host_spread=0.3)


@cache
def gpt_run(layers: int = 4, hidden: int = 768, gpu: str = "h200") -> Run:
    """The step as a predicted run."""
    costed, gpu_device = gpt_step(layers, hidden, gpu), device(gpu)
    simulation = simulate(costed)
    memory = simulate_memory(costed.program, capacity_bytes=gpu_device.memory_usable_bytes)
    timeline = attach_memory(simulation.timeline, memory)
    analysis = analyze(
        timeline,
        program=costed.program,
        on=gpu_device,
        memory=memory,
        step_time_s=simulation.step_time_s,
    )
    return Run(
        name=costed.program.name,
        target=gpu_device.name,
        device_id=gpu_device.id,
        origin="predicted",
        step_time_s=simulation.step_time_s,
        step_time_interval_s=step_time_interval(costed),
        device_busy_s=simulation.device_busy_s,
        host_busy_s=simulation.host_busy_s,
        peak_memory_bytes=memory.peak_allocated_bytes,
        reserved_memory_bytes=memory.peak_reserved_bytes,
        energy_j=analysis.energy.total_j if analysis.energy else None,
        fits=memory.fits,
        timeline=timeline,
        analysis=analysis,
        program=costed.program,
        assumptions=costed.program.assumptions,
        origins={"step_time_s": "estimated", "peak_memory_bytes": "calibrated"},
        samples=BATCH,
        tokens=BATCH * SEQ,
    )


def bare_run() -> Run:
    """A measured run of which little is known: every optional reading is missing."""
    run = gpt_run()
    analysis = replace(
        run.analysis,
        modules=(),
        roofline=None,
        tasks=(),
        memory=None,
        energy=None,
        utilisation=None,
        findings=(),
        phases=(),
    )
    unknown = np.full(len(run.timeline.events), -1, np.int64)
    events = replace(run.timeline.events, op=unknown, kernel=unknown)
    timeline = replace(
        run.timeline, events=events, kernels=(), ops=(), counters=(), origin="measured"
    )
    return replace(
        run,
        origin="measured",
        device_id="",
        target="unknown device",
        host_busy_s=None,
        peak_memory_bytes=None,
        reserved_memory_bytes=None,
        energy_j=None,
        fits=None,
        analysis=analysis,
        program=None,
        origins={},
        samples=None,
        tokens=None,
        timeline=timeline,
    )
