"""What the statements of a loop over experts make: places, rows, results, and where they are added.

Each local name of the loop holds one known value; what is not known ends the reading.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuscope.advice.source.places import Function

__all__ = ["Added", "Body", "Head"]


@dataclass(frozen=True, slots=True)
class Head:
    """What a loop goes over.

    Attributes:
        number: the name of an expert's number.
        expert: the name of the expert itself; "" where it is looked up in the loop.
        experts: source of the list; "" where it is not said here.
        count: source of how many; "" for all of the list.
    """

    number: str
    expert: str
    experts: str
    count: str = ""


@dataclass(frozen=True, slots=True)
class Added:
    """What a loop adds: sources of the arguments of `add_experts`."""

    out: str
    rows: str
    chosen: str
    weights: str = ""
    by_expert: bool = False
    masked: bool = False


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the loop.

    Attributes:
        kind: "hit" (mask of where an expert is chosen), "where" (the places), "token" (the first
            index of the places), "place" (the second), "rows", "made", "factor", "expert".
        chosen: source of the numbers that were compared.
        flip: the mask has tokens last.
        single: it is certain that a token is met at most once.
        rows: source of the rows' origin.
        weights, by_expert: of a factor, or of what was multiplied by one.
        column: a factor [n, 1]; False for [n].
    """

    kind: str
    chosen: str = ""
    flip: bool = False
    single: bool = False
    rows: str = ""
    weights: str = ""
    by_expert: bool = False
    column: bool = False


class Body:
    """Reads the statements of a loop.

    Args:
        head: what the loop goes over.
        function: that holds it.
        loop: it.
    """

    def __init__(self, head: Head, function: Function, loop: ast.For) -> None:
        self.head, self.function, self.loop = head, function, loop
        self.experts = head.experts
        self.known: dict[str, _Value] = {}
        if head.expert:
            self.known[head.expert] = _Value("expert")

    def added(self) -> Added | None:
        """What the loop adds; None where it does anything else."""
        return self._block(self.loop.body)

    def _block(self, block: Sequence[ast.stmt]) -> Added | None:
        for number, node in enumerate(block):
            last = number == len(block) - 1
            if isinstance(node, ast.If) and not node.orelse:
                skip = len(node.body) == 1 and isinstance(node.body[0], ast.Continue)
                if skip and self._empty(node.test):
                    continue
                return self._block(node.body) if last and self._some(node.test) else None
            if last:
                return self._adds(node)
            if not self._learns(node):
                return None
        return None

    # -- statements --------------------------------------------------------------------------------

    def _learns(self, node: ast.stmt) -> bool:
        """`name = value`, `token, place = torch.where(...)`."""
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            return False
        target, value = node.targets[0], self._value(node.value)
        if value is None:
            return False
        if isinstance(target, ast.Name):
            self.known[target.id] = value
            return True
        if not isinstance(target, ast.Tuple) or value.kind != "where":
            return False
        names = [each.id for each in target.elts if isinstance(each, ast.Name)]
        if len(names) != len(target.elts) or len(names) > 2 or (value.flip and len(names) != 2):
            return False
        kinds = ["place", "token"] if value.flip else ["token", "place"]
        for name, kind in zip(names, kinds, strict=False):
            self.known[name] = replace(value, kind=kind, single=len(names) == 1)
        return True

    def _adds(self, node: ast.stmt) -> Added | None:
        """`out.index_add_(0, t, made)`, `out[t] += made`, `out[t] = out[t] + made`, or `= made`."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            func, args = call.func, [*call.args, *(k.value for k in call.keywords)]
            named = [k.arg for k in call.keywords] == ["dim", "index", "source"][len(call.args) :]
            if (
                isinstance(func, ast.Attribute)
                and func.attr == "index_add_"
                and len(args) == 3
                and named
                and ast.unparse(args[0]) == "0"
            ):
                return self._added(func.value, args[1], args[2], adds=True, repeats=True)
            return None
        place: ast.expr
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            place, value, adds = node.target, node.value, True
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            place, value, adds = node.targets[0], node.value, False
            if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
                whole = ast.unparse(place)
                if whole not in (ast.unparse(value.left), ast.unparse(value.right)):
                    return None
                other = ast.unparse(value.left) == whole
                value, adds = (value.right if other else value.left), True
        else:
            return None
        if not isinstance(place, ast.Subscript):
            return None
        return self._added(place.value, place.slice, value, adds=adds, repeats=False)

    def _added(
        self, out: ast.expr, index: ast.expr, value: ast.expr, *, adds: bool, repeats: bool
    ) -> Added | None:
        at, made = self._value(index), self._value(value)
        if at is None or made is None or made.kind != "made" or not isinstance(out, ast.Name):
            return None
        if made.chosen != at.chosen or at.kind not in ("token", "hit") or at.flip != made.flip:
            return None
        if at.kind == "hit" and repeats:
            return None
        once = at.kind == "hit" or at.single
        if not repeats and not once and not (adds and self._distinct(made.chosen)):
            return None
        begun = self._begun(out.id)
        if begun not in (("zeros", "clone") if adds else ("zeros",)) or not self.experts:
            return None
        return Added(out.id, made.rows, made.chosen, made.weights, made.by_expert, at.kind == "hit")

    def _assigned(self, name: str) -> ast.expr | None:
        """What a name was made of, where that is one statement before the loop."""
        found = [
            node
            for node in ast.walk(self.function)
            if isinstance(node, ast.Name)
            and node.id == name
            and not isinstance(node.ctx, ast.Load)
            and node.lineno <= self.loop.lineno
        ]
        if len(found) != 1:
            return None
        for node in ast.walk(self.function):
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                if any(part is found[0] for part in parts):
                    return node.value
        return None

    def _begun(self, out: str) -> str:
        """How the sum begins: "zeros", "clone", or ""."""
        value = self._assigned(out)
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return ""
        name = value.func.attr
        return "zeros" if name in ("zeros_like", "zeros", "new_zeros") else name

    def _distinct(self, chosen: str) -> bool:
        """Whether a token's experts are certainly different: the largest of something."""
        name = chosen.partition("[:, ")[0]
        value = self._assigned(name)
        return value is not None and any(
            isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and n.func.attr in ("topk", "argmax", "max")
            for n in ast.walk(value)
        )

    # -- expressions -------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> _Value | None:
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return self._multiplied(self._value(node.left), self._value(node.right))
        return self._called(node) if isinstance(node, ast.Call) else None

    def _compared(self, node: ast.Compare) -> _Value | None:
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
            return None
        one, other = node.left, node.comparators[0]
        if self._is_number(one):
            one, other = other, one
        return _Value("hit", ast.unparse(one)) if self._is_number(other) and _pure(one) else None

    def _is_number(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.head.number

    def _subscript(self, node: ast.Subscript) -> _Value | None:
        of = self._value(node.value)
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        known = [ast.unparse(each) for each in inside]
        if of is not None:
            if of.kind == "where" and known == ["0"] and not of.flip:
                return replace(of, kind="token")
            if of.kind == "where" and known == ["1"] and of.flip:
                return replace(of, kind="token")
            new_axis = known in ([":", "None"], ["...", "None"])
            if of.kind in ("rows", "factor") and not of.column and new_axis:
                return replace(of, kind="factor", column=True)
            return None
        if len(inside) == 1 and self._is_number(inside[0]):
            return self._looked_up(node.value)
        return self._gathered(node.value, inside) if _pure(node.value) else None

    def _looked_up(self, of: ast.expr) -> _Value | None:
        """`self.experts[e]`, or `mask[e]` of a mask of all experts."""
        mask = self._assigned(of.id) if isinstance(of, ast.Name) else None
        if mask is not None:
            return _one_hot(mask)
        text = ast.unparse(of)
        if not _pure(of) or self.experts not in ("", text):
            return None
        self.experts = text
        return _Value("expert")

    def _gathered(self, of: ast.expr, inside: list[ast.expr]) -> _Value | None:
        """`x[t]`: rows or factors; `w[t, k]`, `w[t, k, None]`, `w[mask, None]`: factors."""
        origin = ast.unparse(of)
        if ast.unparse(inside[0]) == "None" and len(inside) == 2:
            at = self._value(inside[1])
            if at is not None and at.kind == "token":
                return replace(at, kind="lifted", rows=origin)
            return None
        at = self._value(inside[0])
        if at is None or at.kind not in ("token", "hit") or (at.kind == "hit" and at.flip):
            return None
        rest = inside[1:]
        column = bool(rest) and ast.unparse(rest[-1]) == "None"
        rest = rest[:-1] if column else rest
        if not rest:
            kind = "factor" if column else "rows"
            return replace(at, kind=kind, rows=origin, weights=origin, column=column)
        if len(rest) > 1:
            return None
        if ast.unparse(rest[0]) == ":" and not column:
            return replace(at, kind="rows", rows=origin)
        second = self._value(rest[0])
        found = replace(at, kind="factor", rows="", weights=origin, column=column)
        if second is not None:
            same = second.kind == "place" and second.chosen == at.chosen
            return found if same and at.kind == "token" else None
        if self._is_number(rest[0]):
            return replace(found, by_expert=True)
        if (at.kind == "hit" or at.single) and _pure(rest[0]):
            return replace(found, weights=f"{origin}[:, {ast.unparse(rest[0])}]")
        return None

    def _multiplied(self, one: _Value | None, other: _Value | None) -> _Value | None:
        if one is not None and other is not None and other.kind == "made":
            one, other = other, one
        if one is None or other is None or one.kind != "made" or one.weights:
            return None
        if other.chosen != one.chosen or other.flip != one.flip:
            return None
        # Of one index, `w[t]` is [n, 1] where it is multiplied as it is.
        if other.kind == "rows" or (other.kind == "factor" and other.column):
            return replace(one, weights=other.weights or other.rows, by_expert=other.by_expert)
        return None

    def _called(self, node: ast.Call) -> _Value | None:
        func, args = node.func, node.args
        who = self._value(func)
        if who is not None:
            rows = self._value(args[0]) if len(args) == 1 and not node.keywords else None
            good = who.kind == "expert" and rows is not None and rows.kind == "rows"
            return replace(rows, kind="made", weights="") if good and rows is not None else None
        if not isinstance(func, ast.Attribute):
            return None
        if ast.unparse(func.value) in ("torch", "F"):
            if not args or (node.keywords and func.attr != "nonzero"):
                return None
            of, rest = args[0], args[1:]
        else:
            of, rest = func.value, args
        return self._method(func.attr, of, rest, node.keywords)

    def _method(
        self, name: str, of: ast.expr, args: list[ast.expr], keywords: list[ast.keyword]
    ) -> _Value | None:
        known = [ast.unparse(a) for a in args]
        known += [f"{k.arg}={ast.unparse(k.value)}" for k in keywords]
        value = self._value(of)
        if value is None:
            if name == "eq" and len(args) == 1 and self._is_number(args[0]) and _pure(of):
                return _Value("hit", ast.unparse(of))
            if name == "index_select" and len(args) == 2 and known[0] == "0" and _pure(of):
                at = self._value(args[1])
                if at is not None and at.kind == "token":
                    return replace(at, kind="rows", rows=ast.unparse(of), weights="")
            return None
        kind = value.kind
        if kind == "hit":
            if (name, known) in (("where", []), ("nonzero", ["as_tuple=True"])):
                return replace(value, kind="where")
            if (name, known) == ("nonzero", []) and not value.flip:
                return replace(value, kind="matrix", single=True)
        elif kind == "matrix" and (name, known) in (
            ("squeeze", ["-1"]),
            ("squeeze", ["1"]),
            ("flatten", []),
            ("view", ["-1"]),
            ("reshape", ["-1"]),
        ):
            return replace(value, kind="token")
        elif kind == "lifted" and name in ("reshape", "view") and len(known) == 2:
            return replace(value, kind="rows") if known[0] == "-1" else None
        elif (
            kind in ("rows", "factor")
            and not value.column
            and (name, known)
            in (
                ("unsqueeze", ["-1"]),
                ("unsqueeze", ["1"]),
                ("view", ["-1", "1"]),
                ("reshape", ["-1", "1"]),
            )
        ):
            return replace(value, kind="factor", column=True)
        if kind in ("made", "factor") and len(known) == 1 and _cast(name, args):
            return value
        return None

    # -- guards ------------------------------------------------------------------------------------

    def _empty(self, test: ast.expr) -> bool:
        """A test that holds only where nothing is chosen."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._some(test.operand)
        return self._compares(test, ast.Eq) and self._count(test)

    def _some(self, test: ast.expr) -> bool:
        """A test that holds wherever something is chosen."""
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute):
            of = test.func.value
            if test.func.attr == "item":
                return self._some(of)
            if test.func.attr == "any":
                torch_any = ast.unparse(of) == "torch" and len(test.args) == 1
                value = self._value(test.args[0] if torch_any else of)
                return value is not None and value.kind == "hit"
        return (self._compares(test, ast.Gt) or not isinstance(test, ast.Compare)) and (
            self._count(test)
        )

    def _compares(self, test: ast.expr, kind: type) -> bool:
        return (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], kind)
            and ast.unparse(test.comparators[0]) == "0"
        )

    def _count(self, test: ast.expr) -> bool:
        """`t.numel()`, `len(t)`, `t.shape[0]`, `t.size(0)`, `mask.sum()`."""
        node = test.left if isinstance(test, ast.Compare) else test
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "0":
            shape = node.value
            of = shape.value if isinstance(shape, ast.Attribute) and shape.attr == "shape" else None
            wanted: tuple[str, ...] = ("token", "place", "rows")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "len" and node.args:
            of, wanted = node.args[0], ("token", "place", "rows")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, given = node.func.attr, [ast.unparse(a) for a in node.args]
            of = node.func.value
            if (name, given) == ("item", []):
                return self._count(of)
            wanted = ("hit",) if name == "sum" else ("token", "place")
            if (name, given) not in (("sum", []), ("numel", []), ("size", ["0"])):
                return False
        else:
            return False
        value = self._value(of) if of is not None else None
        return value is not None and value.kind in wanted


def _cast(name: str, args: list[ast.expr]) -> bool:
    """`.to(x.dtype)`, `.type_as(x)`."""
    if name in ("to", "type"):
        return isinstance(args[0], ast.Attribute) and args[0].attr == "dtype"
    return name == "type_as"


def _one_hot(mask: ast.expr) -> _Value | None:
    """`F.one_hot(chosen, n).permute(2, 1, 0)`: [experts, k, tokens]."""
    if not isinstance(mask, ast.Call) or not isinstance(mask.func, ast.Attribute):
        return None
    inner = mask.func.value
    known = [ast.unparse(a) for a in mask.args]
    if mask.func.attr != "permute" or known != ["2", "1", "0"] or not isinstance(inner, ast.Call):
        return None
    called = ast.unparse(inner.func)
    if called.rpartition(".")[2] != "one_hot" or not inner.args or not _pure(inner.args[0]):
        return None
    return _Value("hit", ast.unparse(inner.args[0]), flip=True)


def _pure(node: ast.expr) -> bool:
    """Names, attributes, and parts of them by plain positions."""
    return not any(
        isinstance(n, (ast.Call, ast.BinOp, ast.Compare, ast.Lambda, ast.NamedExpr, ast.IfExp))
        for n in ast.walk(node)
    )
