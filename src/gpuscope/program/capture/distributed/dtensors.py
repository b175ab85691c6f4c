"""DTensors: they say "cuda", draw no random state, and learn shapes unseen."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

from gpuscope.program.capture.distributed import functional
from gpuscope.program.capture.patches import Patches


def install(patch: Patches, recorder: Any) -> None:
    """Prepare DTensor; imports it, so to be called when the first mesh is made."""
    from torch.distributed.tensor import DTensor, _random, _sharding_prop

    functional.says_what_it_holds(patch, DTensor, "_local_tensor")
    functional.not_tracing(patch)
    _shapes_unseen(patch, recorder, _sharding_prop.ShardingPropagator)
    _forget_answers()
    patch.on_undo(_forget_answers)
    _autocast(patch)

    @contextlib.contextmanager
    def region(self: Any, *args: Any, **kwargs: Any) -> Any:
        yield

    for kind in vars(_random).values():
        if isinstance(kind, type) and "_distribute_region" in vars(kind):
            patch.set(kind, "_distribute_region", region)


def _autocast(patch: Patches) -> None:
    """Autocast of the device goes for DTensors, too, which C++ takes for CPU tensors."""
    import torch

    enter, leave = torch.autocast.__enter__, torch.autocast.__exit__

    def enter_both(self: Any) -> Any:
        entered = enter(self)
        self._for_wrapped = None
        if self.device == "cuda":
            self._for_wrapped = torch.autocast("cpu", self.fast_dtype, self._enabled)
            enter(self._for_wrapped)
        return entered

    def leave_both(self: Any, *args: Any) -> Any:
        if getattr(self, "_for_wrapped", None) is not None:
            leave(self._for_wrapped, *args)
        return leave(self, *args)

    patch.set(torch.autocast, "__enter__", enter_both)
    patch.set(torch.autocast, "__exit__", leave_both)


def _shapes_unseen(patch: Patches, recorder: Any, propagator: Any) -> None:
    """DTensor runs operators on whole shapes, to learn the result's: no work of the device.

    Answers are kept: a later step asks for none, so their Python work is not counted. Questions
    without an answer are asked in every step: in inference mode composite operators (`linear`,
    `matmul`) reach DTensor whole; it looks for their sharding, by running them on fakes, fails,
    and takes them apart. That counts. The failure's frames hold tensors in cycles, which the
    collector, off during a capture, would soon find.
    """
    failed = [False]
    for name in ("propagate_op_sharding_non_cached", "_propagate_tensor_meta_non_cached"):
        original = vars(propagator).get(name)
        if original is None:
            continue

        def unseen(*args: Any, inner: Any = original, **kwargs: Any) -> Any:
            if failed[0]:
                failed[0] = False
                with _uncounted(recorder.python):
                    gc.collect(1)
            with recorder.looking_away(), recorder.python.counting_failures(NotImplementedError):
                try:
                    return inner(*args, **kwargs)
                except NotImplementedError:
                    failed[0] = True
                    raise

        patch.set(propagator, name, unseen)


@contextlib.contextmanager
def _uncounted(python: Any) -> Any:
    python.pause()
    try:
        yield
    finally:
        python.resume()


def _forget_answers() -> None:
    """Answers do not outlive a capture.

    They are about its mesh: an equal mesh of another rank has groups of other names, and comparing
    with it takes longer than with the same.
    """
    from torch.distributed.tensor import _redistribute, debug

    for module, name in (
        (debug, "_clear_sharding_prop_cache"),
        (debug, "_clear_python_sharding_prop_cache"),
        (getattr(_redistribute, "_gen_transform_infos", None), "cache_clear"),
    ):
        clear = getattr(module, name, None)
        if clear is not None:
            clear()
