"""The modules of a deep model from those of a shallow one, where equal layers are declared.

Building a model of 126 layers only to see that they are equal takes seconds, wrapping them for a
thousand ranks more. A ready-made program knows which of its layers are equal and says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuscope.program.fold_depth import Tree
from gpuscope.program.fold_layers import NotFoldableError
from gpuscope.program.types import ModuleInfo

__all__ = ["EqualLayers", "deepened"]


@dataclass(frozen=True, slots=True)
class EqualLayers:
    """A declaration: one list of layers, of which all after the first few are equal.

    Attributes:
        depth: layers of the whole model.
        first: number of the first of the equal ones.
    """

    depth: int
    first: int = 0

    @property
    def enough(self) -> int:
        """Layers of a shallow model that shows the pattern."""
        return min(self.depth, self.first + 3)


def deepened(tree: Tree, path: str, declared: EqualLayers) -> Tree:
    """The tree of the whole model.

    Args:
        tree: of a model with `declared.enough` layers or more.
        path: dotted path of the list of layers.
        declared: which layers are equal.

    Raises:
        NotFoldableError: the layers that are declared to be equal are not.
    """
    layers = tree.lists[path]
    if any(layer != layers[declared.first] for layer in layers[declared.first :]):
        raise NotFoldableError(f"the layers of '{path}' from {declared.first} on are not equal")
    more = declared.depth - len(layers)
    last = f"{path}.{len(layers) - 1}"
    own = [info for info in tree.infos if _below(info.path, last)]
    infos = list(_inserted(tree.infos, own, last, path, range(len(layers), declared.depth)))
    return Tree(
        infos=tuple(infos),
        parameters=tree.parameters + more * sum(info.parameters for info in own),
        lists={**tree.lists, path: layers + layers[-1:] * more},
        rest=tree.rest,
    )


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + ".")


def _inserted(
    infos: Iterable[ModuleInfo], own: list[ModuleInfo], last: str, path: str, numbers: range
) -> Iterable[ModuleInfo]:
    """The modules with those of further layers behind the last layer's."""
    for info in infos:
        yield info
        if info.path == own[-1].path:
            for number in numbers:
                for part in own:
                    moved = f"{path}.{number}{part.path[len(last) :]}"
                    yield ModuleInfo(moved, part.class_name, part.parameters)
