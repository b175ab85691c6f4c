"""Masks of hand-written attention: what is hidden, by which value, and whether it is the future."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from gpuscope.advice.source.scope import Scope

__all__ = ["Mask", "filled", "kept"]


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask as the fused operator takes it.

    Attributes:
        kind: "causal" (no text); "bool": what is kept; "fill": hidden by a finite value, so a row
            without anything kept stays as it was; "added": to the scores.
        text: of the mask; for "fill" of what is hidden.
        value: of "fill".
        condition: text of what must hold for there to be a mask at all; "" for always.
        names: local names that only the mask may need ("mask" of a triangle made in the function).
    """

    kind: Literal["causal", "bool", "fill", "added"]
    text: str = ""
    value: str = ""
    condition: str = ""
    names: tuple[str, ...] = ()

    @staticmethod
    def added(node: ast.expr, scope: Scope) -> Mask:
        """A mask that is added to the scores."""
        if _added_triangle(node, scope):
            return Mask("causal", names=_named(node))
        return Mask("added", ast.unparse(node))

    def argument(self, query: str) -> str:
        """`attn_mask`'s text; "" for a causal mask."""
        simple = query if query.isidentifier() else f"({query})"
        text = self.text if self.text.isidentifier() else f"({self.text})"
        if self.kind == "added":
            made = f"{text}.to({simple}.dtype)"
        elif self.kind == "fill":
            zero = f"torch.zeros((), dtype={simple}.dtype, device={simple}.device)"
            made = f"{zero}.masked_fill({self.text}, {self.value})"
        else:
            made = self.text
        return f"{made} if {self.condition} else None" if self.condition and made else made


def filled(hidden: ast.expr, value: ast.expr, scope: Scope) -> Mask | None:
    """The mask of `scores.masked_fill(hidden, value)`."""
    size = _hides(value)
    if size is None:
        return None
    upper, lower = _split(hidden)
    if (upper is not None and _triangle(upper, scope, "triu", 1)) or (
        lower is not None and _triangle(lower, scope, "tril", 0)
    ):
        return Mask("causal", names=_named(hidden))
    if size == "finite":
        return Mask("fill", ast.unparse(hidden), ast.unparse(value))
    return Mask("bool", _negated(hidden))


def kept(keep: ast.expr, value: ast.expr, scope: Scope) -> Mask | None:
    """The mask of `torch.where(keep, scores, value)`."""
    size = _hides(value)
    if size is None:
        return None
    plain, other = _split(keep)
    if (plain is not None and _triangle(plain, scope, "tril", 0)) or (
        other is not None and _triangle(other, scope, "triu", 1)
    ):
        return Mask("causal", names=_named(keep))
    if size == "finite":
        return Mask("fill", _negated(keep), ast.unparse(value))
    return Mask("bool", ast.unparse(keep))


def _hides(value: ast.expr) -> Literal["infinite", "finite"] | None:
    """Whether a value hides a score: minus infinity, or large and negative."""
    text = ast.unparse(value).replace('"', "'")
    if text in ("float('-inf')", "-float('inf')", "-math.inf", "-torch.inf", "-np.inf"):
        return "infinite"
    if ("finfo(" in text and text.endswith(").min")) or text.endswith(".min"):
        return "finite" if "finfo" in text else None
    try:
        number = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return None
    return "finite" if isinstance(number, (int, float)) and number <= -1e4 else None


def _split(mask: ast.expr) -> tuple[ast.expr | None, ast.expr | None]:
    """(x, None) for a mask that holds where x does, (None, x) where x does not."""
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1:
        other = mask.comparators[0]
        if isinstance(other, ast.Constant) and other.value in (0, 1):
            zero = other.value in (0, False)
            equal = isinstance(mask.ops[0], ast.Eq)
            if equal or isinstance(mask.ops[0], ast.NotEq):
                return (None, mask.left) if zero == equal else (mask.left, None)
        return None, None
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return None, mask.operand
    func = mask.func if isinstance(mask, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == "logical_not":
        return None, func.value
    return mask, None


def _negated(mask: ast.expr) -> str:
    """Text of a mask that holds where this one does not."""
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1:
        signs = {
            ast.Eq: "!=",
            ast.NotEq: "==",
            ast.Lt: ">=",
            ast.Gt: "<=",
            ast.LtE: ">",
            ast.GtE: "<",
        }
        sign = signs.get(type(mask.ops[0]))
        if sign:
            return f"{ast.unparse(mask.left)} {sign} {ast.unparse(mask.comparators[0])}"
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return ast.unparse(mask.operand)
    return (
        f"~{ast.unparse(mask)}"
        if isinstance(mask, (ast.Name, ast.Attribute))
        else (f"~({ast.unparse(mask)})")
    )


# -- triangles ------------------------------------------------------------------------------------

_SHAPELESS = frozenset(
    {
        "view",
        "reshape",
        "unsqueeze",
        "bool",
        "to",
        "cuda",
        "type",
        "expand",
        "contiguous",
        "float",
        "byte",
        "clone",
        "detach",
        "unsqueeze_",
        "type_as",
        "int",
        "long",
    }
)
"""Methods that leave a triangle what it is in its last two dimensions."""


def _triangle(node: ast.expr, scope: Scope, kind: str, diagonal: int, depth: int = 0) -> bool:
    """Whether an expression is a square triangle of ones (`torch.tril(torch.ones(n, n))`)."""
    if depth > 8:
        return False
    node = _stripped(node)
    if isinstance(node, (ast.Name, ast.Attribute)):
        values = scope.values(node)
        return len(values) == 1 and _triangle(values[0], scope, kind, diagonal, depth + 1)
    found = _cut(node, kind)
    return found is not None and found[1] == diagonal and _square(found[0], "ones")


def _added_triangle(node: ast.expr, scope: Scope, depth: int = 0) -> bool:
    """Whether an expression is minus infinity above the diagonal and zero elsewhere."""
    node = _stripped(node)
    if isinstance(node, (ast.Name, ast.Attribute)) and depth < 8:
        values = scope.values(node)
        return len(values) == 1 and _added_triangle(values[0], scope, depth + 1)
    found = _cut(node, "triu")
    if found is None or found[1] != 1 or not _square(found[0], "full"):
        return False
    value = found[0].args[-1] if isinstance(found[0], ast.Call) else None
    return value is not None and _hides(value) is not None


def _stripped(node: ast.expr) -> ast.expr:
    """Without what only adds dimensions, converts, or cuts a smaller square from the corner."""
    while True:
        if isinstance(node, ast.Subscript) and _corner(node.slice):
            node = node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _SHAPELESS
            and not isinstance(node.func.value, ast.Constant)
        ):
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "torch":
                return node
            node = node.func.value
        else:
            return node


def _corner(index: ast.expr) -> bool:
    """Whether an index cuts `[..., :n, :n]`, or only adds dimensions."""
    parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    cuts = []
    for part in parts:
        if isinstance(part, ast.Slice):
            if part.lower is not None or part.step is not None:
                return False
            cuts.append("" if part.upper is None else ast.unparse(part.upper))
        elif not (isinstance(part, ast.Constant) and part.value in (None, ...)):
            return False
    if not any(cuts):
        return True
    return len(cuts) >= 2 and cuts[-1] == cuts[-2] and not any(cuts[:-2])


def _cut(node: ast.expr, kind: str) -> tuple[ast.expr, int] | None:
    """(of what, diagonal) of `torch.tril(x, d)` or `x.tril(d)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr != kind:
        return None
    given = list(node.args)
    home = node.func.value
    if not (isinstance(home, ast.Name) and home.id == "torch"):
        given.insert(0, home)
    facts = given[1:] + [k.value for k in node.keywords if k.arg == "diagonal"]
    if not given or len(facts) > 1:
        return None
    if not facts:
        return given[0], 0
    return (
        (given[0], facts[0].value)
        if (isinstance(facts[0], ast.Constant) and isinstance(facts[0].value, int))
        else None
    )


def _square(node: ast.expr, maker: str) -> bool:
    """Whether it is `torch.ones(n, n)`, `torch.full((n, n), ...)` and the like."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr != maker or not node.args:
        return False
    sizes = node.args
    if isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    elif maker == "full":
        return False
    return len(sizes) >= 2 and ast.unparse(sizes[-1]) == ast.unparse(sizes[-2])


def _named(node: ast.expr) -> tuple[str, ...]:
    return tuple(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
