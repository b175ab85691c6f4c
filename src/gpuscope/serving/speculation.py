"""Speculative decoding: some tokens drafted, and verified together in one pass of the model.

Each drafted token is accepted with a probability while all before it were (Leviathan et al. 2023,
arXiv 2211.17192): a step gives 1 + the accepted ones, on average (1 - a^(k+1)) / (1 - a). All k + 1
tokens of a sequence go through the model; their keys and values are read once. Drafts cost a share
of a decode step each: 0 where they are looked up in the prompt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.serving.front import Spoken
from gpuscope.serving.replica import Replica

MOST_DRAFTED = 64


@dataclass(frozen=True, slots=True)
class Guess:
    """How tokens are drafted.

    Attributes:
        drafted: tokens a step.
        accept: probability that one is accepted, while all before it were.
        draft_share: cost of a drafted token, of a decode step of the model.
    """

    drafted: int
    accept: float
    draft_share: float = 0.0

    @property
    def tokens_per_step(self) -> float:
        """That come out, on average."""
        if self.accept >= 1:
            return self.drafted + 1.0
        return float((1 - self.accept ** (self.drafted + 1)) / (1 - self.accept))


_ONE = re.compile(r"^(k|accept|draft)=(\d*\.?\d+)$")


def parse_guess(text: str) -> Guess:
    """Read "k=3,accept=0.7" or "k=3,accept=0.7,draft=0.05".

    Raises:
        InvalidValueError: something else, or a figure that cannot be.
    """
    found = [_ONE.match(part) for part in text.lower().replace(" ", "").split(",")]
    values = {match[1]: float(match[2]) for match in found if match}
    if len(values) == len(found) and {"k", "accept"} <= set(values):
        k, accept, draft = values["k"], values["accept"], values.get("draft", 0.0)
        if k == int(k) and 1 <= k <= MOST_DRAFTED and 0 <= accept <= 1 and 0 <= draft <= 1:
            return Guess(int(k), accept, draft)
    raise InvalidValueError(
        Text("'{text}' is no way to draft tokens.", text=text),
        Text(
            "It is how many are drafted (1 to {most}), and the share that is accepted (0 to 1); "
            "draft is what one costs, as a share of a step.",
            most=MOST_DRAFTED,
        ),
        Text("Type: --speculate k=3,accept=0.7"),
    )


class Worst:
    """Stands for `Growth`: blocks that the next step takes where all drafts are accepted."""

    def __init__(self, replica: Speculating, block_tokens: int) -> None:
        self.replica, self.size = replica, block_tokens

    def add(self, step: int, tokens: int, count: int = 1) -> None:
        """Nothing is kept: `taken` looks."""

    def taken(self, step: int, steps: int, sequences: int) -> int:
        """Blocks for the next step of all that decodes."""
        work, most, size = self.replica.work, self.replica.guess.drafted + 1, self.size
        done, come = work.done, work.to_come
        return sum(
            -(-(done[each] + min(most, come(each))) // size) - -(-done[each] // size)
            for each in self.replica.decoding
        )


class Speculating(Replica):
    """A replica whose sequences make different numbers of tokens in a step: one step at a time."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        assert self.limits.guess is not None
        self.guess: Guess = self.limits.guess
        self.growth = Worst(self, self.limits.block_tokens)
        self.random = np.random.default_rng([self.work.requests.seed, 5])

    @property
    def step_tokens(self) -> int:
        """Tokens that each sequence that decodes puts into a step."""
        return self.guess.drafted + 1

    def iteration_s(self, tokens: int, pairs: float, ended: int, decoding: int) -> float:
        """Device time, drafts included."""
        keys = float(self.keys + decoding)
        alone = self.device_s(0, 0.0, 0, decoding, keys) if decoding else 0.0
        drafts = self.guess.drafted * self.guess.draft_share * alone
        more = decoding * self.guess.drafted
        if tokens:
            return drafts + self.device_s(tokens + more, pairs, ended + more, decoding, keys)
        if not decoding:
            return 0.0
        # What more tokens take, by two prompts whose attention is the same.
        wide = self.device_s(decoding + more, 1.0, decoding + more, 0, 0.0)
        narrow = self.device_s(decoding, 1.0, decoding, 0, 0.0)
        return drafts + alone + max(0.0, wide - narrow)

    def _stretch(self, until: float) -> None:
        sequences = len(self.decoding)
        device = self.iteration_s(0, 0.0, 0, sequences)
        took = self.engine.step_s(device, sequences, 0)
        begun = self.now
        self.now += took
        self.late.say(Spoken(begun, took, 0.0, 1, sequences))
        self.planned = begun
        self.totals[0] += min(device, took)
        self.totals[1] += max(took - device, 0.0)
        self._advance(1)
        self.barred = False
        self._finish()
        self._row(begun, 1, device, self.engine.host_busy_s(sequences, 0), 0, sequences)

    def _room(self, steps: int) -> bool:
        return self.growth.taken(self.step_count, 1, 0) <= self.blocks.free

    def _advance(self, steps: int) -> None:
        """One step: each sequence by what is accepted, and never beyond its end."""
        work, size = self.work, self.limits.block_tokens
        right = self.random.random((len(self.decoding), self.guess.drafted)) < self.guess.accept
        out = 1 + np.cumprod(right, axis=1, dtype=np.int64).sum(axis=1)
        self.step_count += 1
        taken = 0
        for each, come in zip(self.decoding, out.tolist(), strict=True):
            count = min(come, work.to_come(each))
            have = work.done[each]
            taken += -(-(have + count) // size) - -(-have // size)
            work.done[each] = have + count
            work.made[each] += count
            work.since[each] = self.step_count
            self.keys += count
            self.to_come -= count
        self.blocks.take(taken)
        self._lower_reserve(1)

    def _begin_decoding(self, each: int) -> None:
        super()._begin_decoding(each)
        self.ends.clear()

    def _finish(self) -> None:
        for each in [one for one in self.decoding if self.work.to_come(one) <= 0]:
            self._end(each)
