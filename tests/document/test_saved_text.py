"""Texts survive a document: encoded as plain data, read back with all their languages."""

from __future__ import annotations

import json

import pytest

from gpuscope.document.quantities import Amount, Bytes, Number, Rate, Seconds
from gpuscope.document.saved_text import form, restored, text_from, texts_of
from gpuscope.document.text import Text, capital, joined, plural, recorded, sentences, verbatim

TEXTS = [
    Text("idle"),
    Text("reserved {size}", size=Bytes(2**30)),
    Text("reserved {size}", size=Bytes(None)),
    Text("rank {rank} and {n} more", rank=3, n=Number(1234, ",")),
    Text("exposed communication: {label}", label=Text("idle")),
    Text("{rate} tokens/s", rate=Rate(4e11, "bit/s")),
    Text("{rate} tokens/s", rate=Amount(4.5, "steps/s")),
    plural("{count} change", "{count} changes", 1234),
    joined((Text("idle"), "aten::mm", plural("{count} change", "{count} changes", 1)), ": "),
    sentences(Text("Does not fit."), Text("reserved {size}", size=Bytes(1024))),
    capital(Text("idle")),
    verbatim(Seconds(0.0123)),
    recorded({"en": "wave", "zh": "波次"}),
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_back_in_every_language(text: Text) -> None:
    back = text_from(str(text), json.loads(json.dumps(form(text), allow_nan=False)))
    assert type(back) is Text
    assert [back.to(lang) for lang in ("en", "zh", "qps")] == [
        text.to(lang) for lang in ("en", "zh", "qps")
    ]


def test_a_document_has_one_table_and_is_read_with_it() -> None:
    document = {"notes": list(TEXTS), "name": "aten::mm", "nested": {"label": TEXTS[0], "n": [1]}}
    table = texts_of(document)
    assert set(table) == set(map(str, TEXTS))
    assert table["idle"] == {}
    plain = json.loads(json.dumps(document))
    back = restored(plain, json.loads(json.dumps(table)))
    assert back == document
    assert back["nested"]["label"].to("zh") == "空闲"
    assert type(back["name"]) is str


def test_names_need_no_entry() -> None:
    assert texts_of([verbatim("aten::mm"), Text("")]) == {}


def test_documents_of_version_1_had_chinese_beside_english() -> None:
    back = restored({"title": "Wave", "title_zh": "波次", "hint": "", "hint_zh": ""}, {})
    assert (back["title"], back["title"].to("zh")) == ("Wave", "波次")
    assert back["hint"] == ""


@pytest.mark.parametrize(
    "how",
    [
        None,
        [],
        "idle",
        {"no": "form"},
        {"template": 3},
        {"template": "{x.__class__}", "values": {"x": "a"}},
        {"template": "{x!r}", "values": {"x": "a"}},
        {"template": "{x:>999999999}", "values": {"x": "a"}},
        {"template": "{x", "values": {"x": "a"}},
        {"template": "{x}", "values": {"x": {"unit": "s", "value": "long"}}},
        {"template": "{x}", "values": {"x": {"number": ">999999999", "value": 1.0}}},
        {"template": "{x}", "values": {"x": None}},
        {"plural": ["one"], "number": 1},
        {"joined": 3, "separator": ", "},
        {"languages": {"zh": "无"}},
        {"capital": {"text": {"capital": None}, "en": "x"}},
    ],
)
def test_what_is_no_text_is_refused(how: object) -> None:
    with pytest.raises(ValueError, match=r"unknown form|no template"):
        text_from("English", how)


def test_texts_may_not_be_endlessly_deep() -> None:
    how: dict = {}
    for _ in range(100):
        how = {"capital": {"text": how, "en": "x"}}
    with pytest.raises(ValueError, match="unknown form"):
        text_from("x", how)
    with pytest.raises(ValueError, match="no object"):
        restored({}, [])
