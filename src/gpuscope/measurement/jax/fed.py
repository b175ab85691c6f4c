"""A jitted function called again and again: what it returns for donated arguments goes back in."""

from __future__ import annotations

from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError
from gpuscope.program.jax.lowering import check_jitted

__all__ = ["FedStep"]


class FedStep:
    """A step without arguments.

    Donated arguments are gone after a call. What the function returns first takes their place, in
    order; where one is donated and the whole result has its form, the result does.
    """

    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        """Lower the function; nothing runs yet.

        Args:
            function: what `jax.jit` returned.
            arguments: its positional ones; a `jax.ShapeDtypeStruct` becomes zeros.

        Raises:
            WorkloadError: it is not jitted.
        """
        import jax

        check_jitted(function)

        self._function = function
        self._arguments = [jax.tree.map(_made, each) for each in arguments]
        self._last: Any = None
        self.lowered = function.lower(*self._arguments)
        told = self.lowered.args_info[0]
        self._donated = [
            at for at, tree in enumerate(told) if any(x.donated for x in jax.tree.leaves(tree))
        ]

    def __call__(self) -> Any:
        """Begin one call; the device may still be at it when this returns."""
        result = self._function(*self._arguments)
        self._last = result
        if self._donated:
            for at, fresh in zip(self._donated, self._replacing(result), strict=True):
                self._arguments[at] = fresh
        return result

    def wait(self) -> None:
        """Wait for the last call."""
        import jax

        jax.block_until_ready((self._last, self._arguments if self._last is None else ()))

    def _replacing(self, result: Any) -> list[Any]:
        """What takes the place of the donated arguments.

        Raises:
            WorkloadError: the result has nothing of their form.
        """
        forms = [_form(self._arguments[at]) for at in self._donated]
        if len(forms) == 1 and _form(result) == forms[0]:
            return [result]
        first = list(result[: len(forms)]) if isinstance(result, (tuple, list)) else []
        if [_form(each) for each in first] != forms:
            raise WorkloadError(
                Text("The step cannot be called twice."),
                Text("It donates arguments, but does not return new ones first."),
                Text("Return what takes the donated arguments' place first: return state, loss"),
            )
        return first


def _form(tree: Any) -> Any:
    """A tree's structure, and shape and type of each of its arrays (donated ones tell theirs)."""
    import jax

    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves if hasattr(leaf, "shape")]


def _made(leaf: Any) -> Any:
    import jax
    import jax.numpy as jnp

    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    zeros = jnp.zeros(leaf.shape, leaf.dtype)
    return zeros if leaf.sharding is None else jax.device_put(zeros, leaf.sharding)
