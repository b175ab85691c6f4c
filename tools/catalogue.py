"""The catalogues of translations: taken from the sources, merged, compiled.

    python tools/catalogue.py                merge new texts into every locale/*.po, and compile
    python tools/catalogue.py add FILE       the same, with translations from {"English": "..."}
    python tools/catalogue.py prune          the same, and drop what no source holds
    python tools/catalogue.py check [ROOM]   what is missing, unused, malformed or not compiled

A text is the first argument of `Text`, `plural` (the first two) or `tr` in Python, a paragraph of a
command's docstring, the first argument of `t` in the page's TypeScript, or a string of a TOML file
under a key that ends a sentence's table (see `TOML_KEYS`).
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import string
import sys
import tomllib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "gpuscope"
PAGE = ROOT / "web" / "src"
LOCALE = SOURCE / "document" / "locale"

FUNCTIONS = {"Text": 1, "Said": 1, "tr": 1, "plural": 2, "joined": 0}
"""Functions whose first arguments are templates; `joined` names a separator."""

TOML_KEYS = frozenset(
    {"text", "title", "what", "why", "fix", "hint", "note", "cause", "about"}
    | {"label", "truth", "cannot_say", "columns"}
)
"""Keys of the package's own tables (but the hardware catalogue's) that hold texts."""

TOML_WORDS = "words"
"""A table of this name holds nothing but texts, whatever their keys."""

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""Catalogues carry no dates: the same texts are the same file."""

PUNCTUATION = frozenset({"{first} {second}", ", ", ": ", "; ", ". "})
"""Texts that no call names: what stands between parts."""

PAGE_LIST = SOURCE / "views" / "page" / "texts.json"
"""The list of the page's own texts."""

Key = str | tuple[str, str]


def literal(node: ast.expr) -> str | None:
    """Return a string literal's value, None where it is anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@cache
def python_texts(path: Path) -> tuple[tuple[int, Key | None], ...]:
    """Return (line, text) of one module's texts; None where a template is no literal."""
    return tuple(_python_texts(path))


def _python_texts(path: Path) -> Iterator[tuple[int, Key | None]]:
    source = path.read_text("utf-8")
    functions = dict(FUNCTIONS)
    if "from rich.text import Text\n" in source:
        del functions["Text"]
    tree = ast.parse(source)
    yield from command_docstrings(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name not in functions or not node.args:
            continue
        if name == "joined":
            separators = [*node.args[1:], *(k.value for k in node.keywords)]
            yield from ((node.lineno, literal(each)) for each in separators)
            continue
        found = [literal(each) for each in node.args[: FUNCTIONS[name]]]
        if name == "plural" and len(found) == 2 and found[0] and found[1]:
            yield node.lineno, (found[0], found[1])
        else:
            yield from ((node.lineno, each) for each in found)


def command_docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module's commands (`app.command(...)(name)`) by paragraph."""
    commands = {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(getattr(node.func, "func", 0), "attr", "") == "command"
        for argument in node.args
        for name in ast.walk(argument)
        if isinstance(name, ast.Name)
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in commands:
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                yield node.lineno, " ".join(paragraph.split())


_PAGE = re.compile(r"""(?<![\w.])(?:t|text)\(\s*("(?:[^"\\]|\\.)*")""")


def page_texts(path: Path) -> Iterator[str]:
    """Yield the texts of one TypeScript file: `t("...")`, and `text("...")` where it is a mark."""
    for found in _PAGE.finditer(path.read_text("utf-8")):
        yield json.loads(found[1])


def toml_texts(path: Path) -> Iterator[str]:
    """Yield the texts of one table."""

    def walk(value: object, key: str) -> Iterator[str]:
        if isinstance(value, dict):
            for name, inner in value.items():
                if name != "given":  # names of formulas and what they stand for
                    yield from walk(inner, TOML_WORDS if key == TOML_WORDS else name)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner, key)
        elif isinstance(value, str) and key in {TOML_WORDS, *TOML_KEYS}:
            # "@name" stands for an entry of [words].
            yield from (value,) if value and value[0] != "@" else ()

    yield from walk(tomllib.loads(path.read_text("utf-8")), "")


def python_sources() -> Iterable[Path]:
    """All modules whose texts are translated."""
    return sorted(SOURCE.rglob("*.py"))


def table_sources() -> list[Path]:
    """All tables whose texts are translated: not the hardware's."""
    return [path for path in sorted(SOURCE.rglob("*.toml")) if "catalogue" not in path.parts]


def extracted(room: str = "") -> set[Key]:
    """All texts of the sources, or those of the modules of one room."""
    if room:
        paths = [p for p in python_sources() if room in p.relative_to(SOURCE).as_posix()]
        tables = [p for p in table_sources() if room in p.relative_to(SOURCE).as_posix()]
        found = {key for path in paths for _, key in python_texts(path) if key}
        return found | {text for path in tables for text in toml_texts(path)}
    found: set[Key] = {*PUNCTUATION, "not available"}
    for path in python_sources():
        found |= {key for _, key in python_texts(path) if key}
    for path in sorted(PAGE.rglob("*.ts")):
        found |= set(page_texts(path))
    for path in table_sources():
        found |= set(toml_texts(path))
    return found


def not_literal() -> list[str]:
    """Places where a template is no literal, and so cannot be extracted."""
    return [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_sources()
        for line, key in python_texts(path)
        if key is None and path.parent != LOCALE.parent
    ]


def read(path: Path) -> Catalog:
    """Read one catalogue."""
    with path.open("rb") as file:
        return read_po(file, locale=path.stem)


HEADER = """# Texts of gpuscope in another language than English; see tools/catalogue.py.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"
"Language: {language}\\n"
"Plural-Forms: {plurals}\\n"

"""


def write(catalogue: Catalog, path: Path) -> None:
    """Write a catalogue, sorted and without places and dates (they go stale), and compile it."""
    out = io.BytesIO()
    write_po(out, catalogue, sort_output=True, no_location=True, width=100, omit_header=True)
    head = HEADER.format(language=path.stem, plurals=catalogue.plural_forms)
    path.write_bytes(head.encode() + out.getvalue())
    path.with_suffix(".mo").write_bytes(compiled(catalogue))


def compiled(catalogue: Catalog) -> bytes:
    """Return a catalogue as gettext reads it."""
    catalogue.creation_date = catalogue.revision_date = EPOCH
    out = io.BytesIO()
    write_mo(out, catalogue)
    return out.getvalue()


def page_list() -> str:
    """Return the page's own texts as JSON; `gpuscope.views.html` puts their translations in."""
    own = {key for path in sorted(PAGE.rglob("*.ts")) for key in page_texts(path)}
    return json.dumps(sorted(own | PUNCTUATION), ensure_ascii=False, indent=0) + "\n"


def fields(template: str) -> set[str]:
    """Names in a template's braces.

    Raises:
        ValueError: braces that do not close.
    """
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def wrong(catalogue: Catalog, wanted: set[Key]) -> list[str]:
    """Say what a catalogue lacks, holds in vain, or holds in a form that cannot be filled."""
    have = {message.id: message.string for message in catalogue if message.id}
    found = [f"missing: {key!r}" for key in wanted if not any(have.get(key) or ())]
    found += [f"unused: {key!r}" for key in have if key not in wanted]
    for key, string_ in have.items():
        ids = key if isinstance(key, tuple) else (key,)
        strings = string_ if isinstance(string_, tuple) else (string_,)
        allowed = set().union(*(_fields(each) for each in ids))
        for each in strings:
            if allowed and not _fields(each) <= allowed | {"count"} and "{" in ids[0]:
                # A translation may use a value that the English leaves out (see `Text`).
                continue
            try:
                fields(each)
            except ValueError:
                if allowed:
                    found.append(f"malformed: {key!r}")
    return sorted(found)


def _fields(template: str) -> set[str]:
    try:
        return fields(template)
    except ValueError:
        return set()


def update(extra: dict[str, str], prune: bool = False) -> None:
    """Bring every catalogue in step with the sources; `extra` fills in translations."""
    wanted = extracted()
    PAGE_LIST.write_text(page_list(), "utf-8")
    for path in sorted(LOCALE.glob("*.po")):
        catalogue = read(path)
        fresh = Catalog(locale=path.stem, charset="utf-8", fuzzy=False)
        keys = wanted if prune else wanted | {message.id for message in catalogue if message.id}
        for key in sorted(keys, key=str):
            known = catalogue[key]
            text = known.string if known is not None else ""
            first = key[0] if isinstance(key, tuple) else key
            if first in extra or not (text if isinstance(text, str) else any(text)):
                text = extra.get(first, "")
                text = (text,) * fresh.num_plurals if isinstance(key, tuple) else text
            fresh.add(key, text)
        write(fresh, path)


def main() -> int:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "do", nargs="?", default="update", choices=["add", "prune", "check", "update"]
    )
    parser.add_argument("what", nargs="?", default="")
    asked = parser.parse_args()
    if asked.do != "check":
        extra = json.loads(Path(asked.what).read_text("utf-8")) if asked.do == "add" else {}
        update(extra, asked.do == "prune")
        return 0
    found = said_wrong(asked.what)
    print("\n".join(found))
    return 1 if found else 0


def said_wrong(room: str = "") -> list[str]:
    """Everything that is wrong with the catalogues; of one room only what it lacks."""
    wanted, found = extracted(room), [] if room else [f"no literal: {p}" for p in not_literal()]
    for path in sorted(LOCALE.glob("*.po")):
        catalogue = read(path)
        here = [each for each in wrong(catalogue, wanted) if not room or each.startswith("missing")]
        found += [f"{path.stem}: {each}" for each in here]
        if not room and compiled(catalogue) != path.with_suffix(".mo").read_bytes():
            found.append(f"{path.stem}: not compiled since it was changed")
    return found


if __name__ == "__main__":
    sys.exit(main())
