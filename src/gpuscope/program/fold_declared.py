"""The modules of a deep model from those of a shallow one, where equal layers are declared.

Building a model of 126 layers only to see that they are equal takes seconds, wrapping them for a
thousand ranks more. A ready-made program knows which of its layers are equal and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuscope.program.fold_depth import Tree
from gpuscope.program.fold_layers import NotFoldableError
from gpuscope.program.types import ModuleInfo

__all__ = ["EqualLayers", "deepened"]


@dataclass(frozen=True, slots=True)
class EqualLayers:
    """A declaration: one list of layers, of which all after the first few repeat.

    Attributes:
        depth: layers of the whole model.
        first: number of the first of those that repeat.
        period: after how many layers they do; 1: all are equal.
    """

    depth: int
    first: int = 0
    period: int = 1

    @property
    def enough(self) -> int:
        """Layers of a shallow model that shows the pattern."""
        return min(self.depth, self.first + 2 * self.period + 1)


def deepened(tree: Tree, path: str, declared: EqualLayers) -> Tree:
    """The tree of the whole model.

    Args:
        tree: of a model with `declared.enough` layers or more.
        path: dotted path of the list of layers.
        declared: which layers are equal.

    Raises:
        NotFoldableError: the layers that are declared to be equal are not.
    """
    layers, period = tree.lists[path], declared.period
    if any(a != b for a, b in _apart(layers[declared.first :], period)):
        raise NotFoldableError(f"the layers of '{path}' from {declared.first} on do not repeat")
    count = len(layers)
    like = {
        number: count - period + (number - count) % period
        for number in range(count, declared.depth)
    }
    own = {
        number: [info for info in tree.infos if _below(info.path, f"{path}.{number}")]
        for number in {*like.values(), count - 1}
    }
    more = sum(info.parameters for number in like.values() for info in own[number])
    return Tree(
        infos=tuple(_inserted(tree.infos, own, own[count - 1][-1].path, path, like)),
        parameters=tree.parameters + more,
        lists={**tree.lists, path: layers + [layers[number] for number in like.values()]},
        rest=tree.rest,
    )


def _apart(layers: Sequence[object], period: int) -> Iterable[tuple[object, object]]:
    """Each layer and the one a period later."""
    return zip(layers, layers[period:], strict=False)


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + ".")


def _inserted(
    infos: Iterable[ModuleInfo],
    own: Mapping[int, list[ModuleInfo]],
    last: str,
    path: str,
    like: Mapping[int, int],
) -> Iterable[ModuleInfo]:
    """The modules with those of further layers, each like another, behind the last layer's."""
    for info in infos:
        yield info
        if info.path == last:
            for number, other in like.items():
                for part in own[other]:
                    moved = f"{path}.{number}{part.path[len(f'{path}.{other}') :]}"
                    yield ModuleInfo(moved, part.class_name, part.parameters)
