"""The document `gpuscope.claims`: what the page and other tools read."""

from __future__ import annotations

import json

from gpuscope import __version__
from gpuscope.learn.claims.document import CLAIMS_VERSION, claims_document
from gpuscope.learn.claims.registry import all_verdicts, judged
from gpuscope.learn.claims.types import JUDGEMENTS, METHODS


def test_all_claims_are_in_it() -> None:
    document = json.loads(json.dumps(claims_document(), ensure_ascii=False, allow_nan=False))
    assert document["schema"] == "gpuscope.claims"
    assert (document["version"], document["gpuscope_version"]) == (CLAIMS_VERSION, __version__)
    assert len(document["claims"]) == len(all_verdicts())
    assert list(document["counts"]) == list(JUDGEMENTS)
    for verdict, count in document["counts"].items():
        assert sum(entry["verdict"] == verdict for entry in document["claims"]) == count
    order = [JUDGEMENTS.index(entry["verdict"]) for entry in document["claims"]]
    assert order == sorted(order)


def test_an_entry() -> None:
    (entry,) = claims_document([judged("C-018")])["claims"]
    assert entry["topic"] == {"en": "Links and networks", "zh": "互连与网络"}
    assert entry["topic_key"] == "interconnect"
    assert (entry["claimed"], entry["unit"], entry["values"]) == (2, "x", [2.0])
    assert (entry["verdict"], entry["method"]) == ("right", "formula")
    assert entry["truth"] == {"en": "2×", "zh": "2 倍"}
    assert entry["sources"]


def test_every_entry_has_the_same_fields() -> None:
    entries = claims_document()["claims"]
    fields = set(entries[0])
    for entry in entries:
        assert set(entry) == fields
        assert entry["method"] in METHODS
        assert isinstance(entry["claimed"], (int, float, str, list))
        for field in ("topic", "claim", "truth", "evidence"):
            assert entry[field] is None or set(entry[field]) == {"en", "zh"}
        assert (entry["truth"] is None) == (entry["verdict"] == "cannot say")
