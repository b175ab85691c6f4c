"""What one operator costs, asked while a program still runs: for the clock that it reads.

As `cost_program`, but for what only a whole program tells (phases, autograd nodes that call
nothing, compiled parts) and for the board's power limit, which is no operator's own.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuscope.cost.bandwidth import L2_SHARE
from gpuscope.cost.engine import _Coster, _launch_latency_s, _launches, _sort
from gpuscope.cost.host.arithmetic import arithmetic_s
from gpuscope.cost.host.model import HostModel
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Calibration, Cluster
from gpuscope.program.script.prices import Price, Prices
from gpuscope.program.types import Op, Program

__all__ = ["prices_on"]


def prices_on(cluster: Cluster, calibration: Calibration) -> Prices:
    """Prices of operators on the device of a cluster.

    Args:
        cluster: what the program runs on.
        calibration: constants for its device.
    """
    device, constants = cluster.device, Constants(calibration)
    host = HostModel(constants, Program("", ()))
    return Prices(
        of=_pricing(cluster, constants, host),
        latency_s=_launch_latency_s(device, constants),
        gap_s=constants.value("launch.gap_s"),
        python_call_s=host.python_s * host.scale,
        python_instruction_s=host.instruction_s * host.scale,
        device_name=device.name,
        device_bytes=int(device.memory_usable_bytes),
    )


def _pricing(cluster: Cluster, constants: Constants, host: HostModel) -> Callable[[Op], Price]:
    device = cluster.device
    coster = _Coster(device, constants, (), False, cluster)
    usable = float(device.l2_bytes or 0) * L2_SHARE
    numbers: dict[object, int] = {}
    last: dict[int, float] = {}
    clock = 0.0

    def hot(op: Op) -> tuple[bool, ...]:
        nonlocal clock
        flags = tuple(
            s.storage in last and clock - last[s.storage] + s.touched_bytes <= usable
            for s in op.inputs
        )
        touched = {s.storage: s.touched_bytes for s in (*op.inputs, *op.outputs)}
        clock += sum(touched.values())
        last.update(dict.fromkeys(touched, clock))
        return flags

    def price(op: Op) -> Price:
        kernels: tuple[Kernel, ...] = ()
        if _launches(op) and op.group < 0:
            sort = numbers.setdefault(_sort(op), len(numbers))
            try:
                kernels = coster.kernels(op, sort, hot(op))
            except UnsupportedError:
                kernels = ()  # said in the prediction
        own = host.cost(op, len(kernels))
        return Price(
            arithmetic_s(op) + own.before_s + own.per_launch_s * len(kernels),
            own.after_s,
            tuple((k.stream, k.duration_s) for k in kernels),
        )

    return price
