"""What other devices, rates and sizes would give, computed by the models when a report is made.

Every point is a prediction of the captured program by the same models; nothing is scaled by hand.
GPT-2's training step (1,840 operators) takes about 3 s in all on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuscope.document.blocks import Block, Paragraph
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.run import Run
from gpuscope.views.report.device_facts import device_of_run
from gpuscope.views.report.what_if_devices import device_blocks
from gpuscope.views.report.what_if_machines import Step, Workload
from gpuscope.views.report.what_if_rates import bandwidth_lines, machines_for, rate_explorer
from gpuscope.views.report.what_if_shapes import longest_products, shape_blocks

if TYPE_CHECKING:
    from gpuscope.views.report.what_if_sizes import Varied

_OTHER_SIZES = Paragraph(Text("Other sizes of the workload"), "key")
_MORE_MACHINE = Paragraph(Text("More bandwidth, more units, a faster host"), "key")
_OTHER_DEVICES = Paragraph(Text("Another device"), "key")
_OTHER_SHAPES = Paragraph(Text("Other shapes of the longest products"), "key")


def what_if_blocks(run: Run, varied: Sequence[Varied] = ()) -> tuple[Block, ...]:
    """Return the live figures of the view "What if"; none for a run that was not predicted.

    A paragraph of the tone "key" heads each group of blocks. Every figure starts from the run's
    own step, on its own machine and with its own constants.

    Args:
        run: predicted, with its program; a run that was read from a file has none.
        varied: options of the workload that were predicted with other values.
    """
    device = device_of_run(run)
    sizes = _sizes(run, varied) if varied else []
    if run.program is None or device is None or not run.program.ops:
        return tuple(sizes)
    workload = Workload.of(run, device)
    try:
        now = workload.step(interval=True, memory=True) if workload is not None else None
    except (GpuscopeError, IndexError, ValueError):
        # A program that was written by hand, not captured: its operators lack their inputs.
        now = None
    if workload is None or now is None:
        return tuple(sizes)
    return (*sizes, *_machine_blocks(run, workload, now))


def _sizes(run: Run, varied: Sequence[Varied]) -> list[Block]:
    """The workload with other options, under its heading."""
    from gpuscope.views.report.what_if_sizes import size_blocks

    sizes = [block for each in varied for block in size_blocks(each, run)]
    return [_OTHER_SIZES, *sizes] if sizes else []


def _machine_blocks(run: Run, workload: Workload, now: Step) -> tuple[Block, ...]:
    blocks: list[Block] = []
    machines = machines_for(workload)
    if machines is not None:
        blocks += [_MORE_MACHINE, rate_explorer(machines), *bandwidth_lines(machines, *_model(run))]
    others = device_blocks(workload, now)
    blocks += [_OTHER_DEVICES, *others] if others else []
    products = longest_products(run, workload.cluster.device)
    blocks += [_OTHER_SHAPES] if products else []
    for at, shaped in enumerate(products):
        blocks += shape_blocks(shaped, run.step_time_s, live=at == 0)
    return tuple(blocks)


def _model(run: Run) -> tuple[float | None, float | None]:
    """Model FLOPs of a step on one device (of a job the mean), and the peak that MFU is of."""
    used, job = run.analysis.utilisation, run.analysis.job
    if used is None:
        return None, None
    return used.model_flops if job is None else job.mean_model_flops, used.peak_flops_per_s
