"""What the host spends where an inference engine runs a graph: no Python, no dispatcher.

A node's kernels are launched from a loop in C++; what takes time is that loop and the launches.
"""

from __future__ import annotations

from gpuscope.cost.types import HostCost
from gpuscope.program.onnx.engines import engine_named
from gpuscope.program.types import Op


class EngineHost:
    """Host cost of the nodes of one program.

    Args:
        name: of the engine, see `gpuscope.program.onnx.engines`.
        launch_s: of one launch on this host.
    """

    def __init__(self, name: str, launch_s: float) -> None:
        self.node_s = engine_named(name).node_s or 0.0
        self.launch_s = launch_s

    def cost(self, op: Op, launches: int) -> HostCost:
        """Views and memory cost nothing: the engine laid both out when it loaded the model."""
        if not launches and not op.sync:
            return HostCost(0.0, 0.0, 0.0)
        return HostCost(self.node_s, self.launch_s, 0.0, op.sync)
