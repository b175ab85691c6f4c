"""A text is its English, remembers how it was made, and is rendered in any language."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from gpuscope.document.language import filled
from gpuscope.document.quantities import Amount, Bytes, Count, Number, Percent, Rate, Seconds, Share
from gpuscope.document.quantities import quantity as of_unit
from gpuscope.document.text import Text, capital, joined, plural, render, sentences, verbatim

SIMPLE = Text("{rate} tokens/s", rate=Count(157_000))
LAUNCH = Text("launch gap")
TEXTS = [
    Text("idle"),
    SIMPLE,
    Text("reserved {size}", size=Bytes(2**30)),
    plural("{count} change", "{count} changes", 3),
    joined((Text("idle"), LAUNCH), ": "),
    sentences(Text("Does not fit."), None, Text("The band is the 80 % interval.")),
    capital(Text("idle")),
    verbatim("aten::mm"),
    verbatim(Seconds(0.0123)),
]


def test_a_text_is_its_english() -> None:
    assert SIMPLE == "157 k tokens/s"
    assert isinstance(SIMPLE, str)
    assert {SIMPLE: 1}["157 k tokens/s"] == 1
    assert f"{SIMPLE:>16}" == "  157 k tokens/s"
    assert render(SIMPLE, "en") == str(SIMPLE)
    assert SIMPLE.template == "{rate} tokens/s"
    assert dict(SIMPLE.values) == {"rate": Count(157_000)}
    assert joined(("a", "b")).template == ""


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("through", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_copy_speaks_all_languages(text, through) -> None:
    made = through(text)
    back = pickle.loads(made) if isinstance(made, bytes) else made
    assert type(back) is Text
    assert (str(back), back.to("zh"), back.to("qps")) == (str(text), text.to("zh"), text.to("qps"))


def test_values_are_rendered_in_the_language() -> None:
    text = Text("exposed communication: {label}", label=Text("idle"))
    assert text == "exposed communication: idle"
    assert text.to("zh").endswith("空闲")
    missing = Text("reserved {size}", size=Bytes(None))
    assert (str(missing), missing.to("zh")) == ("reserved not available", "预留 不可用")


def test_without_values_braces_are_only_braces() -> None:
    assert Text("At {b}, {d}: {t}.") == "At {b}, {d}: {t}."
    with pytest.raises(KeyError):
        Text("At {b}", c=1)


def test_other_values_are_kept_as_they_read() -> None:
    text = Text("Reading {target} …", target=Path("a/b.json"))
    assert text.values["target"] == "a/b.json"
    assert Text("Missing: {name}.", name=KeyError("x")) == "Missing: 'x'."


def test_plural_forms() -> None:
    one, many = (plural("{count} change", "{count} changes", n) for n in (1, 1234))
    assert (one, many) == ("1 change", "1,234 changes")
    assert (one.to("zh"), many.to("zh")) == ("1 项改动", "1,234 项改动")


def test_rows_and_sentences_follow_the_language() -> None:
    row = joined((Text("idle"), None, "", "aten::mm"))
    assert (str(row), row.to("zh")) == ("idle, aten::mm", "空闲、aten::mm")
    two = sentences(Text("Does not fit."), Text("Does not fit."))
    assert str(two) == "Does not fit. Does not fit."
    assert two.to("zh") == "放不下。放不下。"
    assert capital(Text("idle")) == "Idle"
    assert (str(sentences()), str(joined(()))) == ("", "")


def test_names_are_the_same_in_all_languages() -> None:
    assert verbatim("idle").to("zh") == verbatim("idle").to("qps") == "idle"


def test_the_pseudo_language_brackets_words_alone() -> None:
    """What stands outside brackets went through no catalogue; values do not hide in them."""
    text = Text("Reading {target} …", target="an English phrase")
    assert text.to("qps") == "⟦Reading ⟧an English phrase …"
    assert joined((Text("idle"), "b"), ", ").to("qps") == "⟦idle⟧, b"
    assert plural("{count} change", "{count} changes", 2).to("qps") == "2 ⟦changes⟧"


def test_render_takes_what_views_hold() -> None:
    assert render(None, "zh") == ""
    assert render("aten::mm", "zh") == "aten::mm"
    assert render(3, "zh") == "3"
    assert render(Share(None), "zh") == "不可用"
    assert render(LAUNCH, "a language without a catalogue") == "launch gap"


def test_quantities() -> None:
    assert str(Seconds(0.0123)) == "12.3 ms"
    assert f"{Percent(0.382):>5}" == " 38 %"
    assert str(Rate(2e12, "bit/s")) == "2.00 Tbit/s"
    assert str(Amount(2.5, "tokens/s")) == "2.50 tokens/s"
    assert (str(Number(12345.0, ",.0f")), str(Number(None, ","))) == ("12,345", "not available")
    assert Seconds(1.0) == Seconds(1.0) != Share(1.0)
    assert of_unit(1.0, "s") == Seconds(1.0)
    assert of_unit(1.0, "tokens/s") == Amount(1.0, "tokens/s")
    assert pickle.loads(pickle.dumps(Rate(1.0, "bit/s"))) == Rate(1.0, "bit/s")


def test_latin_values_stand_apart_from_chinese() -> None:
    han = "\u7684\u9009\u62e9\u662f"
    assert filled(f"NCCL {han}{{way}}{han}", {"way": "NVLS"}, "zh") == f"NCCL {han} NVLS {han}"
    assert filled(f"{han}{{way}}{han}", {"way": han}, "zh") == han * 3
    assert filled(f"{han}({{way}})", {"way": "42 %"}, "zh") == f"{han}(42 %)"
    assert filled(f"{han} {{way}} {han}", {"way": "42 %"}, "zh") == f"{han} 42 % {han}"
