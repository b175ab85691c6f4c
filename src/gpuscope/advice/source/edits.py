"""Where an edit of the user's source goes: after imports, at a call, around statements.

Every helper takes the text as it stands and gives an `Edit` (or None where the place is not there);
lines count from 1. What finds a place in the text is in `gpuscope.advice.source.places`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping

from gpuscope.advice.types import Edit

__all__ = [
    "after_imports",
    "after_statement",
    "applied",
    "around_statements",
    "before_statement",
    "call_keyword",
    "delete_statement",
    "indentation",
    "lines_of",
    "replace_call",
    "replace_node",
    "replace_statement",
    "source_of",
    "statement_at",
    "without_keyword",
    "wrap_value",
]

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def lines_of(text: str) -> list[str]:
    """The lines as Python counts them (a form feed ends none), with their ends."""
    return _LINE.findall(text)


def applied(text: str, edits: tuple[Edit, ...]) -> str:
    """A text with edits of it made; they must not overlap.

    Raises:
        ValueError: two edits replace the same line.
    """
    lines = lines_of(text)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\n"
    below = len(lines) + 1
    # From the end, so that numbers above stay right; insertions at one place in their order.
    ordered = sorted(edits, key=lambda e: (e.first, e.last))
    for edit in reversed(ordered):
        if edit.last >= below:
            raise ValueError(f"two edits of line {edit.last} of {edit.file}")
        lines[edit.first - 1 : edit.last] = lines_of(edit.text)
        below = edit.first if edit.last >= edit.first else below
    return "".join(lines)


def after_imports(file: str, text: str, line: str, needs: tuple[str, ...] = ()) -> Edit:
    """Insert a line after the last import at the top level of a file.

    Args:
        file: its path.
        text: what it holds.
        line: to insert, with its newline.
        needs: imports that the line needs.
    """
    last = 0
    for node in ast.parse(text).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (docstring and last == 0):
            last = node.end_lineno or node.lineno
        elif not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Try)):
            break  # settings such as `os.environ[...] = ...` may stand between imports
    return Edit(file, last + 1, last, line, needs)


# -- statements ------------------------------------------------------------------------------------


def statement_at(text: str, line: int) -> ast.stmt | None:
    """The innermost statement over a line that begins a line of its own; None between statements.

    A compound statement (`if`, `for`, `def`) counts only by its head.
    """
    lines = lines_of(text)
    best: ast.stmt | None = None
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= _head_end(node):
            continue
        line_before = lines[node.lineno - 1][: node.col_offset]
        if not line_before.strip() and (best is None or node.lineno >= best.lineno):
            best = node
    return best


def before_statement(
    file: str, text: str, line: int, new: str, needs: tuple[str, ...] = ()
) -> Edit | None:
    """Insert lines before the statement at a line, indented as it is.

    Args:
        file, text, needs: see `after_imports`.
        line: a line of the statement.
        new: one or more lines, not indented.
    """
    node = statement_at(text, line)
    if node is None:
        return None
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return Edit(file, first, first - 1, _indented(new, indentation(text, first)), needs)


def after_statement(
    file: str, text: str, line: int, new: str, needs: tuple[str, ...] = ()
) -> Edit | None:
    """Insert lines after the statement at a line (all of it), indented as it is."""
    node = statement_at(text, line)
    if node is None:
        return None
    last = node.end_lineno or node.lineno
    return Edit(file, last + 1, last, _indented(new, indentation(text, node.lineno)), needs)


def replace_statement(
    file: str, text: str, line: int, new: str, needs: tuple[str, ...] = ()
) -> Edit | None:
    """Put other lines in the place of the statement at a line; None if it shares its line."""
    node = statement_at(text, line)
    if node is None or not _alone(text, node):
        return None
    last = node.end_lineno or node.lineno
    new = _indented(new, indentation(text, node.lineno)) if new else ""
    return Edit(file, node.lineno, last, new, needs)


def delete_statement(file: str, text: str, line: int) -> Edit | None:
    """Take the statement at a line out; `pass` stays where its block would be empty."""
    node = statement_at(text, line)
    if node is None:
        return None
    only = any(
        len(block) == 1 and (block[0].lineno, block[0].col_offset) == (node.lineno, node.col_offset)
        for parent in ast.walk(ast.parse(text))
        for block in _blocks(parent)
    )
    return replace_statement(file, text, line, "pass\n" if only else "")


def around_statements(
    file: str, text: str, first: int, last: int, header: str, needs: tuple[str, ...] = ()
) -> Edit | None:
    """Put statements of one block under a header such as `with torch.no_grad():`.

    Args:
        file, text, needs: see `after_imports`.
        first: first line of the first statement.
        last: last line of the last statement.
        header: the compound statement's head, with its colon.
    """
    lines = lines_of(text)
    indent = indentation(text, first)
    fixed = _inside_strings(text)
    step = _unit(text)
    body = "".join(
        line if number in fixed or not line.strip() else step + line
        for number, line in enumerate(lines[first - 1 : last], first)
    )
    if not body.endswith("\n"):
        body += "\n"
    return Edit(file, first, last, f"{indent}{header}\n{body}", needs)


# -- expressions -----------------------------------------------------------------------------------


def call_keyword(
    sources: Mapping[str, str], site: str, function: str, keyword: str, value: str
) -> Edit | None:
    """Set a keyword in the call of a function at a site.

    Args:
        sources: path -> text.
        site: "path/file.py:12", a line within the call.
        function: the called name's last part ("AdamW").
        keyword, value: what to set, as source text.

    Returns:
        None where the call is not found there.
    """
    found = _call_at(sources, site, function)
    if found is None:
        return None
    file, text, call = found
    present = [k for k in call.keywords if k.arg == keyword]
    if present:
        return replace_node(file, text, present[0].value, value)
    return _insert_before_end(file, text, call, f"{keyword}={value}")


def without_keyword(
    sources: Mapping[str, str], site: str, function: str, keyword: str
) -> Edit | None:
    """Take a keyword out of the call of a function at a site; None if it is not there."""
    found = _call_at(sources, site, function)
    if found is None or all(k.arg != keyword for k in found[2].keywords):
        return None
    file, text, call = found
    call.keywords = [k for k in call.keywords if k.arg != keyword]
    return replace_node(file, text, call, ast.unparse(call))


def replace_call(
    sources: Mapping[str, str], site: str, function: str, template: str, needs: tuple[str, ...] = ()
) -> Edit | None:
    """Put something in the place of a call at a site.

    Args:
        sources, site, function: see `call_keyword`.
        template: the new expression; `{call}` is the old call, `{args}` what stands between its
            parentheses.
        needs: imports that it needs.
    """
    found = _call_at(sources, site, function)
    if found is None:
        return None
    file, text, call = found
    given = [ast.unparse(a) for a in call.args]
    given += [
        f"{k.arg}={ast.unparse(k.value)}" if k.arg else f"**{ast.unparse(k.value)}"
        for k in call.keywords
    ]
    new = template.replace("{call}", source_of(text, call)).replace("{args}", ", ".join(given))
    return replace_node(file, text, call, new, needs)


def wrap_value(
    file: str, text: str, line: int, template: str, needs: tuple[str, ...] = ()
) -> Edit | None:
    """Wrap the right-hand side of the assignment (or what is returned) at a line.

    Args:
        file, text, line, needs: see `before_statement`.
        template: "torch.compile({value})".
    """
    node = statement_at(text, line)
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) or node.value is None:
        return None
    new = template.replace("{value}", source_of(text, node.value))
    return replace_node(file, text, node.value, new, needs)


def replace_node(
    file: str,
    text: str,
    node: ast.expr,
    value: str,
    needs: tuple[str, ...] = (),
    *,
    bare: bool = False,
) -> Edit:
    """Put other source text in the place of an expression of the text.

    Args:
        file, text, needs: see `after_imports`.
        node: the expression.
        value: the new text.
        bare: the new text needs no parentheses: those around the old one go where they can.
    """
    lines = lines_of(text)
    first, last = node.lineno, node.end_lineno or node.lineno
    begin = _characters(lines[first - 1], node.col_offset)
    end = _characters(lines[last - 1], node.end_col_offset or 0)
    before, after = lines[first - 1][:begin], lines[last - 1][end:]
    in_parentheses = before.endswith("(") and after.startswith(")")
    called = before[-2:-1].isidentifier() or before[-2:-1] in tuple(")]\"'")
    if bare and in_parentheses and not called:
        begin, end = begin - 1, end + 1
    return Edit(file, first, last, lines[first - 1][:begin] + value + lines[last - 1][end:], needs)


def source_of(text: str, node: ast.expr) -> str:
    """What stands in the text for an expression; its parentheses are not part of it."""
    return ast.get_source_segment(text, node) or ast.unparse(node)


# -- the text --------------------------------------------------------------------------------------


def indentation(text: str, line: int) -> str:
    """The blanks that a line begins with."""
    whole = lines_of(text)[line - 1]
    return whole[: len(whole) - len(whole.lstrip())]


def _indented(new: str, indent: str) -> str:
    return "".join(indent + line if line.strip() else line for line in lines_of(new))


def _unit(text: str) -> str:
    """One level of indentation, as the file does it."""
    for node in ast.walk(ast.parse(text)):
        for block in _blocks(node):
            if block and isinstance(node, ast.stmt) and block[0].lineno > node.lineno:
                outer = indentation(text, node.lineno)
                return indentation(text, block[0].lineno)[len(outer) :] or "    "
    return "    "


def _inside_strings(text: str) -> set[int]:
    """Lines that begin inside of a string: their blanks are part of it."""
    found: set[int] = set()
    begin = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            found.update(range(token.start[0] + 1, token.end[0] + 1))
        elif kind == "FSTRING_START":
            begin = token.start[0]
        elif kind == "FSTRING_END":
            found.update(range(begin + 1, token.end[0] + 1))
    return found


def _head_end(node: ast.stmt) -> int:
    """Last line of a statement, or of a compound statement's head."""
    body = [b for b in _blocks(node) if b]
    if not body:
        return node.end_lineno or node.lineno
    first = body[0][0]
    begin: int = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))])
    return max(node.lineno, begin - 1)


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    """The blocks of statements directly under a node."""
    return [
        block
        for name in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(node, name, None), list)
        and all(isinstance(each, ast.stmt) for each in block)
    ]


def _alone(text: str, node: ast.stmt) -> bool:
    """Whether a statement has its lines for itself."""
    lines = lines_of(text)
    after = lines[(node.end_lineno or 1) - 1]
    rest = after[_characters(after, node.end_col_offset or 0) :].strip()
    return not rest or rest.startswith("#")


def _call_at(
    sources: Mapping[str, str], site: str, function: str
) -> tuple[str, str, ast.Call] | None:
    file, _, number = site.rpartition(":")
    if file not in sources:
        return None
    text = sources[file]
    calls = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and _last_name(node.func) == function
        and node.lineno <= int(number) <= (node.end_lineno or node.lineno)
    ]
    return (file, text, calls[-1]) if calls else None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _insert_before_end(file: str, text: str, call: ast.Call, argument: str) -> Edit:
    lines = lines_of(text)
    last = call.end_lineno or call.lineno
    end = _characters(lines[last - 1], (call.end_col_offset or 1) - 1)
    before = lines[last - 1][:end]
    known = [*call.args, *(k.value for k in call.keywords)]
    on_own_line = known and (known[-1].end_lineno or 0) < last
    comma = "" if not known or before.rstrip().endswith(",") else ", "
    if known and before.rstrip().endswith(","):
        comma = " "
    if on_own_line:
        # The closing parenthesis stands alone: the argument goes to the end of the line before.
        at = known[-1].end_lineno or last
        line = lines[at - 1]
        stop = _characters(line, known[-1].end_col_offset or 0)
        return Edit(file, at, at, line[:stop] + f", {argument}" + line[stop:])
    return Edit(file, last, last, before.rstrip() + comma + argument + lines[last - 1][end:])


def _characters(line: str, byte_offset: int) -> int:
    """An offset in UTF-8 bytes, as `ast` gives it, in characters."""
    return len(line.encode()[:byte_offset].decode())
