"""Sparse tensors: results that fakes get wrong, or whose size depends on data.

A sparse tensor is written down as what it is made of, where its values are and these; an operator
on one carries ".sparse" in its name, and costs what its bytes take. PyTorch's shape rules make
every sparse result an empty one: how many values it has is said here, or it is refused.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError
from gpuscope.program.capture.calls import Facts, flat

_PRODUCTS = {
    "aten::mm": (0, 1),
    "aten::mv": (0, 1),
    "aten::bmm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::addmv": (1, 2),
    "aten::_sparse_addmm": (1, 2),
    "aten::_sparse_mm": (0, 1),
}
"""Products, and which arguments are multiplied."""

_AS_MANY = frozenset(
    """t transpose permute clone _to_copy mul div neg abs sqrt pow relu sin tanh exp sigmoid detach
    alias _coalesced _sparse_softmax _sparse_log_softmax zeros_like sign
    sparse_mask _sparse_coo_tensor_with_dims_and_tensors native_dropout dropout""".split()
)
"""Operators whose result has as many values as their first sparse argument."""

_LOOSE = frozenset("t transpose permute".split())
"""Of them those after which places are no longer in order
(aten/src/ATen/native/TensorShape.cpp, `sparse_transpose_`)."""

_LEFT = frozenset("clone _to_copy mul div detach alias sparse_mask zeros_like".split())
"""Those that leave places as they were; the others join equal places first."""

_PLAIN = frozenset(
    """_indices _values indices values is_coalesced _nnz sparse_dim dense_dim _to_dense to_dense
    is_same_size sum""".split()
)
"""Operators that PyTorch's shape rules are right for."""


def run(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    """The result of an operator on sparse tensors, or NotImplemented where PyTorch knows it.

    Raises:
        CaptureError: it makes a sparse tensor of a size that nobody knows.
    """
    if facts.name in _PRODUCTS:
        a, b = (args[at] for at in _PRODUCTS[facts.name])
        dense = next((t for t in (b, a) if t.layout is torch.strided), None)
        if dense is not None:
            return dense.new_empty((*a.shape[:-1], *b.shape[a.dim() - 1 :]))
    if facts.name == "aten::_to_sparse" and args[0].layout is torch.strided:
        x = args[0]
        found = recorder.values.count_nonzero(recorder._storage_id(x), x.numel())
        places = x.new_empty((x.dim(), found), dtype=torch.int64)
        return _made(places, x.new_empty(found), x.shape)
    if facts.name == "aten::_coalesce":
        return _coalesced(recorder, args[0])
    given = [t for t in flat(args) if isinstance(t, torch.Tensor) and t.layout is torch.sparse_coo]
    base = facts.name.removeprefix("aten::")
    if base == "add_" and given and args[0].layout is torch.strided:
        return args[0]  # as plain SGD adds a sparse gradient
    if facts.writes or not given or base in _PLAIN or base.startswith("_sparse_coo"):
        return NotImplemented
    if base == "_sparse_sum":
        return _summed(recorder, given[0], args[1] if len(args) > 1 else None)
    if base == "add" and args[0].layout is torch.strided:
        return torch.empty_like(args[0])
    if base in ("_sparse_sparse_matmul", "mm", "_sparse_mm") and len(given) == 2:
        return _product(recorder, *given)
    if base == "cat":
        return _filled(func, args, kwargs, given[0], sum(t._nnz() for t in given))
    if base == "index_select":
        return _filled(func, args, kwargs, given[0], _share(recorder, *args))
    if base in _AS_MANY:
        joined = base not in _LOOSE and (base not in _LEFT or given[-1].is_coalesced())
        return _filled(func, args, kwargs, given[0], given[0]._nnz(), joined)
    if base in ("add", "sub") and len(given) == 2:
        return _filled(func, args, kwargs, given[0], given[0]._nnz() + given[1]._nnz(), False)
    raise CaptureError(
        Text(
            "gpuscope cannot follow the operator '{operator}' on sparse tensors yet.",
            operator=facts.name,
        ),
        Text("How many values its result has depends on data."),
        Text("Predict with dense tensors there (.to_dense()), or leave it out."),
    )


def taken_apart(name: str, args: Any, kwargs: Any) -> Any:
    """A dense and a sparse tensor, as CUDA takes them apart; NotImplemented where it does not.

    `x.sparse_mask(y)` multiplies what it picks of `x` by ones (aten/src/ATen/native/sparse/
    SparseTensor.cpp, SparseTensorMath.cpp). `x.add_(y)` of places that may be equal adds its rows
    by index (SparseCUDATensorMath.cu, `add_out_dense_sparse_cuda`); of places in order it is one
    kernel. Both for one sparse dimension, as gradients of embeddings have.
    """
    x, sparse = args[:2]
    if x.layout is not torch.strided or not _is_coo(sparse) or sparse.sparse_dim() != 1:
        return NotImplemented
    places, values = sparse._indices(), sparse._values()
    if name == "aten::sparse_mask":
        ones = x.new_ones(1)
        picked = x[places[0]]
        kept = picked.mul(ones.expand_as(picked))
        return _made(places.clone(), kept, sparse.shape, sparse.is_coalesced())
    if sparse.is_coalesced():
        return NotImplemented
    if kwargs.get("alpha", 1) != 1:
        values = values.mul(kwargs["alpha"])
    return x.index_add_(0, places[0], values)


def _is_coo(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.sparse_coo


def _coalesced(recorder: Any, x: torch.Tensor) -> Any:
    """Places drawn evenly, of which some are drawn twice: N (1 - (1 - 1/N)^n) of N are there."""
    recorder.values.assume(
        Text("Sparse tensors are taken to name evenly drawn places: coalescing joins equal ones.")
    )
    values = x._values()
    room = math.prod(x.shape[: x.sparse_dim()])
    drawn = room * -math.expm1(x._nnz() * math.log1p(-1 / room)) if room > 1 else 1.0
    count = max(1, min(x._nnz(), round(drawn)))
    places = values.new_empty((x.sparse_dim(), count), dtype=torch.int64)
    return _made(places, values.new_empty((count, *values.shape[1:])), x.shape)


_EVEN = Text("Sparse tensors that are multiplied or selected from hold their values spread evenly.")


def _product(recorder: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
    """Two sparse matrices multiplied: values spread evenly meet in their common dimension."""
    recorder.values.assume(_EVEN)
    met = math.ceil(a._nnz() * b._nnz() / max(1, a.shape[1]))
    shape = torch.Size((a.shape[0], b.shape[1]))
    values = a._values()
    count = min(met, math.prod(shape))
    return _made(values.new_empty((2, count), dtype=torch.int64), values.new_empty(count), shape)


def _share(recorder: Any, x: torch.Tensor, dim: int, index: torch.Tensor) -> int:
    """Values left of some rows or columns."""
    recorder.values.assume(_EVEN)
    return math.ceil(x._nnz() * index.numel() / max(1, x.shape[dim]))


def _summed(recorder: Any, x: torch.Tensor, over: Any) -> Any:
    """`torch.sparse.sum`: dense where no sparse dimension is left."""
    values = x._values()
    if not isinstance(over, (list, tuple)):
        return values.new_empty(())
    dims = {d % x.dim() for d in over}
    left = [d for d in range(x.sparse_dim()) if d not in dims]
    dense = [n for d, n in enumerate(x.shape) if d >= x.sparse_dim() and d not in dims]
    if not left:
        return values.new_empty(dense)
    kept = [x.shape[d] for d in left]
    count = min(x._nnz(), math.prod(kept))
    recorder.values.assume(
        Text("Sums over sparse tensors are taken to leave as many values as can be.")
    )
    places = values.new_empty((len(left), count), dtype=torch.int64)
    return _made(places, values.new_empty((count, *dense)), torch.Size((*kept, *dense)))


def _filled(
    func: Any, args: Any, kwargs: Any, first: torch.Tensor, count: int, joined: bool = True
) -> Any:
    """A sparse result with so many values; its shape and type are those of dense arguments.

    Args:
        func: the operator.
        args: its arguments.
        kwargs: those by name.
        first: the sparse tensor that it is made of.
        count: values.
        joined: whether its places are in order and none is there twice.
    """

    def dense(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.empty(tuple(value.shape), dtype=value.dtype, device="meta")
        return value

    shape, dtype = first.shape, first.dtype
    kept = {k: v for k, v in kwargs.items() if k not in ("device", "layout")}
    try:
        with no_dispatch():
            out = func(*(dense(a) for a in args), **kept)
        shape, dtype = out.shape, out.dtype
    except (RuntimeError, NotImplementedError, TypeError):
        pass  # for sparse tensors alone: of the shape of its argument
    values = first._values()
    there = torch.device(kwargs["device"]) if kwargs.get("device") else values.device
    made = values.new_empty((count, *values.shape[1:]), dtype=dtype, device=there)
    places = made.new_empty((first.sparse_dim(), count), dtype=torch.int64)
    return _made(places, made, shape, joined)


def _made(
    places: torch.Tensor, values: torch.Tensor, shape: torch.Size, joined: bool = True
) -> Any:
    return torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors.default(
        places.shape[0],
        values.dim() - 1,
        shape,
        places,
        values,
        dtype=values.dtype,
        layout=torch.sparse_coo,
        device=values.device,
        is_coalesced=joined,
    )
