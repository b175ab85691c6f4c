"""All claims with their verdicts as plain data: the JSON document `gpuscope.claims`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuscope import __version__
from gpuscope.document.translations import spoken
from gpuscope.learn.claims.registry import all_verdicts, counts
from gpuscope.learn.claims.types import JUDGEMENTS, Judged

CLAIMS_VERSION = 1

Json = dict[str, Any]


def claims_document(judged: Sequence[Judged] | None = None) -> Json:
    """Return claims as plain values, wrong ones first: all of them, unless some are given.

    `claimed` is a number, a list of numbers (a range) or text; its unit is `unit`. `values` are the
    true values in that unit; `truth` is null where nothing could be computed. `counts` has every
    verdict, also those that do not occur.
    """
    found = tuple(judged) if judged is not None else all_verdicts()
    order = sorted(found, key=lambda j: (JUDGEMENTS.index(j.verdict.verdict), j.claim.id))
    return {
        "schema": "gpuscope.claims",
        "version": CLAIMS_VERSION,
        "gpuscope_version": __version__,
        "claims": [_entry(each) for each in order],
        "counts": counts(found),
    }


def _entry(judged: Judged) -> Json:
    claim, verdict = judged.claim, judged.verdict
    claimed = list(claim.claimed) if isinstance(claim.claimed, tuple) else claim.claimed
    return {
        "id": claim.id,
        "topic": spoken(claim.topic.name),
        "topic_key": claim.topic.key,
        "claim": spoken(claim.words),
        "claimed": claimed,
        "unit": claim.unit,
        "verdict": verdict.verdict,
        "truth": spoken(verdict.truth),
        "evidence": spoken(verdict.evidence),
        "method": verdict.method,
        "sources": list(verdict.sources),
        "values": list(verdict.values),
    }
