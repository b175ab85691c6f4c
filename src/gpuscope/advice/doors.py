"""Changes of programs that are no PyTorch code: what is asked of an engine, or of a JAX build.

They act on no running code: an `OnnxChange` says what becomes of a graph and of what runs it, a
`JaxChange` what the user's build function is asked for. Both are predicted anew, and both say what
to type.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NoReturn

from gpuscope.advice.change import Change
from gpuscope.advice.types import ChangeCase, Door
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live
    from gpuscope.program.jax.arguments import BuildArguments
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["CALLED", "JaxChange", "OnnxChange"]

CALLED = {"torch": Text("PyTorch code"), "onnx": Text("ONNX graphs"), "jax": Text("JAX steps")}
"""What each door's programs are called."""


class _NotLive(Change):
    """A change that no running code can be told."""

    def install(self, live: Live) -> NoReturn:
        """Refuse."""
        raise UnsupportedError(
            Text("'{name}' is no change of running code.", name=self.name),
            Text("It is for {programs}.", programs=CALLED[self.door]),
            Text("Type: gpuscope advise WORKLOAD --only {name}", name=self.name),
        )


class OnnxChange(_NotLive):
    """A change of a graph, or of how an engine runs it."""

    door: Door = "onnx"

    @abstractmethod
    def changed(self, build: OnnxBuild) -> OnnxBuild:
        """What is captured instead."""

    @abstractmethod
    def typed(self, case: ChangeCase) -> Text | None:
        """What the user types to make it."""


class JaxChange(_NotLive):
    """A change of what the build function of a JAX step is asked for; XLA compiles it anew."""

    door: Door = "jax"
    compiles = True

    @abstractmethod
    def asked(self, options: WorkloadOptions, arguments: BuildArguments) -> WorkloadOptions:
        """What is asked instead.

        Args:
            options: as asked before.
            arguments: those that the function has, see `BuildArguments`.
        """
