"""Patches: changes written into the user's own source, as a unified diff that `git apply` takes.

One change after the other is written, and call sites move along with the text; a change that cannot
be written (or whose text would not be Python any more) becomes part of one line that makes it when
the code runs: `@gs.apply("...")`.
"""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuscope.advice.change import Change
from gpuscope.advice.registry import plan
from gpuscope.advice.source.edits import after_imports, applied, lines_of
from gpuscope.advice.source.places import function_named
from gpuscope.advice.types import Edit, Seen

__all__ = ["Patch", "parts_of", "patch_of", "user_sources"]

_BOM = "\ufeff"
_IN_SOURCE, _BY_APPLY = "In the source: ", "When it runs, by gs.apply: "
_HELPED = "Of these, with functions of gpuscope: "


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes of the user's source.

    Attributes:
        diff: unified diff with a/ and b/ paths; "" where no file is changed.
        files: path -> its new text, for changed files.
        in_source: names that are written out in the source.
        by_apply: names that a `gs.apply` line makes when the code runs.
        helped: those of `in_source` that call functions of gpuscope.
        root: folder that the diff's paths start from.
    """

    diff: str
    files: Mapping[str, str] = field(default_factory=dict)
    in_source: tuple[str, ...] = ()
    by_apply: tuple[str, ...] = ()
    root: str = ""
    helped: tuple[str, ...] = ()


def patch_of(
    names: Iterable[str],
    seen: Seen,
    *,
    sources: Mapping[str, str] | None = None,
    root: str | Path | None = None,
) -> Patch:
    """Write changes into the user's source.

    Args:
        names: of the changes.
        seen: of the code as it is, without changes.
        sources: path -> text of the user's files; read from where `seen` points by default.
        root: folder that the diff's paths start from; the repository's, or the files' own, by
            default.

    Raises:
        UnknownNameError: a change is not known.
        InvalidValueError: two changes cannot go together.
    """
    wanted = plan(names)
    seen = seen if sources is not None else _resolved(seen)
    before = dict(user_sources(seen) if sources is None else sources)
    texts, written, left, helped = dict(before), [], [], []
    for change in wanted:
        made = _written(change, texts, seen)
        if made is None:
            left.append(change.name)
            continue
        written.append(change.name)
        if _calls_gpuscope(made) > _calls_gpuscope(texts):
            helped.append(change.name)
        seen = moved(seen, texts, made)
        texts = made
    by_apply = tuple(left)
    if left and seen.file in texts:
        texts[seen.file] = _with_apply(seen.file, texts[seen.file], seen.function, by_apply)
    changed = {file: text for file, text in texts.items() if text != before[file]}
    home = Path(root) if root is not None else _root(changed)
    diff = _head(tuple(written), by_apply, tuple(helped)) if changed else ""
    diff += "".join(_diff(home, file, before[file], text) for file, text in changed.items())
    return Patch(diff, changed, tuple(written), by_apply, str(home), tuple(helped))


def _calls_gpuscope(texts: Mapping[str, str]) -> int:
    """Imports from gpuscope."""
    return sum(
        line.lstrip().startswith(("from gpuscope", "import gpuscope"))
        for text in texts.values()
        for line in text.splitlines()
    )


def _resolved(seen: Seen) -> Seen:
    """The same with every path whole, so that one file has one name."""

    def whole(path: str) -> str:
        return str(Path(path).resolve()) if path else path

    def at(site: str) -> str:
        file, _, line = site.rpartition(":")
        return f"{whole(file)}:{line}" if file else site

    return replace(
        _at(seen, at),
        file=whole(seen.file),
        models=tuple(
            replace(m, site=at(m.site), file=whole(m.file), files=tuple(map(whole, m.files)))
            for m in seen.models
        ),
    )


def user_sources(seen: Seen) -> dict[str, str]:
    """Texts of the user's files that are known: of `build`, of call sites, of models' classes."""
    sites = [m.site for m in seen.models] + [o.site for o in seen.optimizers]
    sites += [x.site for x in seen.loaders] + [w.site for w in seen.wraps]
    paths = [seen.file, *(file for m in seen.models for file in m.files)]
    paths += [site.rpartition(":")[0] for site in sites]
    found = {}
    for path in dict.fromkeys(paths):
        text = _read(path) if path else None
        if text is not None:
            found[path] = text
    return found


def _read(path: str) -> str | None:
    """What a Python file holds, its line ends as they are; None where it cannot be read."""
    try:
        data = Path(path).read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode("utf-8" if encoding == "utf-8-sig" else encoding)
        ast.parse(text.removeprefix(_BOM))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return None
    return text


# -- one change -----------------------------------------------------------------------------------


def _written(change: Change, texts: Mapping[str, str], seen: Seen) -> dict[str, str] | None:
    """The texts with one change written into them; None where that cannot be done."""
    bare = {file: text.removeprefix(_BOM) for file, text in texts.items()}
    edits = change.edits(bare, seen)
    if not edits or any(edit.file not in bare for edit in edits):
        return None
    made = dict(texts)
    for file in dict.fromkeys(edit.file for edit in edits):
        mine = tuple(edit for edit in edits if edit.file == file)
        try:
            text = with_needs(file, applied(bare[file], mine), [n for e in mine for n in e.needs])
            ast.parse(text)
        except (SyntaxError, ValueError):
            return None
        mark = _BOM if texts[file].startswith(_BOM) else ""
        made[file] = mark + _with_ends(text, bare[file])
    return made


def _with_ends(text: str, before: str) -> str:
    """Lines that were added end as the file's own do."""
    if "\r\n" not in before:
        return text
    return "".join(line.rstrip("\r\n") + "\r\n" for line in lines_of(text))


def with_needs(file: str, text: str, needs: Iterable[str]) -> str:
    """A text with the imports that it needs, each once, before the first line that uses it."""
    for need in dict.fromkeys(needs):
        wanted = ast.parse(need).body[0]
        names = _bound(wanted)
        if any(names <= _bound(node) for node in ast.parse(text).body):
            continue
        edit = after_imports(file, text, need.rstrip("\n") + "\n")
        first = _first_use(text, names)
        if first is not None and first < edit.first:
            edit = replace(edit, first=first, last=first - 1)
        text = applied(text, (edit,))
    return text


def _bound(node: ast.stmt) -> set[str]:
    """Names that an import binds: "torch", "F"; of other statements none."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return set()
    return {alias.asname or alias.name.partition(".")[0] for alias in node.names}


def _first_use(text: str, names: set[str]) -> int | None:
    """The first line at the top level that uses a name when it runs."""
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node)):
            return node.lineno
    return None


def moved(seen: Seen, before: Mapping[str, str], after: Mapping[str, str]) -> Seen:
    """The same call sites in the new texts."""

    def at(site: str) -> str:
        file, _, line = site.rpartition(":")
        if file not in before or before[file] == after[file]:
            return site
        return f"{file}:{_new_line(before[file], after[file], int(line))}"

    return _at(seen, at)


def _at(seen: Seen, at: Callable[[str], str]) -> Seen:
    """The same with other call sites."""
    return replace(
        seen,
        models=tuple(replace(m, site=at(m.site)) for m in seen.models),
        optimizers=tuple(replace(o, site=at(o.site)) for o in seen.optimizers),
        loaders=tuple(replace(x, site=at(x.site)) for x in seen.loaders),
        wraps=tuple(replace(w, site=at(w.site)) for w in seen.wraps),
    )


def _new_line(before: str, after: str, line: int) -> int:
    """Where a line went; indentation does not count."""
    old = [each.strip() for each in lines_of(before)]
    new = [each.strip() for each in lines_of(after)]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        if i1 < line <= i2:
            return min(j1 + line - i1, max(j2, j1 + 1))
    return line


# -- what the source cannot say -------------------------------------------------------------------


def _with_apply(file: str, text: str, function: str, names: tuple[str, ...]) -> str:
    """The text with a line that makes changes when the code runs."""
    mark = _BOM if text.startswith(_BOM) else ""
    bare = text.removeprefix(_BOM)
    words = ", ".join(f'"{name}"' for name in names)
    build = function_named(bare, function) if function else None
    if build is None:
        made = after_imports(file, bare, f"gs.apply({words}).start()\n")
    else:
        first = min([build.lineno, *(d.lineno for d in build.decorator_list)])
        made = Edit(file, first, first - 1, f"@gs.apply({words})\n")
    new = with_needs(file, applied(bare, (made,)), ["import gpuscope as gs"])
    return mark + _with_ends(new, bare)


def parts_of(diff: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Names in a patch that `patch_of` made: in the source, made by `gs.apply`, and those in the
    source that call functions of gpuscope."""
    found: dict[str, tuple[str, ...]] = {}
    for line in diff.partition("\n\n")[0].splitlines():
        start, _, names = line.partition(": ")
        if f"{start}: " in (_IN_SOURCE, _BY_APPLY, _HELPED):
            found[f"{start}: "] = tuple(name.strip() for name in names.split(","))
    return found.get(_IN_SOURCE, ()), found.get(_BY_APPLY, ()), found.get(_HELPED, ())


def _head(in_source: tuple[str, ...], by_apply: tuple[str, ...], helped: tuple[str, ...]) -> str:
    """What a reader of the patch should know; `git apply` passes over it."""
    lines = ["Written by gpuscope. To make these changes: git apply <this file>\n"]
    if in_source:
        lines.append(f"{_IN_SOURCE}{', '.join(in_source)}\n")
    if helped:
        lines.append(f"{_HELPED}{', '.join(helped)}\n")
    if by_apply:
        lines.append(f"{_BY_APPLY}{', '.join(by_apply)}\n")
    return "".join(lines) + "\n"


# -- diffs ----------------------------------------------------------------------------------------


def _root(files: Iterable[str]) -> Path:
    """The repository that holds the files, or the folder that they share."""
    paths = [Path(file).resolve() for file in files]
    if not paths:
        return Path.cwd()
    shared = paths[0].parent
    while not all(path.is_relative_to(shared) for path in paths):
        shared = shared.parent
    return next((p for p in (shared, *shared.parents) if (p / ".git").exists()), shared)


def _diff(root: Path, file: str, before: str, after: str) -> str:
    path = Path(file).resolve()
    base = root.resolve()
    name = (path.relative_to(base) if path.is_relative_to(base) else Path(path.name)).as_posix()
    tab = "\t" if " " in name else ""  # as git writes it, so that the name's end is clear
    lines = difflib.unified_diff(
        _by_newline(before), _by_newline(after), f"a/{name}{tab}", f"b/{name}{tab}"
    )
    return "".join(x if x.endswith("\n") else f"{x}\n\\ No newline at end of file\n" for x in lines)


def _by_newline(text: str) -> list[str]:
    return io.StringIO(text, newline="\n").readlines()
