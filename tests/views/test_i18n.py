"""Two languages in step: every text that is shown has its translation.

The page's own texts are held by `web/test/language.test.ts`.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import gpuscope
from gpuscope.analysis.breakdown import CLASSES
from gpuscope.analysis.copies import DIRECTIONS
from gpuscope.analysis.critical_path import PATH_KINDS
from gpuscope.analysis.idle import IDLE_CAUSES
from gpuscope.analysis.recorded_types import LATE_REASONS, QUESTIONS
from gpuscope.cost.types import Kind, Limiter, Origin
from gpuscope.errors import UnknownNameError
from gpuscope.program.types import Category, Phase
from gpuscope.views.figures import FIELD_LABELS
from gpuscope.views.i18n import choose_language, tr
from gpuscope.views.sweep import FIELDS
from gpuscope.views.terminal.finding_panel import _ORIGINS
from gpuscope.views.text_zh import CHINESE

PACKAGE = Path(gpuscope.__file__).parent


def python_texts() -> Iterator[tuple[str, str]]:
    """Every string constant that stands in the first argument of a call of tr()."""
    for path in [*PACKAGE.glob("views/**/*.py"), *PACKAGE.glob("cli/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "tr"):
                continue
            first = node.args[0]
            branches = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            for branch in branches:
                if isinstance(branch, ast.Constant):
                    yield path.name, branch.value


def test_the_collection_finds_what_it_should() -> None:
    assert ("headline.py", "Peak memory") in set(python_texts())
    assert len(set(python_texts())) > 80


def test_every_text_of_the_terminal_is_translated() -> None:
    assert {(where, text) for where, text in python_texts() if text not in CHINESE} == set()


@pytest.mark.parametrize(
    "words",
    [
        CLASSES, IDLE_CAUSES, get_args(Kind), get_args(Limiter), get_args(Origin),
        get_args(Category), get_args(Phase), FIELD_LABELS.values(), FIELDS.values(),
        _ORIGINS.values(), ("idle", "measured", "predicted"),
        ("memory bandwidth", "arithmetic", "L2 cache", "host link"),
        DIRECTIONS, PATH_KINDS, LATE_REASONS, QUESTIONS, ("pageable", "pinned"),
    ],
)  # fmt: skip
def test_the_words_of_the_data_are_translated(words) -> None:
    assert [word for word in words if word.replace("_", " ") not in CHINESE] == []


def test_translations_fill_in_the_same_values() -> None:
    def names(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}

    differ = {english for english, chinese in CHINESE.items() if names(english) != names(chinese)}
    assert differ == set()


def test_translations_are_chinese() -> None:
    """A sentence left in English would pass the tests above."""
    chinese = re.compile(r"[一-鿿，。：；、]")
    left = [e for e, c in CHINESE.items() if not chinese.search(c)]
    # Units and figures read the same in both languages.
    assert set(left) <= {"{rate} tokens/s", "tokens/s"}


def test_tr_fills_in_values_and_keeps_what_it_does_not_know() -> None:
    assert tr("reserved {size}", "en", size="1 GiB") == "reserved 1 GiB"
    assert tr("reserved {size}", "zh", size="1 GiB") == "预留 1 GiB"
    assert tr("aten::mm", "zh") == "aten::mm"


@pytest.mark.parametrize(
    ("asked", "environment", "language"),
    [
        (None, {}, "en"),
        (None, {"LANG": "zh_CN.UTF-8"}, "zh"),
        (None, {"LANG": "de_DE.UTF-8"}, "en"),
        (None, {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        (None, {"GPUSCOPE_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
        ("zh", {"GPUSCOPE_LANG": "en"}, "zh"),
        ("zh-Hans", {}, "zh"),
        ("ZH_cn", {}, "zh"),
    ],
)
def test_choice_of_language(asked, environment, language) -> None:
    assert choose_language(asked, environment) == language


def test_unknown_language() -> None:
    with pytest.raises(UnknownNameError, match="'fr'"):
        choose_language("fr", {})
