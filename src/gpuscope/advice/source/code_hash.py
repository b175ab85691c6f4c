"""Whether code is still what it was: a hash of a file and of all that it imports beside it."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError

__all__ = ["code_hash"]


def code_hash(path: Path) -> str:
    """Hash of a Python file and of all files beside or below it that it imports, theirs included.

    Args:
        path: of the file.

    Raises:
        InputFileError: it cannot be read.
    """
    root, found = path.resolve().parent, {}
    waiting = [path.resolve()]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        try:
            found[file] = file.read_bytes()
        except OSError as error:
            raise InputFileError(
                Text("Cannot read {file}.", file=file), str(error.strerror)
            ) from error
        waiting += _own_imports(found[file], file.parent, root)
    digest = hashlib.sha256()
    for file in sorted(found):
        digest.update(f"{file.relative_to(root)}\0{len(found[file])}\0".encode())
        digest.update(found[file])
    return digest.hexdigest()


def _own_imports(text: bytes, folder: Path, root: Path) -> list[Path]:
    """Files below the root that a file imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    names: list[tuple[Path, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [(root, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = root
            if node.level:
                base = folder if node.level == 1 else folder.parents[node.level - 2]
            module = node.module or ""
            names += [(base, f"{module}.{alias.name}".lstrip(".")) for alias in node.names]
            names += [(base, module)] if module else []
    places = [base.joinpath(*name.split(".")) for base, name in names]
    files = [f for p in places for f in (p.with_name(p.name + ".py"), p / "__init__.py")]
    return [f for f in files if f.is_file() and f.is_relative_to(root)]
