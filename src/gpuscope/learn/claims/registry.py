"""All claims: each file of `topics/` holds a topic's.

To add a claim, append a table to the file of its topic; to add a topic, put a file there
(docs/claims.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gpuscope.document.language import LANGUAGES
from gpuscope.document.text import render
from gpuscope.errors import UnknownNameError
from gpuscope.learn.claims.book import claims_of
from gpuscope.learn.claims.types import JUDGEMENTS, Claim, Judged, Judgement

TOPICS = Path(__file__).with_name("topics")
"""Where the tables lie."""


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, by id."""
    found = [
        claim for path in sorted(TOPICS.glob("*.toml")) for claim in claims_of(path.read_bytes())
    ]
    ids = [claim.id for claim in found]
    if len(set(ids)) != len(ids):
        twice = sorted({id for id in ids if ids.count(id) > 1})
        raise ValueError(f"two claims named {', '.join(twice)}")
    return tuple(sorted(found, key=lambda claim: claim.id))


@cache
def all_verdicts() -> tuple[Judged, ...]:
    """Every claim with its verdict, by id; all checks run."""
    return tuple(Judged(claim, claim.verdict()) for claim in all_claims())


def topic_keys() -> tuple[str, ...]:
    """The stable words of all topics."""
    return tuple(sorted({claim.topic.key for claim in all_claims()}))


def judged(id: str) -> Judged:
    """One claim by its id, in any case.

    Raises:
        UnknownNameError: no such claim.
    """
    for each in all_claims():
        if each.id.lower() == id.lower():
            return Judged(each, each.verdict())
    known = [claim.id for claim in all_claims()]
    raise UnknownNameError("claim", id, known, "Type: gpuscope claims")


def search(
    words: Sequence[str] = (), verdict: str | None = None, topic: str | None = None
) -> tuple[Judged, ...]:
    """Claims that hold all the words, wrong ones first.

    Args:
        words: each must occur in the claim, its truth, its topic or its id, in any language.
        verdict: only this one ("wrong", "imprecise", ...).
        topic: only this topic, by its key or a part of its name.

    Raises:
        UnknownNameError: no such verdict or topic.
    """
    if verdict is not None and verdict not in JUDGEMENTS:
        raise UnknownNameError("verdict", verdict, JUDGEMENTS)
    if topic is not None and not any(_is_topic(c, topic) for c in all_claims()):
        raise UnknownNameError("topic", topic, topic_keys())
    found = [
        each
        for each in all_verdicts()
        if (topic is None or _is_topic(each.claim, topic))
        and (verdict is None or each.verdict.verdict == verdict)
        and all(word.lower() in _text(each) for word in words)
    ]
    return tuple(sorted(found, key=lambda j: (JUDGEMENTS.index(j.verdict.verdict), j.claim.id)))


def _is_topic(claim: Claim, topic: str) -> bool:
    wanted = topic.lower()
    name = claim.topic.name
    return wanted == claim.topic.key or any(
        wanted in render(name, lang).lower() for lang in LANGUAGES
    )


def _text(each: Judged) -> str:
    claim, verdict = each.claim, each.verdict
    words = [
        render(w, lang)
        for lang in LANGUAGES
        for w in (claim.words, claim.topic.name, verdict.truth)
    ]
    return "\n".join([claim.id, claim.topic.key, *words]).lower()


def counts(judged: Sequence[Judged]) -> dict[Judgement, int]:
    """How many of each verdict."""
    return {j: sum(each.verdict.verdict == j for each in judged) for j in JUDGEMENTS}
