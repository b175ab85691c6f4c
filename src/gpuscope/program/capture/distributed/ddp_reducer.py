"""DDP's reducer, which is C++ and reads real memory, as what it does to tensors.

Follows torch/csrc/distributed/c10d/reducer.cpp: each gradient is divided while it is copied into
its bucket; a bucket whose last gradient has come is reduced, in the buckets' order; when the
backward pass is over each bucket is waited for and copied back. Buckets are rebuilt once, in the
order in which gradients came. A real reducer does so when the next forward pass begins; here it is
done at the end of the first backward pass, so that the recorded step is one as all later ones.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError
from gpuscope.program.capture.distributed.ddp_buckets import (
    Bucket,
    GradBucket,
    builtin_hook,
    by_size,
    reached,
    shares,
)

Hook = Callable[[Any, Any], Any]


class Reducer:
    """As `torch.distributed.Reducer` is made and used by `DistributedDataParallel`.

    Attributes:
        group: the process group that reduces.
        buckets: in the order in which they are reduced.
        storages: told what the buckets hold.
    """

    storages: Any = None

    def __init__(
        self,
        params: Sequence[torch.Tensor],
        bucket_indices: Sequence[Sequence[int]],
        per_bucket_size_limits: Sequence[int],
        process_group: Any,
        expect_sparse_gradients: Sequence[bool] = (),
        bucket_bytes_cap: int = 25 * 2**20,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        param_to_name_mapping: Any = None,
        first_bucket_bytes_cap: int = 2**20,
        skip_all_reduce_unused_params: bool = False,
        use_python_reducer: bool = False,
        bucket_bytes_cap_list: Sequence[int] = (),
        batched_grad_copy: bool = False,
    ) -> None:
        if any(expect_sparse_gradients):
            raise WorkloadError(
                Text("DistributedDataParallel with sparse gradients cannot be captured."),
                Text(
                    "NCCL reduces no sparse tensors; an embedding of the model was made with "
                    "sparse=True."
                ),
                Text("Make it with sparse=False."),
            )
        self.group = process_group
        self._params = list(params)
        self._views = gradient_as_bucket_view
        self._find_unused = find_unused_parameters
        self._skip_unused = skip_all_reduce_unused_params
        self._batched = batched_grad_copy
        self._limits = list(bucket_bytes_cap_list) or [first_bucket_bytes_cap, bucket_bytes_cap]
        self._dtype: Any = None
        self._static = False
        self._rebuilt = self._told_rebuilt = False
        self._passes = 0
        self._expected: dict[int, int] = {}
        self._left: dict[int, int] = {}
        self._hook: Hook | None = None
        self._state: Any = None
        self._join: tuple[Any, bool] | None = None
        self._futures: list[Any] = []
        self._waiting = self._finalize = self._marked = False
        self._unused: list[int] = []
        self._used_map: torch.Tensor | None = None
        self._used_work: Any = None
        self._divisor = 0
        self._next = 0
        self._order: list[int] = []
        self._batch: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._make_buckets(bucket_indices)
        self._listen()

    # ---- buckets --------------------------------------------------------------------------

    def _make_buckets(self, assigned: Sequence[Sequence[int]]) -> None:
        self.buckets = [
            Bucket([self._params[at] for at in indices], indices, self._dtype)
            for indices in assigned
        ]
        self._place = {
            at: (bucket, number)
            for bucket in self.buckets
            for number, at in enumerate(bucket.indices)
        }
        if self.storages is not None:
            category = "gradient" if self._views else "communication"
            for bucket in self.buckets:
                self.storages.see(bucket.flat, True, "", "DDP bucket", "other")
                self.storages.mark(bucket.flat, category, "DDP bucket")

    def _rebuild(self) -> None:
        """Buckets in the order in which gradients came; gradients that are views move along."""
        if self._rebuilt or (self._find_unused and not self._static):
            return
        if len(self._order) != len(self._params):
            return
        ordered = [self._params[at] for at in self._order]
        limits = list(self._limits)
        last_is_small = os.environ.get("DDP_SET_LAST_BUCKET_CAP") == "1"
        if last_is_small:
            ordered, indices = ordered[::-1], self._order[::-1]
        else:
            indices = list(self._order)
        assigned = by_size(ordered, limits, (), indices)
        if last_is_small:
            assigned = [bucket[::-1] for bucket in assigned[::-1]]
        self._make_buckets(assigned)
        self._rebuilt = True
        if self._views:
            for bucket in self.buckets:
                for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
                    if parameter.grad is not None:
                        parameter.grad = view

    def _listen(self) -> None:
        """Hear of each gradient, after it was accumulated."""
        me = weakref.ref(self)

        def came(index: int, *_: Any) -> None:
            reducer = me()
            if reducer is not None:
                reducer._autograd_hook(index)

        self._nodes = [torch.autograd.graph.get_gradient_edge(p).node for p in self._params]
        self._handles = [
            node.register_hook(partial(came, index)) for index, node in enumerate(self._nodes)
        ]

    # ---- what DDP calls -------------------------------------------------------------------

    def set_logger(self, logger: Any) -> None:
        """Nothing is logged."""

    def prepare_for_forward(self) -> None:
        """Counts passes; no device work."""

    def _rebuild_buckets(self) -> bool:
        """Whether buckets were rebuilt since the last call."""
        if self._rebuilt and not self._told_rebuilt:
            self._told_rebuilt = True
            return True
        return False

    def _push_all_rebuilt_params(self) -> None:
        self._order = list(range(len(self._params)))
        self._rebuild()

    def prepare_for_backward(self, outputs: Sequence[torch.Tensor]) -> None:
        """A forward pass is over whose gradients are to be reduced."""
        if self._finalize:
            raise RuntimeError(
                "DistributedDataParallel has not reduced all gradients of the backward pass before:"
                " some parameters got none. Pass find_unused_parameters=True, or use all outputs"
                " of forward in the loss."
            )
        self._waiting, self._marked = True, False
        self._passes += 1
        self._next = 0
        for bucket in self.buckets:
            bucket.pending = len(bucket.indices)
        self._order = [] if not self._rebuilt else self._order
        self._left = dict(self._expected)
        if self._find_unused and not self._static:
            used = set(reached(outputs))
            self._unused = [i for i, p in enumerate(self._params) if id(p) not in used]

    def _autograd_hook(self, index: int) -> None:
        """A parameter's gradient is there."""
        if self._static and self._passes <= 1:
            self._expected[index] = self._expected.get(index, 0) + 1
            self._order = [at for at in self._order if at != index] + [index]
            return
        if not self._waiting:
            return
        if self._static and self._left:
            self._left[index] -= 1
            if self._left[index]:
                return
        if not self._rebuilt:
            self._order.append(index)
        if not self._marked:
            self._marked = True
            for at in self._unused:
                self._ready(at)
        self._ready(index)

    def _delay_all_reduce(self) -> None:
        """The first pass of a static graph: everything is reduced at its end."""
        self._order += [i for i in range(len(self._params)) if i not in self._expected]
        self._unused = [i for i in range(len(self._params)) if i not in self._expected]
        for bucket in self.buckets:
            bucket.pending = len(bucket.indices)
        self._finalize = True
        for index in range(len(self._params)):
            self._into_bucket(index)
        for number in range(len(self.buckets)):
            self._reduce(number)
        self._finish()

    def register_hook(self, state: Any, hook: Hook) -> None:
        """Reduce buckets by the user's function."""
        if self._hook is not None:
            raise RuntimeError("A communication hook can be registered only once.")
        self._state, self._hook = state, hook

    def register_builtin_hook(self, kind: Any) -> None:
        """torch's own hooks: a plain all-reduce, or one in half precision."""
        half = "FP16" in str(kind)
        self.register_hook(None, partial(builtin_hook, self.group, half))

    def _set_static_graph(self) -> None:
        self._static = True

    def _ddp_graph_static(self) -> bool:
        return not self._unused

    def _set_mixed_precision_param_dtype(self, dtype: Any) -> None:
        self._dtype = dtype
        self._make_buckets([bucket.indices for bucket in self.buckets])

    def _set_forward_pass_work_handle(self, work: Any, static_world_size: bool) -> None:
        self._join = (work, static_world_size)

    def _install_post_backward_futures(self, futures: Sequence[Any]) -> None:
        self._futures = list(futures)

    def _set_optimizer_in_backward(self) -> None:
        """The optimizer runs in the hook; its parameters' gradients are its own."""
        self._in_backward = True

    def _remove_autograd_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _check_reducer_finalized(self) -> None:
        if self._finalize:
            raise RuntimeError("The reduction of the backward pass is not over.")

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        """Nothing is sampled."""

    def _set_sparse_metadata(self, metadata: Any) -> None:
        """No sparse gradients here."""

    def _reset_state(self) -> None:
        self._rebuilt = self._told_rebuilt = self._finalize = False
        self._order, self._passes = [], 0

    def _update_process_group(self, group: Any) -> None:
        self.group = group

    def _get_local_used_map(self) -> torch.Tensor:
        return self._map()

    def _get_zeros_like_grad_buckets(self) -> list[GradBucket]:
        made = self._grad_buckets()
        for bucket in made:
            bucket.set_buffer(torch.zeros_like(bucket.buffer()))
        return made

    def _grad_buckets(self) -> list[GradBucket]:
        last = len(self.buckets) - 1
        return [GradBucket(b, at, at == last) for at, b in enumerate(self.buckets)]

    def _run_comm_hook(self, bucket: GradBucket) -> Any:
        if self._hook is None:
            return self._run_allreduce_hook(bucket)
        return self._hook(self._state, bucket)

    def _run_allreduce_hook(self, bucket: GradBucket) -> Any:
        return self.group.allreduce([bucket.buffer()]).get_future()

    # ---- a backward pass ------------------------------------------------------------------

    def _divide_by(self) -> int:
        if not self._divisor:
            self._divisor = int(self.group.size())
            if self._join is not None and not self._join[1]:
                work = self._join[0]
                work.wait()
                self._divisor = max(1, int(work.result()[0].item()))
        return self._divisor

    def _ready(self, index: int) -> None:
        self._finalize = True
        bucket, _ = self._place[index]
        self._into_bucket(index)
        bucket.pending -= 1
        while self._next < len(self.buckets) and not self.buckets[self._next].pending:
            self._reduce(self._next)
            self._next += 1
        if self._next == len(self.buckets):
            self._next += 1  # only once
            if self._find_unused and not self._static:
                self._reduce_used_map()
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _into_bucket(self, index: int) -> None:
        """Copy a gradient into its bucket, divided by the number of ranks."""
        bucket, number = self._place[index]
        parameter, view = self._params[index], bucket.views[number]
        gradient = parameter.grad
        with torch.no_grad():
            if gradient is None:
                view.zero_()
            elif shares(gradient, view):
                if self._hook is None:
                    view.div_(self._divide_by())
            elif self._batched:
                self._batch.append((view, gradient.detach()))
            elif self._hook is None:
                torch.mul(gradient.detach(), 1.0 / self._divide_by(), out=view)
            else:
                view.copy_(gradient)
        if gradient is not None and self._views and not shares(gradient, view):
            parameter.grad = view

    def _flush(self, bucket: Bucket) -> None:
        """Deferred copies into a bucket, in one operator, and one division."""
        if not self._batch:
            return
        with torch.no_grad():
            views, gradients = zip(*self._batch, strict=True)
            torch._foreach_copy_(list(views), list(gradients))
            if self._hook is None:
                bucket.flat.div_(self._divide_by())
        self._batch = []

    def _reduce(self, number: int) -> None:
        bucket = self.buckets[number]
        self._flush(bucket)
        given = GradBucket(bucket, number, number == len(self.buckets) - 1)
        bucket.future = self._run_comm_hook(given)

    def _map(self) -> torch.Tensor:
        """Which parameters were used, one number each, on the device."""
        if self._used_map is None:
            device = self._params[0].device
            self._used_map = torch.zeros(len(self._params), dtype=torch.int32, device=device)
        return self._used_map

    def _reduce_used_map(self) -> None:
        with torch.no_grad():
            pinned = torch.zeros(len(self._params), dtype=torch.int32).pin_memory()
            self._map().copy_(pinned, non_blocking=True)
        self._used_work = self.group.allreduce([self._map()])

    def _finish(self) -> None:
        """The backward pass is over: wait for each bucket and give its gradients back."""
        self._waiting = self._finalize = False
        waited = self._used_work is None
        unused = set(self._unused)
        for bucket in self.buckets:
            bucket.future.wait()
            result = bucket.future.value()
            flat = result[0] if isinstance(result, (list, tuple)) else result
            bucket.future = None
            if not waited and unused.intersection(bucket.indices):
                waited = True
                self._used_work.wait()
                self._map().to("cpu")
            self._out_of_bucket(bucket, flat, unused)
        for future in self._futures:
            future.wait()
        if not waited:
            self._used_work.wait()
        self._futures, self._used_work, self._join = [], None, None
        self._divisor = 0
        self._rebuild()

    def _out_of_bucket(self, bucket: Bucket, flat: torch.Tensor, unused: set[int]) -> None:
        """Copy reduced gradients back, unless they are views of what was reduced.

        A parameter that no rank used keeps its gradient; one unused here is taken as unused
        everywhere.
        """
        given = bucket.views if flat is bucket.flat else bucket.views_of(flat)
        with torch.no_grad():
            for number, view in enumerate(given):
                parameter = bucket.parameters[number]
                if bucket.indices[number] in unused:
                    continue
                if self._views:
                    if not shares(view, bucket.views[number]):
                        bucket.views[number].copy_(view)
                    parameter.grad = bucket.views[number]
                elif parameter.grad is None:
                    parameter.grad = view.clone()
                else:
                    parameter.grad.copy_(view)
