"""The device that JAX runs on, with what JAX can say of its memory."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError, require_package
from gpuscope.measurement.accelerator import Accelerator, processor_name

__all__ = ["JaxDevice", "choose_jax_device"]

_GPUS = ("gpu", "cuda", "rocm")


class JaxDevice(Accelerator):
    """One device of this process' JAX.

    Attributes:
        count: devices that JAX has; a sharded step takes several.
        waits_for: what to wait for, set by whoever runs steps.
    """

    def __init__(self, device: Any, count: int) -> None:
        self._device = device
        self.kind = "cuda" if device.platform in _GPUS else str(device.platform)
        self.index = int(device.local_hardware_id or 0) if self.is_gpu else 0
        self.name = str(device.device_kind) if self.is_gpu else processor_name()
        self.count = count
        self.waits_for: Callable[[], object] = lambda: None

    def use(self) -> None:
        """Make it the device of arrays that say none."""
        import jax

        jax.config.update("jax_default_device", self._device)

    def synchronize(self) -> None:
        """Wait for the last step."""
        self.waits_for()

    def reset_peaks(self) -> None:
        """JAX cannot begin anew with its peak."""

    def peak_allocated_bytes(self) -> int | None:
        """Most bytes that arrays and temporaries have held since JAX began."""
        return self._stat("peak_bytes_in_use")

    def peak_reserved_bytes(self) -> int | None:
        """None: JAX takes three quarters of the memory at its start, whatever the step."""
        return None

    def allocated_bytes(self) -> int | None:
        """Bytes held now."""
        return self._stat("bytes_in_use")

    def device_allocations(self) -> int | None:
        """None: the allocator never asks the device again."""
        return None

    def total_bytes(self) -> int | None:
        """None: what JAX tells is its own share of the memory."""
        return None

    def begun(self) -> bool:
        """True: whoever has asked JAX for its devices has begun with them."""
        return True

    def software(self) -> dict[str, str]:
        """Versions of what runs the step."""
        import jax

        return {
            "jax": str(jax.__version__),
            "jaxlib": version("jaxlib"),
            "backend": str(self._device.client.platform_version).split("\n")[0],
            "devices": str(self.count),
        }

    def _stat(self, name: str) -> int | None:
        found = (self._device.memory_stats() or {}).get(name)
        return None if found is None else int(found)


def choose_jax_device(asked: str | None = None) -> JaxDevice:
    """Return the device to measure on.

    Args:
        asked: "cpu", "cuda", "cuda:1", "gpu"; None takes this machine's GPU.

    Raises:
        MissingPackageError: JAX is not installed.
        UnsupportedError: there is no GPU that JAX can use.
        InvalidValueError: no such device.
    """
    require_package("jax", Text("Measuring a JAX function"), "jax")
    import jax

    name, _, number = (asked or "gpu").strip().lower().partition(":")
    if name not in ("cpu", *_GPUS) or (number and not number.isdecimal()):
        raise InvalidValueError(
            Text("'{asked}' is no device of JAX's.", asked=asked),
            Text("It has cpu, cuda, rocm."),
            Text("Type: --device cuda, or --device cpu"),
        )
    if name == "cpu":
        jax.config.update("jax_platforms", "cpu")
    try:
        there = jax.devices("cpu" if name == "cpu" else "gpu")
    except RuntimeError as error:
        raise UnsupportedError(
            Text("There is no GPU that JAX can use."),
            str(error).strip().split("\n")[0][:300],
            Text(
                "Type: gpuscope predict ... (needs no GPU); --device cpu to run it on the "
                'processor; or pip install "jax[cuda13]".'
            ),
        ) from error
    at = int(number or 0)
    if at >= len(there):
        raise InvalidValueError(
            Text("There is no device {kind}:{index}.", kind=name, index=at),
            Text("JAX sees {count}.", count=len(there)),
            Text("Type: --device {kind}:{count}", kind=name, count=len(there) - 1),
        )
    return JaxDevice(there[at], len(there))
