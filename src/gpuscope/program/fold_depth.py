"""Which layers of a model repeat, read from the modules of the whole model.

The whole model is built once under fakes, which costs a few milliseconds a layer (a capture
costs over a hundred), and its first module call is stopped. So nothing has to be told about a
model: dense leading layers, alternating attention and several stacks are seen in the modules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuscope.program.fold_layers import NotFoldableError, Stack
from gpuscope.program.types import ModuleInfo
from gpuscope.program.world import World

__all__ = [
    "Tree",
    "check_shallow",
    "least_captured",
    "read_tree",
    "shallow_depth",
    "stacks_of",
    "varying_lists",
]

_PERIODS = range(1, 9)
_LEADS = range(1, 9)
_INDEX_NAMES = ("idx", "index", "layer_id", "layer_number", "block_id")

Build = Callable[[], Callable[[], object]]


class _FirstCall(BaseException):
    """Carries the first module that is called out of the step."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module


@dataclass(frozen=True, slots=True)
class Tree:
    """The modules of a model.

    Attributes:
        infos: every module, root first.
        parameters: number of parameters (elements), tied ones once.
        lists: what each layer of each list of layers is made of, by path of the list; lists inside
            of lists are part of their layers. Equal entries mean equal layers.
        rest: what lies outside of those lists.
        built_bytes: the most device memory that was held while all was made.
    """

    infos: tuple[ModuleInfo, ...]
    parameters: int
    lists: dict[str, list[object]]
    rest: list[object]
    built_bytes: int = 0


def read_tree(build: Build, world: World | None = None) -> Tree:
    """The modules of the model that a workload calls; nothing is computed.

    Args:
        build: the workload.
        world: the job that it is a rank of; None: one process without torchrun.

    Raises:
        NotFoldableError: the step calls no module.
    """
    from torch.nn.modules.module import register_module_forward_pre_hook

    from gpuscope.program.capture import _capturing
    from gpuscope.program.capture.patches import here

    def stop(module: Any, args: Any) -> None:
        if here():  # not a module of another thread
            raise _FirstCall(module)

    with _capturing(False, world) as recorder:
        step = build()
        held = recorder.storages.held.ever_bytes
        handle = register_module_forward_pre_hook(stop)
        try:
            step()
        except _FirstCall as found:
            return replace(tree_of(found.module), built_bytes=held)
        finally:
            handle.remove()
    raise NotFoldableError("the step calls no module")


def tree_of(root: Any) -> Tree:
    """The modules under `root`."""
    from torch.nn import ModuleList, Sequential

    infos: list[ModuleInfo] = []
    lists: dict[str, list[object]] = {}
    rest: list[object] = []
    members: dict[str, list[Any]] = {}
    for path, module in root.named_modules():
        own = sum(p.numel() for p in module.parameters(recurse=False))
        infos.append(ModuleInfo(path, type(module).__name__, own))
        owner = next((p for p in members if path.startswith(p + ".")), None)
        if owner is not None:
            continue
        if path and isinstance(module, (ModuleList, Sequential)) and len(module) > 1:
            members[path] = list(module.children())
        else:
            rest.append((path, *_made_of(module, None)))
    config = _per_layer_settings(root)
    for path, layers in members.items():
        lists[path] = [
            (
                tuple((n, *_made_of(m, number)) for n, m in layer.named_modules()),
                tuple((k, v[number]) for k, v in config.items() if len(v) == len(layers)),
            )
            for number, layer in enumerate(layers)
        ]
    parameters = {id(p): p.numel() for p in root.parameters()}
    return Tree(tuple(infos), sum(parameters.values()), lists, rest)


def _made_of(module: Any, layer: int | None) -> tuple[object, ...]:
    """Class, tensors and plain attributes of one module, without the layer's own number."""
    tensors = tuple(
        (name, tuple(t.shape), str(t.dtype), t.requires_grad)
        for name, t in (*module._parameters.items(), *module._buffers.items())
        if t is not None
    )
    plain = []
    for name, value in vars(module).items():
        if isinstance(value, (bool, int, float, str)) or _is_plain_tuple(value):
            numbered = type(value) is int and value == layer
            if not (numbered and any(part in name for part in _INDEX_NAMES)):
                plain.append((name, str(value)))
    return type(module).__qualname__, tensors, tuple(plain)


def _is_plain_tuple(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(
        isinstance(v, (bool, int, float, str)) for v in value
    )


def _per_layer_settings(root: Any) -> dict[str, list[str]]:
    """Lists in the model's configuration that may hold one entry per layer."""
    config = getattr(root, "config", None)
    return (
        {
            name: [str(v) for v in value]
            for name, value in vars(config).items()
            if isinstance(value, (list, tuple))
        }
        if config is not None
        else {}
    )


def varying_lists(whole: Tree, probe: Tree, depth: int) -> dict[str, list[object]]:
    """The lists of layers of `whole` that have `depth` layers in `probe`.

    Raises:
        NotFoldableError: there are none, or a list has another length at that depth.
    """
    out = {}
    for path, layers in whole.lists.items():
        found = len(probe.lists.get(path, ()))
        if found == len(layers):
            continue
        if found != depth:
            raise NotFoldableError(f"'{path}' has {found} layers at depth {depth}")
        out[path] = layers
    if not out:
        raise NotFoldableError("no list of layers changes with the depth")
    return out


def shallow_depth(lists: dict[str, list[object]]) -> int:
    """The smallest depth at which every list shows two equal periods between other layers.

    Raises:
        NotFoldableError: a list's layers follow no pattern.
    """
    low = max(_smallest_depth(path, layers) for path, layers in lists.items())
    for depth in range(low, low + max(_PERIODS) ** 2):
        try:
            stacks_of(lists, depth)
        except NotFoldableError:
            continue
        return depth
    raise NotFoldableError("no depth suits all lists of layers")


def least_captured() -> int:
    """Layers that are captured at least, in two captures, to see that any model repeats."""
    period = min(_PERIODS)
    return 2 * (min(_LEADS) + 2 * period + 1) - period


def _smallest_depth(path: str, layers: list[object]) -> int:
    for depth in range(min(_LEADS) + 2 * min(_PERIODS) + 1, len(layers)):
        if _stack(path, layers, depth) is not None:
            return depth
    raise NotFoldableError(f"the layers of '{path}' follow no pattern")


def stacks_of(lists: dict[str, list[object]], depth: int) -> list[Stack]:
    """How each list is cut at a shallow depth.

    Raises:
        NotFoldableError: the depth does not suit a list.
    """
    out = []
    for path, layers in lists.items():
        stack = _stack(path, layers, depth)
        if stack is None:
            raise NotFoldableError(f"{depth} layers do not show the pattern of '{path}'")
        out.append(stack)
    return out


def _stack(path: str, layers: list[object], depth: int) -> Stack | None:
    for period in _PERIODS:
        if depth > len(layers) or (len(layers) - depth) % period:
            continue
        for lead in _LEADS:
            tail = depth - lead - 2 * period
            if tail < 1:
                break
            end = len(layers) - tail
            if all(layers[i] == layers[i + period] for i in range(lead, end - period)):
                return Stack(path, lead, period, tail, (len(layers) - depth) // period)
    return None


def check_shallow(stacks: list[Stack], whole: Tree, shallow: Tree) -> None:
    """Make sure that the shallow model is the whole one without the layers in the middle.

    Raises:
        NotFoldableError: it is not.
    """
    if whole.rest != shallow.rest or whole.lists.keys() != shallow.lists.keys():
        raise NotFoldableError("more than the number of layers changes with the depth")
    cuts = {s.prefix: (s.lead + 2 * s.period, s.tail) for s in stacks}
    for path, layers in whole.lists.items():
        front, back = cuts.get(path, (len(layers), 0))
        if shallow.lists[path] != layers[:front] + layers[len(layers) - back :]:
            raise NotFoldableError(f"the shallow '{path}' is not a part of the whole one")
