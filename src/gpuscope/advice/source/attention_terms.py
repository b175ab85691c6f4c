"""One expression of hand-written attention, read: products, scale, mask, softmax, dropout.

`Terms` is what has been done so far to `q @ k^T` on its way to `@ v`. Every reading either is
certain or is None.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuscope.advice.source.attention_masks import Mask, filled, kept
from gpuscope.advice.source.scope import Scope, own_attribute

__all__ = ["Terms", "product", "read", "with_mask"]


@dataclass(frozen=True, slots=True)
class Terms:
    """Scores or probabilities, as source text of what they are made of.

    Attributes:
        query, key: texts; the key as (..., length, width).
        factors: the scale as factors ("self.scale", "1.0 / (8)").
        mask: what is masked; None for nothing.
        normal: the softmax is done.
        dropout: text of the probability; "" for none.
        reads: names that the texts read.
        rank: letters of an einsum's scores, 0 if unknown.
    """

    query: str
    key: str
    factors: tuple[str, ...] = ()
    mask: Mask | None = None
    normal: bool = False
    dropout: str = ""
    reads: frozenset[str] = frozenset()
    rank: int = 0


def read(node: ast.expr, known: Mapping[str, Terms], scope: Scope) -> Terms | None:
    """The terms that an expression stands for; None if it is anything else.

    Args:
        node: the expression.
        known: terms by local name.
        scope: names as the function sees them.
    """
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp):
        return _binary(node.left, node.op, node.right, known, scope)
    if not isinstance(node, ast.Call):
        return None
    factors = product(node)
    if factors is not None:
        return _scores(*factors, known, scope)
    return _einsum(node) or _called(node, known, scope)


def product(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The factors of a matrix product, written in any way."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if _name(node.func) not in ("matmul", "bmm"):
        return None
    if _of_torch(node.func) and len(node.args) == 2:
        return node.args[0], node.args[1]
    if isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        return node.func.value, node.args[0]
    return None


def _binary(
    left: ast.expr, op: ast.operator, right: ast.expr, known: Mapping[str, Terms], scope: Scope
) -> Terms | None:
    if isinstance(op, ast.MatMult):
        return _scores(left, right, known, scope)
    terms = read(left, known, scope)
    other = right
    if terms is None and isinstance(op, (ast.Mult, ast.Add)):
        terms, other = read(right, known, scope), left
    if terms is None or terms.normal:
        return None
    text = ast.unparse(other)
    if isinstance(op, (ast.Mult, ast.Div)):
        # A mask that is added is scaled with the scores; one that hides them is not.
        if (terms.mask is not None and terms.mask.kind == "added") or not scope.is_number(other):
            return None
        factor = f"({text})" if isinstance(op, ast.Mult) else f"1.0 / ({text})"
        return _reading(replace(terms, factors=(*terms.factors, factor)), other)
    if isinstance(op, ast.Add) and not scope.is_number(other):
        return with_mask(terms, Mask.added(other, scope), other)
    return None


def with_mask(terms: Terms, mask: Mask | None, *nodes: ast.expr) -> Terms | None:
    """The terms under a mask; None under a second one."""
    if mask is None or terms.mask is not None or terms.normal:
        return None
    masked = replace(terms, mask=mask)
    return masked if mask.kind == "causal" else _reading(masked, *nodes)


def _reading(terms: Terms, *nodes: ast.expr) -> Terms:
    return replace(terms, reads=terms.reads | names_in(*nodes))


def names_in(*nodes: ast.AST) -> frozenset[str]:
    """Local names that expressions read."""
    return frozenset(n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))


def _scores(
    left: ast.expr, right: ast.expr, known: Mapping[str, Terms], scope: Scope
) -> Terms | None:
    if read(left, known, scope) is not None or read(right, known, scope) is not None:
        return None
    return Terms(ast.unparse(left), _transposed(right), reads=names_in(left, right))


def _transposed(node: ast.expr) -> str:
    """Text of an expression with its last two dimensions exchanged."""
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        return ast.unparse(node.value)
    if isinstance(node, ast.Call) and _name(node.func) == "transpose" and not node.keywords:
        at = [ast.unparse(a) for a in node.args]
        if sorted(at) == ["-1", "-2"] and isinstance(node.func, ast.Attribute):
            return ast.unparse(node.func.value)
    text = ast.unparse(node)
    simple = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"{text if simple else f'({text})'}.transpose(-2, -1)"


def _einsum(node: ast.Call) -> Terms | None:
    """`einsum("bhqd,bhkd->bhqk", q, k)`."""
    found = einsum_letters(node)
    if found is None:
        return None
    (one, other, out), (query, key) = found
    fits = (
        one[:-2] == other[:-2] == out[:-2]
        and one[-1] == other[-1]
        and out[-2:] == one[-2] + other[-2]
    )
    if not fits:
        return None
    return Terms(ast.unparse(query), ast.unparse(key), reads=names_in(query, key), rank=len(out))


def einsum_letters(node: ast.expr) -> tuple[tuple[str, str, str], tuple[ast.expr, ast.expr]] | None:
    """Letters and operands of an einsum of two; each letter once in each."""
    if not isinstance(node, ast.Call) or _name(node.func) != "einsum" or len(node.args) != 3:
        return None
    given = node.args[0]
    if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
        return None
    ins, arrow, out = given.value.replace(" ", "").partition("->")
    one, comma, other = ins.partition(",")
    letters = (one, other, out)
    plain = all(x.isalpha() and len(set(x)) == len(x) > 2 for x in letters)
    return (letters, (node.args[1], node.args[2])) if arrow and comma and plain else None


def _called(node: ast.Call, known: Mapping[str, Terms], scope: Scope) -> Terms | None:
    """A function, a method or a module applied to terms."""
    name = _name(node.func)
    method = isinstance(node.func, ast.Attribute) and not _of_torch(node.func)
    given = list(node.args)
    own = own_attribute(node.func)
    if own is not None:
        return _module(own, given, known, scope)
    if method and isinstance(node.func, ast.Attribute):
        given.insert(0, node.func.value)
    if name == "where" and not method:
        return _where(given, known, scope)
    terms = read(given[0], known, scope) if given else None
    if terms is None:
        return None
    rest = given[1:]
    facts = {k.arg: k.value for k in node.keywords}
    if name in ("softmax", "softmax_") and not terms.normal:
        dim = facts.get("dim", rest[0] if rest else None)
        return replace(terms, normal=True) if _is_last(dim, terms) else None
    if name in ("masked_fill", "masked_fill_") and len(rest) == 2 and not facts:
        return with_mask(terms, filled(rest[0], rest[1], scope), *rest)
    if name == "dropout" and terms.normal and not terms.dropout:
        return _dropped(terms, rest, facts)
    if name in ("div", "div_", "mul", "mul_") and len(rest) == 1:
        op = ast.Div() if name.startswith("div") else ast.Mult()
        return _binary(given[0], op, rest[0], known, scope)
    # Conversions of the softmax's result: the fused kernel keeps float32 inside anyhow.
    converts = name in ("to", "type_as", "float", "contiguous", "type")
    return terms if converts and method else None


def _is_last(dim: ast.expr | None, terms: Terms) -> bool:
    if dim is None:
        return False
    given = ast.unparse(dim)
    return given == "-1" or (terms.rank > 0 and given == str(terms.rank - 1))


def _module(
    own: str, given: list[ast.expr], known: Mapping[str, Terms], scope: Scope
) -> Terms | None:
    """`self.softmax(scores)`, `self.dropout(probabilities)`."""
    terms = read(given[0], known, scope) if len(given) == 1 else None
    made = scope.values(ast.parse(f"self.{own}", mode="eval").body)
    if terms is None or len(made) != 1 or not isinstance(made[0], ast.Call):
        return None
    kind = _name(made[0].func)
    if kind == "Dropout" and terms.normal and not terms.dropout:
        return replace(terms, dropout=f"self.{own}.p if self.{own}.training else 0.0")
    if kind == "Softmax" and not terms.normal:
        facts = [*made[0].args, *(k.value for k in made[0].keywords if k.arg == "dim")]
        return replace(terms, normal=True) if facts and _is_last(facts[0], terms) else None
    return None


def _dropped(terms: Terms, rest: list[ast.expr], facts: dict[str | None, ast.expr]) -> Terms | None:
    """`F.dropout(probabilities, p, training=self.training)`."""
    share = facts.get("p", rest[0] if rest else None)
    training = facts.get("training", rest[1] if len(rest) > 1 else None)
    if share is None or len(rest) > 2 or set(facts) - {"p", "training"}:
        return None
    text = ast.unparse(share)
    if training is not None:
        text = f"{text} if {ast.unparse(training)} else 0.0"
    nodes = [share] if training is None else [share, training]
    return _reading(replace(terms, dropout=text), *nodes)


def _where(given: list[ast.expr], known: Mapping[str, Terms], scope: Scope) -> Terms | None:
    """`torch.where(mask, scores, value)`."""
    if len(given) != 3:
        return None
    terms = read(given[1], known, scope)
    if terms is None:
        return None
    return with_mask(terms, kept(given[0], given[2], scope), given[0], given[2])


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _of_torch(node: ast.expr) -> bool:
    """Whether a function is reached through a module: `torch.x`, `F.x`, `nn.functional.x`."""
    if isinstance(node, ast.Name):
        return True
    home = node.value if isinstance(node, ast.Attribute) else None
    while isinstance(home, ast.Attribute):
        home = home.value
    return isinstance(home, ast.Name) and home.id in ("torch", "F", "nn", "functional")
