"""What other devices, rates and sizes would give, computed by the models when a report is made.

Every point is a prediction of the captured program by the same models; nothing is scaled by hand.
GPT-2's training step (1,840 operators) takes about 3 s in all on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.errors import GpuscopeError
from gpuscope.explain.types import Block, Paragraph, Words
from gpuscope.hardware import Device
from gpuscope.run import Run
from gpuscope.timeline.recost import Recosted, recost
from gpuscope.views.report.device_facts import device_of_run
from gpuscope.views.report.what_if_devices import device_blocks
from gpuscope.views.report.what_if_rates import bandwidth_lines, machines_for, rate_explorer
from gpuscope.views.report.what_if_shapes import longest_products, shape_blocks
from gpuscope.views.report.what_if_sizes import Varied, size_blocks

_APART = 0.01
"""A base that differs by more than this from the run was made for another machine or constants."""


_OTHER_SIZES = Paragraph(
    Words("Other sizes of the workload", "工作负载换成其他规模"), "key"
)
_MORE_MACHINE = Paragraph(
    Words("More bandwidth, more units, a faster host", "更大带宽、更多单元、更快的主机"), "key"
)
_OTHER_DEVICES = Paragraph(Words("Another device", "换一个设备"), "key")
_OTHER_SHAPES = Paragraph(
    Words("Other shapes of the longest products", "最耗时的矩阵乘换成其他形状"), "key"
)


def what_if_blocks(run: Run, varied: Sequence[Varied] = ()) -> tuple[Block, ...]:
    """Return the live figures of the view "What if"; none for a run that was not predicted.

    A paragraph of the tone "key" heads each group of blocks.

    Args:
        run: predicted, with its program; a run that was read from a file has none.
        varied: options of the workload that were predicted with other values.
    """
    device = device_of_run(run)
    sizes = [block for each in varied for block in size_blocks(each, run)]
    sizes = [_OTHER_SIZES, *sizes] if sizes else []
    if run.program is None or device is None or not run.program.ops:
        return tuple(sizes)
    try:
        now = recost(run.program, device, interval=True, memory=True)
    except (GpuscopeError, IndexError, ValueError):
        # A program that was written by hand, not captured: its operators lack their inputs.
        return tuple(sizes)
    return (*_same(run, device, now), *sizes, *_machine_blocks(run, device, now))


def _machine_blocks(run: Run, device: Device, now: Recosted) -> tuple[Block, ...]:
    assert run.program is not None
    blocks: list[Block] = []
    machines = machines_for(run.program, device)
    if machines is not None:
        used = run.analysis.utilisation
        blocks += [_MORE_MACHINE, rate_explorer(machines)]
        blocks += bandwidth_lines(
            machines, used.model_flops if used else None, used.peak_flops_per_s if used else None
        )
    others = device_blocks(run.program, device, now)
    blocks += [_OTHER_DEVICES, *others] if others else []
    products = longest_products(run, device)
    blocks += [_OTHER_SHAPES] if products else []
    for at, shaped in enumerate(products):
        blocks += shape_blocks(shaped, run.step_time_s, live=at == 0)
    return tuple(blocks)


def _same(run: Run, device: Device, now: Recosted) -> tuple[Block, ...]:
    """A word of warning where the figures do not start from the run's own machine."""
    if abs(now.step_time_s / run.step_time_s - 1.0) <= _APART:
        return ()
    return (
        Paragraph(
            Words(
                "The run was predicted for a changed device, a cluster or constants of its own; "
                f"the figures below take {device.name} as the catalogue has it.",
                "该运行使用了改动过的设备、特定集群或自己的常数；"
                f"以下数据按目录中的 {device.name} 计算。",
            ),
            "doubt",
        ),
    )
