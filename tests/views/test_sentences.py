"""Sentences that other rooms write are found again and said in Chinese."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

import gpuscope
from gpuscope.explain.types import Words
from gpuscope.views.sentences import both, sentence
from gpuscope.views.text_zh_sentences import SENTENCES

PACKAGE = Path(gpuscope.__file__).parent


def _names(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


def _written() -> set[str]:
    """Every text of the package, with {} where a value stands."""
    found = set()
    for path in PACKAGE.glob("**/*.py"):
        if path.name == "text_zh_sentences.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(re.sub(r"\{\w+\}", "{}", node.value))
            elif isinstance(node, ast.JoinedStr):
                parts = [v.value if isinstance(v, ast.Constant) else "{}" for v in node.values]
                found.add("".join(map(str, parts)))
    return found


def test_each_is_a_sentence_that_the_package_writes() -> None:
    bare = {english: re.sub(r"\{\w+\}", "{}", english) for english in SENTENCES}
    written = _written()
    assert [english for english, text in bare.items() if text not in written] == []


@pytest.mark.parametrize("english", SENTENCES)
def test_values_stay_in_their_places(english: str) -> None:
    chinese = SENTENCES[english]
    assert _names(english) == _names(chinese)
    values = {name: f"<{name}> of 3, and 4" for name in _names(english)}
    assert sentence(english.format(**values), "zh") == chinese.format(**values)
    assert sentence(english.format(**values), "en") == english.format(**values)


def test_a_sentence_within_a_sentence() -> None:
    text = "The power limit of 700 W lowers the clock to about 1.52 GHz in this step."
    assert sentence(text, "zh") == "700 W 的功耗上限使这一步的频率降到约 1.52 GHz。"


def test_words_in_english_alone_are_said_in_chinese() -> None:
    english = "The power limit of 700 W lowers the clock to about 1.52 GHz in this step."
    assert both(Words(english, english)) == Words(english, sentence(english, "zh"))
    assert both(Words("one", "一")) == Words("one", "一")


def test_what_is_not_known_stays() -> None:
    assert sentence("Nobody wrote this.", "zh") == "Nobody wrote this."
