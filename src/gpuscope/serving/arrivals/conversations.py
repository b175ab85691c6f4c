"""Conversations: turns whose prompts begin with all that was said before.

    conversations:5x20     five turns each, 20 s from one to the next on average

Conversations begin as a Poisson process, so many that requests come at the rate asked for. A turn
adds its own tokens to the prompt (`input`) and its answer's (`output`); the next prompt begins with
both. Turns are sent at times drawn beforehand (gaps are exponential), not after an answer: the same
requests for a simulator and a server, whichever is slower. What stands for earlier answers in a
prompt is made up, as all of it is: a server finds earlier prompts in its cache, not its answers.
"""

from __future__ import annotations

import re
from math import ceil

import numpy as np

from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.serving.arrivals import Kind, Load
from gpuscope.serving.requests import Ints, Requests

_FORM = re.compile(r"^conversations:(\d{1,4})x(\d*\.?\d+)$")


def parse_conversations(text: str) -> tuple[int, float]:
    """Turns, and seconds from one to the next, of "conversations:5x20".

    Raises:
        InvalidValueError: something else, or fewer than one turn.
    """
    found = _FORM.match(text.strip().lower())
    turns, gap_s = (int(found[1]), float(found[2])) if found else (0, 0.0)
    if turns < 1 or not 0 < gap_s <= 86_400:
        raise InvalidValueError(
            Text("'{text}' are no conversations.", text=text),
            Text("They are a number of turns, 'x', and the seconds from one to the next."),
            Text("Type: --arrivals conversations:5x20"),
        )
    return turns, gap_s


def converse(
    asked: str, rate_per_s: float, added: Ints, answers: Ints, random: np.random.Generator
) -> Requests:
    """Turns of conversations, in the order in which they are sent.

    Args:
        asked: "conversations:5x20".
        rate_per_s: requests each second, on average, once as many talk as ever will.
        added: tokens that each turn adds to its prompt, one for each request.
        answers: tokens of each answer.
        random: draws beginnings and gaps.

    Raises:
        InvalidValueError: `asked` is none.
    """
    turns, gap_s = parse_conversations(asked)
    many = ceil(len(added) / turns)
    begun = np.cumsum(random.exponential(turns / rate_per_s, many))
    gaps = random.exponential(gap_s, (many, turns))
    gaps[:, 0] = 0.0
    times = (begun[:, None] + np.cumsum(gaps, axis=1)).ravel()
    said, heard = (np.resize(each, (many, turns)) for each in (added, answers))
    prompts = np.cumsum(said, axis=1) + np.cumsum(heard, axis=1) - heard
    order = np.argsort(times, kind="stable")[: len(added)]
    prompt, who = prompts.ravel()[order], np.repeat(np.arange(many), turns)[order]
    return Requests(
        arrival_s=times[order] - times[order[0]],
        input_tokens=prompt,
        output_tokens=heard.ravel()[order],
        session=who,
        prefix=who,
        prefix_tokens=prompt,  # one stream of tokens a conversation, of which each turn has more
        name=Text("conversations of {turns} turns, {gap} apart", turns=turns, gap=Seconds(gap_s)),
    )


def _make(load: Load, inputs: Ints, outputs: Ints, random: np.random.Generator) -> Requests:
    return converse(load.arrivals, load.rate_per_s, inputs, outputs, random)


KIND = Kind(make=_make, form="conversations:5x20", plain=False)
