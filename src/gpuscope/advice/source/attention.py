"""Hand-written attention in a function's source, and the fused operator in its place.

`softmax(q @ k^T * scale + mask) @ v`, in however many statements, becomes one call of
`F.scaled_dot_product_attention` (PyTorch's documentation gives this very formula), which never
writes the square of scores to memory. It is followed through the values of local names; where the
scores are used for anything else, or something is not certain, nothing is changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gpuscope.advice.source.attention_masks import Mask
from gpuscope.advice.source.attention_terms import (
    Terms,
    einsum_letters,
    names_in,
    product,
    read,
    with_mask,
)
from gpuscope.advice.source.edits import delete_statement, lines_of, replace_node
from gpuscope.advice.source.places import Function, same_function
from gpuscope.advice.source.scope import Scope
from gpuscope.advice.types import Edit

__all__ = ["attention_edits", "functions_with_attention"]


@dataclass(frozen=True, slots=True)
class _Found:
    """One attention.

    Attributes:
        terms: what the probabilities are made of.
        value: the last factor.
        at: the expression that is replaced.
        steps: statements that only make scores and probabilities, with the time of each read.
        home: the statement that holds `at`.
        target: the name that `home` assigns; "".
    """

    terms: Terms
    value: ast.expr
    at: ast.expr
    steps: tuple[ast.stmt, ...]
    home: ast.stmt
    target: str


@dataclass(slots=True)
class _Known:
    """Names that hold terms, and the statements that made them."""

    terms: dict[str, Terms] = field(default_factory=dict)
    steps: dict[str, tuple[ast.stmt, ...]] = field(default_factory=dict)

    def forget(self, name: str) -> None:
        self.terms.pop(name, None)
        self.steps.pop(name, None)


def functions_with_attention(text: str) -> list[Function]:
    """The functions of a file whose attention can be replaced."""
    tree = ast.parse(text)
    every = [n for n in ast.walk(tree) if isinstance(n, Function)]
    return [node for node in every if next(_attentions(tree, node), None) is not None]


def attention_edits(file: str, text: str, function: Function) -> tuple[Edit, ...]:
    """The edits that put the fused operator in the place of the attention in one function.

    Args:
        file: its path.
        text: what it holds.
        function: one of its functions (of any syntax tree of this text).

    Returns:
        () where there is none, or where it is not certain.
    """
    tree = ast.parse(text)
    own = same_function(tree, function)
    edits: list[Edit] = []
    for found in _attentions(tree, own):
        made = _edits(file, text, tree, own, found)
        if made is None or _overlap(made, edits):
            continue
        edits += made
    return tuple(edits)


def _overlap(new: list[Edit], old: list[Edit]) -> bool:
    return any(a.first <= b.last and b.first <= a.last for a in new for b in old)


# -- finding --------------------------------------------------------------------------------------


def _attentions(tree: ast.Module, function: Function) -> Iterator[_Found]:
    scope = Scope(tree, function)
    for block in _blocks(function):
        known = _Known()
        for node in block:
            for found in _outputs(node, known, scope):
                if _is_alone(function, found):
                    yield found
            _learn(node, known, scope)


def _blocks(function: Function) -> Iterator[list[ast.stmt]]:
    """The blocks of a function, not those of functions inside of it."""
    inner = {
        id(x)
        for n in ast.walk(function)
        if isinstance(n, (*Function.__args__, ast.ClassDef)) and n is not function
        for x in ast.walk(n)
    }
    for node in ast.walk(function):
        if id(node) in inner:
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _outputs(node: ast.stmt, known: _Known, scope: Scope) -> Iterator[_Found]:
    """Products of probabilities and values in a statement (not in the blocks under it)."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)) or not node.value:
        return
    for each in ast.walk(node.value):
        if not isinstance(each, ast.expr):
            continue
        factors = product(each) or _einsum_output(each)
        if factors is None:
            continue
        terms = read(factors[0], known.terms, scope)
        if terms is not None and terms.normal:
            used = names_in(factors[0]) & set(known.terms)
            steps = tuple(dict.fromkeys(s for name in used for s in known.steps[name]))
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            name = target.id if isinstance(target, ast.Name) else ""
            yield _Found(terms, factors[1], each, steps, node, name)


def _einsum_output(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """`einsum("bhqk,bhkd->bhqd", probabilities, v)`."""
    found = einsum_letters(node)
    if found is None:
        return None
    one, other, out = found[0]
    fits = one[:-2] == other[:-2] == out[:-2] and other[-2] == one[-1]
    return found[1] if fits and out[-2:] == one[-2] + other[-1] else None


def _learn(node: ast.stmt, known: _Known, scope: Scope) -> None:
    """What a statement makes of the names."""
    name, terms = _made(node, known, scope)
    if terms is not None:
        # What the value was made of: the names it uses, and itself where it is made anew.
        used = [n for n in names_in(node) if n in known.steps]
        steps = tuple(dict.fromkeys(s for n in used for s in known.steps[n]))
        known.terms[name] = terms
        known.steps[name] = (*steps, node)
        return
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, (ast.Store, ast.Del)):
            known.forget(each.id)


def _made(node: ast.stmt, known: _Known, scope: Scope) -> tuple[str, Terms | None]:
    """(name, terms) of a statement that does nothing but make scores or probabilities."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        if isinstance(node.targets[0], ast.Name):
            return node.targets[0].id, read(node.value, known.terms, scope)
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        whole = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return node.target.id, read(whole, known.terms, scope)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        func = node.value.func
        owner = func.value if isinstance(func, ast.Attribute) else None
        if isinstance(owner, ast.Name) and ast.unparse(func).endswith("_"):
            return owner.id, read(node.value, known.terms, scope)
    elif isinstance(node, ast.If):
        return _if_masked(node, known, scope)
    return "", None


def _if_masked(node: ast.If, known: _Known, scope: Scope) -> tuple[str, Terms | None]:
    """`if mask is not None: scores = scores + mask`."""
    test = node.test
    given = (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.IsNot)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
    )
    if not given or len(node.body) != 1 or node.orelse or isinstance(node.body[0], ast.If):
        return "", None
    name, terms = _made(node.body[0], known, scope)
    before = known.terms.get(name)
    if terms is None or before is None or before.mask is not None or terms.mask is None:
        return "", None
    if replace(terms, mask=None, reads=before.reads) != before or terms.mask.kind == "causal":
        return "", None
    mask = replace(terms.mask, condition=ast.unparse(test))
    return name, with_mask(replace(before, reads=terms.reads), mask, test)


# -- safety ---------------------------------------------------------------------------------------


def _is_alone(function: Function, found: _Found) -> bool:
    """Whether nothing else uses the scores, and nothing changes what they are made of."""
    names = {_target(step) for step in found.steps}
    reads = found.terms.reads
    if names & (reads | names_in(found.value)):
        return False
    inside = {id(n) for step in found.steps for n in ast.walk(step)}
    inside |= {id(n) for n in ast.walk(found.at)}
    first = min([s.lineno for s in found.steps], default=found.home.lineno)
    end = found.home.end_lineno or found.home.lineno
    looped = _in_loop(function, found.home)
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or id(node) in inside:
            continue
        if isinstance(node.ctx, ast.Load):
            after_it = node.lineno > end and node.id == found.target
            before_it = node.lineno < first and not looped
            if node.id in names and not (after_it or before_it):
                return False
        elif (
            node.id in reads
            and not _is_home_target(node, found)
            and _first_read(node.id, found) < node.lineno <= end
        ):
            return False
    return True


def _first_read(name: str, found: _Found) -> int:
    """The line where a value of that name went into the scores."""
    lines = [
        n.lineno
        for part in (*found.steps, found.at)
        for n in ast.walk(part)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    ]
    return min(lines, default=0)


def _is_home_target(node: ast.Name, found: _Found) -> bool:
    return node.id == found.target and node.lineno == found.home.lineno


def _target(step: ast.stmt) -> str:
    if isinstance(step, ast.If):
        return _target(step.body[0])
    if isinstance(step, ast.Assign):
        node: ast.expr = step.targets[0]
    elif isinstance(step, ast.AugAssign):
        node = step.target
    else:
        call = step.value if isinstance(step, ast.Expr) else None
        func = call.func if isinstance(call, ast.Call) else None
        node = func.value if isinstance(func, ast.Attribute) else ast.Name("")
    return node.id if isinstance(node, ast.Name) else ""


def _in_loop(function: Function, home: ast.stmt) -> bool:
    return any(
        isinstance(n, (ast.For, ast.While)) and any(x is home for x in ast.walk(n))
        for n in ast.walk(function)
    )


# -- writing --------------------------------------------------------------------------------------


def _edits(
    file: str, text: str, tree: ast.Module, function: Function, found: _Found
) -> list[Edit] | None:
    mask = found.terms.mask
    gone = [*found.steps, *_only_for(function, found, mask)]
    needs = ("import torch",) if mask is not None and mask.kind == "fill" else ()
    prefix, extra = _functional(tree)
    new = replace_node(file, text, found.at, _call(found, prefix), (*needs, *extra), bare=True)
    edits = [new]
    lines = lines_of(text)
    for step in dict.fromkeys(gone):
        edit = delete_statement(file, text, step.lineno)
        shares = lines[step.lineno - 1][: step.col_offset].strip()
        if edit is None or shares or edit.text or edit.first != step.lineno:
            return None
        if edit.last != (step.end_lineno or step.lineno):
            edit = replace(edit, last=step.end_lineno or step.lineno)
        if edit.first <= new.last and new.first <= edit.last:
            return None
        edits.append(edit)
    return edits


def _call(found: _Found, prefix: str) -> str:
    terms, mask = found.terms, found.terms.mask
    given = [terms.query, terms.key, ast.unparse(found.value)]
    if mask is not None and mask.kind == "causal":
        given.append("is_causal=True")
    elif mask is not None:
        given.append(f"attn_mask={mask.argument(terms.query)}")
    if terms.dropout:
        given.append(f"dropout_p={terms.dropout}")
    scale = " * ".join(terms.factors) or "1.0"
    given.append(f"scale={ast.unparse(ast.parse(scale, mode='eval'))}")
    return f"{prefix}scaled_dot_product_attention({', '.join(given)})"


def _functional(tree: ast.Module) -> tuple[str, tuple[str, ...]]:
    """How the file calls `torch.nn.functional`, and what it must import for that."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "torch.nn.functional" and alias.asname:
                    return f"{alias.asname}.", ()
        elif isinstance(node, ast.ImportFrom) and node.module == "torch.nn":
            for alias in node.names:
                if alias.name == "functional":
                    return f"{alias.asname or 'functional'}.", ()
    return "torch.nn.functional.", ("import torch",)


def _only_for(function: Function, found: _Found, mask: Mask | None) -> list[ast.stmt]:
    """Statements of the function that make a causal mask that nothing else uses."""
    if mask is None or mask.kind != "causal":
        return []
    inside = {id(n) for step in found.steps for n in ast.walk(step)}
    inside |= {id(n) for n in ast.walk(found.at)}
    gone: list[ast.stmt] = []
    for name in dict.fromkeys(mask.names):
        places = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]
        stored = [n for n in places if isinstance(n.ctx, ast.Store)]
        loaded = [n for n in places if isinstance(n.ctx, ast.Load) and id(n) not in inside]
        makers = [
            n
            for n in ast.walk(function)
            if isinstance(n, ast.Assign) and len(n.targets) == 1 and n.targets[0] in stored
        ]
        if len(stored) == 1 and not loaded and len(makers) == 1:
            gone += makers
    return gone
