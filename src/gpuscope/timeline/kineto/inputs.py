"""What operators were called with: tensors and values, from the lists that a trace holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from gpuscope.program.types import TensorSpec, row_major
from gpuscope.timeline.kineto.table import Spec

DTYPES: Mapping[str, str] = {
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "bfloat16": "bfloat16",
    "complexhalf": "complex32",
    "complexfloat": "complex64",
    "complexdouble": "complex128",
    "long int": "int64",
    "unsigned char": "uint8",
    "signed char": "int8",
    "short int": "int16",
    "c10::bfloat16": "bfloat16",
    "c10::half": "float16",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::complex<c10::half>": "complex32",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "unsigned long int": "uint64",
    "long long": "int64",
}
"""PyTorch's dtypes by the names of its scalar types and of their C++ types, in small letters."""


def torch_dtype(word: str) -> str:
    """Torch's name of a dtype that a trace names its own way; "" for what is none."""
    plain = word.strip().lower()
    found = DTYPES.get(plain)
    if found is not None:
        return found
    bare = plain.removeprefix("c10::")
    return bare if re.fullmatch(r"(?:float|int|uint|bfloat|q?u?int)\d\w*", bare) else ""


def tensors_of(spec: Spec) -> tuple[TensorSpec, ...]:
    """The tensors that an operator was called with, lists flattened."""
    return inputs_of(spec)[0]


def inputs_of(spec: Spec) -> tuple[tuple[TensorSpec, ...], tuple[str, ...]]:
    """The tensors of an operator's inputs, and the values of all its arguments as text."""
    dims, types, strides, concrete = (_list(text) for text in spec)
    tensors: list[TensorSpec] = []
    for i, shape in enumerate(dims):
        word = types[i] if i < len(types) and isinstance(types[i], str) else ""
        stride = strides[i] if i < len(strides) else None
        tensors += _tensors(shape, word, stride)
    values = tuple(value if isinstance(value, str) else "" for value in concrete)
    return tuple(tensors), values if any(values) else ()


def _list(text: bytes) -> list[Any]:
    if not text:
        return []
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _tensors(shape: object, word: str, stride: object) -> list[TensorSpec]:
    """One argument's tensors: one, those of a list, or none for a number."""
    if not isinstance(shape, list):
        return []
    if shape and all(isinstance(entry, list) for entry in shape):
        inner = stride if isinstance(stride, list) and len(stride) == len(shape) else []
        return [
            tensor
            for i, entry in enumerate(shape)
            for tensor in _tensors(entry, word, inner[i] if inner else None)
        ]
    if not all(isinstance(n, int) and 0 <= n < 1 << 62 for n in shape):
        return []
    dtype = torch_dtype(word)
    if not shape and (not dtype or word in ("Int", "Double", "Bool", "Long")):
        return []  # a number of Python's; the traces of 2021 name those with a capital
    steps = cast(list[int], stride) if _fits(stride, shape) else row_major(shape)
    return [TensorSpec(tuple(shape), tuple(steps), dtype or "unknown")]


def _fits(stride: object, shape: list[int]) -> bool:
    return (
        isinstance(stride, list)
        and len(stride) == len(shape)
        and all(isinstance(n, int) and abs(n) < 1 << 62 for n in stride)
    )
