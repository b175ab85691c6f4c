"""What a user's script imports when a patch needs more than PyTorch: small, public and stable.

Each function does in the user's code what a change of `gpuscope.advice` predicted and tried;
`StepTimes` is for callbacks of training frameworks.
Nothing here needs the rest of gpuscope, and torch is imported when a function is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_WHERE = {
    "add_experts": "gpuscope.runtime.grouped_experts",
    "late": "gpuscope.runtime.late_values",
    "pad_output": "gpuscope.runtime.padded_output",
    "StepTimes": "gpuscope.runtime.step_times",
}
"""Public names and the module that holds each."""

__all__ = ["StepTimes", "add_experts", "late", "pad_output"]

if TYPE_CHECKING:
    from gpuscope.runtime.grouped_experts import add_experts
    from gpuscope.runtime.late_values import late
    from gpuscope.runtime.padded_output import pad_output
    from gpuscope.runtime.step_times import StepTimes


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'gpuscope.runtime' has no attribute '{name}'")
