"""CUDA C as Python for Numba's simulator: each statement on its own line of the C source.

The C is parsed by pycparser; what comes out is Python's syntax tree, so that the lens shows and
matches the lines of the `.cu` file. Supported is the C of textbook kernels: numbers, pointers to
them, arrays in shared memory, loops, branches, atomics, barriers, device functions.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from pycparser import c_ast, c_parser  # type: ignore[import-untyped,unused-ignore]

from gpuscope.document.text import Text
from gpuscope.kernel_lens.cuda_source import CudaError, device_source
from gpuscope.kernel_lens.cuda_words import (
    ATOMICS,
    BINARY,
    CALLS,
    COMPARE,
    FUNCTIONS,
    INDICES,
    NAMES,
    PREAMBLE,
    SHOWN,
    TYPES,
)


def translated(text: str, file: str) -> tuple[ast.Module, dict[str, list[tuple[str, str]]]]:
    """A Python module with a function for each of the device's, and their parameters.

    Returns:
        The module, and for each function its parameters with their types; those of pointers end in
        "*".

    Raises:
        CudaError: something is not followed; says what and where.
    """
    source = device_source(text)
    try:
        tree = c_parser.CParser().parse(PREAMBLE + source, file)
    except c_parser.ParseError as error:
        place = str(error).split(":")
        line = next((int(part) for part in place if part.strip().isdigit()), 1)
        raise CudaError(Text("not understood: {what}", what=place[-1].strip()), line) from error
    functions = [node for node in tree.ext if isinstance(node, c_ast.FuncDef)]
    names = {node.decl.name for node in functions}
    made = [_Function(node, names) for node in functions]
    module = ast.Module(body=[one.python for one in made], type_ignores=[])
    ast.fix_missing_locations(module)
    return module, {one.name: one.parameters for one in made}


def _fail(node: Any, what: Text) -> CudaError:
    return CudaError(what, node.coord.line if getattr(node, "coord", None) else 1)


def _unknown(node: Any) -> CudaError:
    kind = type(node).__name__
    return _fail(node, Text("{what} is not followed", what=SHOWN.get(kind, kind)))


_STRUCTURE = Text("a structure is not followed")


class _Function:
    """One function translated.

    Args:
        node: pycparser's.
        functions: names of all functions of the file.
    """

    def __init__(self, node: Any, functions: set[str]) -> None:
        self.name = node.decl.name
        self.functions = functions
        self.types: dict[str, str] = {}
        self.ranks: dict[str, int] = {}
        self._next: list[list[ast.stmt]] = []
        given = node.decl.type.args.params if node.decl.type.args else []
        given = [p for p in given if getattr(p, "name", None)]
        self.parameters = [(p.name, self._declared(p)) for p in given]
        body = self._block(node.body) or [ast.Pass()]
        self.python = ast.FunctionDef(
            name=self.name,
            args=ast.arguments(
                posonlyargs=[], args=[ast.arg(p.name) for p in given], kwonlyargs=[],
                kw_defaults=[], defaults=[],
            ),
            body=body, decorator_list=[],
        )  # fmt: skip
        _at(self.python, node.decl)

    def _declared(self, node: Any) -> str:
        """Note and return the type of what a declaration names."""
        kind, rank = node.type, 0
        pointer = False
        while isinstance(kind, (c_ast.PtrDecl, c_ast.ArrayDecl)):
            rank += isinstance(kind, c_ast.ArrayDecl)
            pointer = pointer or isinstance(kind, c_ast.PtrDecl)
            kind = kind.type
        names = getattr(kind.type, "names", None)
        words = " ".join(n for n in names or () if n not in ("const", "volatile", "signed"))
        if words not in TYPES:
            if words == "" and names:
                words = "int"
            else:
                raise _fail(node, Text("the type {name}", name=words) if words else _STRUCTURE)
        name = TYPES[words] + ("*" if pointer or rank else "")
        self.types[node.name] = name
        self.ranks[node.name] = max(1, rank)
        return name

    # ---- statements ----------------------------------------------------------------------

    def _block(self, node: Any) -> list[ast.stmt]:
        if node is None:
            return []
        parts = node.block_items or [] if isinstance(node, c_ast.Compound) else [node]
        return [made for part in parts for made in self._statement(part)]

    def _statement(self, node: Any) -> list[ast.stmt]:
        way = getattr(self, f"_s_{type(node).__name__}", None)
        if way is not None:
            return [_at(one, node) for one in way(node)]
        if isinstance(node, c_ast.FuncCall):
            return [_at(ast.Expr(self.value(node)), node)]
        raise _unknown(node)

    def _s_EmptyStatement(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        return [ast.Pass()]

    def _s_Pragma(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        return []

    def _s_Compound(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        return self._block(node)

    def _s_DeclList(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        return [made for each in node.decls for made in self._statement(each)]

    def _s_ExprList(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        return [made for each in node.exprs for made in self._statement(each)]

    def _s_Decl(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        kind = self._declared(node)
        target = ast.Name(node.name, ast.Store())
        if isinstance(node.type, c_ast.ArrayDecl):
            return [ast.Assign([target], self._array(node, kind[:-1]))]
        if node.init is None:
            return [ast.Assign([target], ast.Constant(None if kind.endswith("*") else 0))]
        return [ast.Assign([target], self._as(kind, node.init))]

    def _array(self, node: Any, kind: str) -> ast.expr:
        sizes, at = [], node.type
        while isinstance(at, c_ast.ArrayDecl):
            sizes.append(ast.Constant(0) if at.dim is None else self.value(at.dim))
            at = at.type
        if node.init is not None:
            raise _fail(node, Text("an array with values"))
        shared = "register" in node.storage or "extern" in node.storage
        shape = ast.Tuple(sizes, ast.Load()) if len(sizes) > 1 else sizes[0]
        dtype = _dotted(f"_np.{kind if kind != 'bool' else 'bool_'}")
        if shared:
            return _call("cuda.shared.array", shape, dtype, ast.Constant(node.name))
        return _call("cuda.local.array", shape, dtype)

    def _s_Assignment(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        value = node.rvalue
        if isinstance(value, c_ast.Assignment):
            inner = self._statement(value)
            return [*inner, *self._s_Assignment(c_ast.Assignment(node.op, node.lvalue, value.lvalue,
                                                                 node.coord))]  # fmt: skip
        if node.op != "=":
            value = c_ast.BinaryOp(node.op[:-1], node.lvalue, value, node.coord)
        kind = self.type_of(node.lvalue)
        return [ast.Assign([self._target(node.lvalue)], self._as(kind, value))]

    def _s_UnaryOp(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        if node.op not in ("p++", "p--", "++", "--"):
            raise _fail(node, Text("a statement by {operator}", operator=node.op))
        one = c_ast.Constant("int", "1", node.coord)
        op = "+=" if "+" in node.op else "-="
        return self._s_Assignment(c_ast.Assignment(op, node.expr, one, node.coord))

    def _s_If(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        body = self._block(node.iftrue) or [_at(ast.Pass(), node)]
        return [ast.If(self.truth(node.cond), body, self._block(node.iffalse))]

    def _s_For(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        before = [] if node.init is None else self._statement(node.init)
        after = [] if node.next is None else [_at(s, node) for s in self._statement(node.next)]
        self._next.append(after)
        body = [*self._block(node.stmt), *after]
        self._next.pop()
        test = ast.Constant(True) if node.cond is None else self.truth(node.cond)
        return [*before, ast.While(test, body or [_at(ast.Pass(), node)], [])]

    def _s_While(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        self._next.append([])
        body = self._block(node.stmt) or [_at(ast.Pass(), node)]
        self._next.pop()
        return [ast.While(self.truth(node.cond), body, [])]

    def _s_Break(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        return [ast.Break()]

    def _s_Continue(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        # On this line, not the loop's: that one is to be come to once a round.
        after = copy.deepcopy(self._next[-1])
        for each in (n for one in after for n in ast.walk(one) if hasattr(n, "lineno")):
            vars(each).update(lineno=node.coord.line, end_lineno=node.coord.line)
        return [*after, ast.Continue()]

    def _s_Return(self, node: Any) -> list[ast.stmt]:  # noqa: N802
        return [ast.Return(None if node.expr is None else self.value(node.expr))]

    def _target(self, node: Any) -> ast.expr:
        made = self.value(node)
        if not isinstance(made, (ast.Name, ast.Subscript)):
            raise _fail(node, Text("an assignment to this"))
        made.ctx = ast.Store()
        return made

    # ---- expressions ---------------------------------------------------------------------

    def type_of(self, node: Any) -> str:
        """NumPy's name of an expression's type; of a pointer with "*"."""
        if isinstance(node, c_ast.ID):
            return self.types.get(node.name, "int32")
        if isinstance(node, c_ast.ArrayRef):
            return self.type_of(node.name).rstrip("*")
        if isinstance(node, c_ast.Constant):
            return "float32" if "float" in node.type or "double" in node.type else "int32"
        if isinstance(node, c_ast.Cast):
            words = " ".join(getattr(node.to_type.type.type, "names", ["float"]))
            return TYPES.get(words, "float32")
        if isinstance(node, c_ast.UnaryOp):
            kind = self.type_of(node.expr)
            return kind.rstrip("*") if node.op == "*" else f"{kind}*" if node.op == "&" else kind
        if isinstance(node, c_ast.TernaryOp):
            return self.type_of(node.iftrue)
        if isinstance(node, c_ast.BinaryOp):
            return self._wider(node)
        if isinstance(node, c_ast.FuncCall):
            return self._result(node)
        return "int32"

    def _wider(self, node: Any) -> str:
        if node.op in COMPARE or node.op in ("&&", "||"):
            return "int32"
        kinds = [self.type_of(node.left), self.type_of(node.right)]
        pointer = [k for k in kinds if k.endswith("*")]
        floats = [k for k in kinds if k.startswith("float")]
        return (pointer or sorted(floats, reverse=True) or kinds)[0]

    def _result(self, node: Any) -> str:
        name = getattr(node.name, "name", "")
        arguments = node.args.exprs if node.args else []
        if name in ATOMICS or name == "atomicCAS" or name in ("min", "max", "abs"):
            return self.type_of(arguments[0]).rstrip("*") if arguments else "int32"
        return "int32" if name in CALLS else "float32"

    def _as(self, kind: str, node: Any) -> ast.expr:
        """A value as what is declared of a type holds it."""
        made = self.value(node)
        if kind.endswith("*") or isinstance(node, c_ast.InitList):
            return made
        own = self.type_of(node)
        if kind.startswith("uint"):
            return _call("_c.unsigned", made, ast.Constant(int(kind[4:])))
        if not kind.startswith("float") and own.startswith("float"):
            return _call("int", made)
        return made

    def truth(self, node: Any) -> ast.expr:
        """A condition."""
        return self.value(node)

    def value(self, node: Any) -> ast.expr:
        """An expression.

        Raises:
            CudaError: it is not followed.
        """
        way = getattr(self, f"_v_{type(node).__name__}", None)
        if way is None:
            raise _unknown(node)
        return _at(way(node), node)  # type: ignore[no-any-return]

    def _v_Constant(self, node: Any) -> ast.expr:  # noqa: N802
        if "float" in node.type or "double" in node.type:
            return ast.Constant(float(node.value.rstrip("fFlL")))
        if node.type in ("char", "string"):
            raise _fail(node, Text("text"))
        digits = node.value.rstrip("uUlL")
        return ast.Constant(int(digits, 8 if digits[0] == "0" and digits.isdigit() else 0))

    def _v_ID(self, node: Any) -> ast.expr:  # noqa: N802
        if node.name in self.types:
            return ast.Name(node.name, ast.Load())
        if node.name in NAMES:
            return ast.Constant(NAMES[node.name])
        raise _fail(node, Text("the name {name} is not known here", name=node.name))

    def _v_StructRef(self, node: Any) -> ast.expr:  # noqa: N802
        name = getattr(node.name, "name", "")
        if name not in INDICES:
            raise _fail(node, _STRUCTURE)
        return _dotted(f"cuda.{name}.{node.field.name}")

    def _v_ArrayRef(self, node: Any) -> ast.expr:  # noqa: N802
        indices: list[Any] = []
        at = node
        while isinstance(at, c_ast.ArrayRef):
            indices.insert(0, at.subscript)
            at = at.name
        rank = self.ranks.get(at.name, 1) if isinstance(at, c_ast.ID) else 1
        if len(indices) != rank:
            raise _fail(node, Text("a row of an array by itself"))
        made = [self._index(one) for one in indices]
        index = ast.Tuple(made, ast.Load()) if len(made) > 1 else made[0]
        return ast.Subscript(self.value(at), index, ast.Load())

    def _index(self, node: Any) -> ast.expr:
        """An index; Python counts negative ones from the end, C does not."""
        made = self.value(node)
        below = any(isinstance(n, ast.Sub | ast.USub) for n in ast.walk(made))
        return _call("_c.index", made) if below else made

    def _v_UnaryOp(self, node: Any) -> ast.expr:  # noqa: N802
        if node.op == "*":
            base, offset = self._pointer(node.expr)
            return ast.Subscript(base, offset, ast.Load())
        if node.op == "sizeof":
            kind = self.type_of(node.expr) if not isinstance(node.expr, c_ast.Typename) else (
                TYPES.get(" ".join(getattr(node.expr.type.type, "names", [])), "float32")
            )  # fmt: skip
            return _call("_c.size", ast.Constant(kind.rstrip("*")))
        made = {"-": ast.USub, "+": ast.UAdd, "~": ast.Invert, "!": ast.Not}.get(node.op)
        if made is None:
            raise _fail(node, Text("{operator} within an expression", operator=node.op.strip("p")))
        return ast.UnaryOp(made(), self.value(node.expr))

    def _pointer(self, node: Any) -> tuple[ast.expr, ast.expr]:
        """The array and the index that a pointer stands for: `a + i`, `&a[i]`, `a`."""
        if isinstance(node, c_ast.UnaryOp) and node.op == "&":
            made = self.value(node.expr)
            if isinstance(made, ast.Subscript):
                return made.value, made.slice
            raise _fail(node, Text("the address of a variable"))
        if isinstance(node, c_ast.BinaryOp) and node.op in "+-":
            sides = (node.left, node.right)
            pointer = next((s for s in sides if self.type_of(s).endswith("*")), None)
            if pointer is node.left or (pointer is node.right and node.op == "+"):
                offset = self.value(node.right if pointer is node.left else node.left)
                offset = ast.UnaryOp(ast.USub(), offset) if node.op == "-" else offset
                base, first = self._pointer(pointer)
                return base, _call("_c.index", ast.BinOp(first, ast.Add(), offset))
        rank = self.ranks.get(getattr(node, "name", ""), 1) if isinstance(node, c_ast.ID) else 1
        return self.value(node), ast.Constant(0) if rank == 1 else ast.Tuple(
            [ast.Constant(0)] * rank, ast.Load()
        )

    def _v_BinaryOp(self, node: Any) -> ast.expr:  # noqa: N802
        if self._wider(node).endswith("*"):
            base, offset = self._pointer(node)
            return _call("_c.moved", base, offset)
        left, right = self.value(node.left), self.value(node.right)
        if node.op in ("&&", "||"):
            return ast.BoolOp(ast.And() if node.op == "&&" else ast.Or(), [left, right])
        if node.op in COMPARE:
            return ast.Compare(left, [COMPARE[node.op]()], [right])
        if node.op in ("/", "%"):
            real = self._wider(node).startswith("float")
            name = "remainder" if node.op == "%" else "quotient" if real else "whole"
            return _call(f"_c.{name}", left, right)
        return ast.BinOp(left, BINARY[node.op](), right)

    def _v_TernaryOp(self, node: Any) -> ast.expr:  # noqa: N802
        yes, no = self.value(node.iftrue), self.value(node.iffalse)
        return ast.IfExp(self.truth(node.cond), yes, no)

    def _v_Cast(self, node: Any) -> ast.expr:  # noqa: N802
        if isinstance(node.to_type.type, c_ast.PtrDecl):
            raise _fail(node, Text("a cast of a pointer"))
        kind = self.type_of(node)
        return self._as(kind, node.expr) if not kind.startswith("float") else self.value(node.expr)

    def _v_FuncCall(self, node: Any) -> ast.expr:  # noqa: N802
        name = getattr(node.name, "name", "")
        given = node.args.exprs if node.args else []
        if name in ATOMICS and len(given) == 2:
            base, index = self._pointer(given[0])
            return _call(f"cuda.atomic.{ATOMICS[name]}", base, index, self.value(given[1]))
        if name == "atomicCAS" and len(given) == 3:
            base, index = self._pointer(given[0])
            values = (self.value(each) for each in given[1:])
            return _call("cuda.atomic.cas", base, index, *values)
        if name in CALLS:
            return _call(f"cuda.{CALLS[name]}", *(self.value(each) for each in given))
        if name in self.functions:
            return _call(name, *(self.value(each) for each in given))
        plain = name.removeprefix("__").removesuffix("_rn")
        for known in (plain, plain.removesuffix("f")):
            if known in FUNCTIONS:
                return _call(f"_c.{known}_", *(self.value(each) for each in given))
        votes = name.startswith(("__shfl", "__ballot", "__any", "__all"))
        if votes:
            raise _fail(node, Text("warp shuffles and votes are not followed"))
        raise _fail(node, Text("{what} is not followed", what=f"{name}()"))


def _at(made: Any, node: Any) -> Any:
    """The Python with the line of the C that it stands for, where it has none yet."""
    line = node.coord.line if getattr(node, "coord", None) else 1
    for each in ast.walk(made):
        if isinstance(each, (ast.expr, ast.stmt, ast.arg)) and not hasattr(each, "lineno"):
            each.lineno = each.end_lineno = line
            each.col_offset = each.end_col_offset = 0
    return made


def _dotted(name: str) -> ast.expr:
    first, *rest = name.split(".")
    made: ast.expr = ast.Name(first, ast.Load())
    for part in rest:
        made = ast.Attribute(made, part, ast.Load())
    return made


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(_dotted(name), list(arguments), [])
