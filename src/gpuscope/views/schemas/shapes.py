"""Parts of documents that are written by hand rather than from a dataclass: what stands in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from gpuscope.document.text import Text
from gpuscope.learn.claims.types import Claimed, Judgement, Method
from gpuscope.program.types import Phase, Printed
from gpuscope.watch.energy_of import Method as Way
from gpuscope.watch.types import VerdictKind


class Captured(TypedDict):
    """A captured program, in short."""

    name: str
    task: str
    dtype: str
    compiled: str
    parameters: int
    operators: int
    samples: int | None
    tokens: int | None
    settings: Mapping[str, Any]
    unsupported: Sequence[str]
    first_step_extra_bytes: int | None
    capture_s: float
    printed: NotRequired[Printed]


class Tensor(TypedDict):
    """A tensor of a call."""

    shape: Sequence[int]
    stride: Sequence[int]
    dtype: str
    device: str


class Signature(TypedDict):
    """The tensors of a call."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]


class Calls(TypedDict):
    """Operators as columns; some are rows of the tables in `Operators`."""

    name: Sequence[int]
    module: Sequence[int]
    phase: Sequence[Phase]
    signature: Sequence[int]
    repeat: Sequence[int]
    recomputed: Sequence[bool]
    stream: Sequence[int]
    sync: Sequence[str]
    site: Sequence[int]


class Operators(TypedDict):
    """The operators of a timeline."""

    names: Sequence[str]
    modules: Sequence[str]
    sites: Sequence[str]
    signatures: Sequence[Signature]
    columns: Calls


class DeviceLink(TypedDict):
    """A link of a device."""

    id: str
    name: str
    bandwidth_bytes_per_s: float | None
    latency_s: float | None
    topology: str | None


class ModelEntry(TypedDict):
    """A built-in model."""

    name: str
    family: str
    description: str
    parameters: int | None
    tasks: Sequence[str]


class KeptEntry(TypedDict):
    """A captured program that is kept."""

    workload: str
    bytes: int
    used_s: float
    file: str


class CheckEntry(TypedDict):
    """A check of `doctor`."""

    name: str
    group: str
    about: str


class ClaimEntry(TypedDict):
    """A claim with its verdict."""

    id: str
    topic: Text
    topic_key: str
    claim: Text
    claimed: Claimed
    unit: str
    verdict: Judgement
    truth: Text | None
    evidence: Text
    method: Method
    sources: Sequence[str]
    values: Sequence[float]


class Grid(TypedDict):
    """Where the electricity came from."""

    code: str
    place: str
    g_per_kwh: float
    year: int
    source: str


class Used(TypedDict):
    """The energy that a device, or the host, took."""

    name: str
    index: int | None
    energy_j: float | None
    uncertainty_j: float | None
    average_w: float | None
    peak_w: float | None
    method: Way
    why_not: str | None


class SampledVerdict(TypedDict):
    """What a device seems to be limited by."""

    kind: VerdictKind
    sentence: Text
    sure: float


class SampledDevice(TypedDict):
    """A device at one moment; what was not read is left out."""

    info: Mapping[str, Any]
    reading: Mapping[str, Any]
    activity: Mapping[str, Any]
    verdict: NotRequired[SampledVerdict]
