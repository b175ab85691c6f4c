"""The language that is chosen, and words of the data that have a translation."""

from __future__ import annotations

from typing import get_args

import pytest

from gpuscope.analysis.breakdown import CLASSES
from gpuscope.analysis.copies import DIRECTIONS
from gpuscope.analysis.critical_path import PATH_KINDS
from gpuscope.analysis.idle import IDLE_CAUSES
from gpuscope.analysis.recorded_types import LATE_REASONS, QUESTIONS
from gpuscope.cost.types import Kind, Limiter, Origin
from gpuscope.doctor.types import SEVERITIES
from gpuscope.document.language import LANGUAGES
from gpuscope.errors import UnknownNameError
from gpuscope.learn.claims.types import JUDGEMENTS
from gpuscope.program.types import Category, Phase
from gpuscope.views.i18n import choose_language, next_language, tr
from gpuscope.views.words import WORDS, class_label, word


@pytest.mark.parametrize(
    "words",
    [
        CLASSES,
        IDLE_CAUSES,
        get_args(Kind),
        get_args(Limiter),
        get_args(Origin),
        get_args(Category),
        get_args(Phase),
        SEVERITIES,
        JUDGEMENTS,
        ("idle", "measured", "predicted"),
        DIRECTIONS,
        PATH_KINDS,
        LATE_REASONS,
        QUESTIONS,
        ("pageable", "pinned"),
    ],
)
def test_the_words_of_the_data_are_listed(words) -> None:
    assert [word for word in words if word.replace("_", " ") not in WORDS] == []


def test_words_are_said_in_the_language() -> None:
    assert [word(name, "zh") for name in WORDS if word(name, "zh") == name] == []
    assert word("tensor_core", "en") == "tensor core"
    assert word("aten::mm", "zh") == "aten::mm"
    assert class_label("idle: launch gap", "en") == "idle: launch gap"
    assert class_label("idle: launch gap", "zh").startswith("空闲：")


def test_tr_fills_in_values_and_keeps_what_it_does_not_know() -> None:
    assert tr("reserved {size}", "en", size="1 GiB") == "reserved 1 GiB"
    assert tr("reserved {size}", "zh", size="1 GiB") == "预留 1 GiB"
    assert tr("aten::mm", "zh") == "aten::mm"


def test_languages_take_turns() -> None:
    """Each catalogue holds its own name as the translation of "English"."""
    assert [tr("English", lang) for lang in ("en", "zh")] == ["English", "中文"]
    lang = "en"
    for _ in LANGUAGES:
        lang = next_language(lang)
    assert lang == "en"
    assert next_language("qps") == "en"


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
