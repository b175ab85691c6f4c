"""What became of each request, as columns; and the `Serving` that they make."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpuscope.document.quantities import Count
from gpuscope.document.text import Text, sentences
from gpuscope.serving.client import failure, pace, scrape
from gpuscope.serving.client.address import parse_address
from gpuscope.serving.client.engine_log import read_iterations
from gpuscope.serving.client.failure import NoAnswerError
from gpuscope.serving.client.pace import Own
from gpuscope.serving.client.probe import Known
from gpuscope.serving.client.prompts import FRONT
from gpuscope.serving.client.reply import Reply
from gpuscope.serving.requests import Requests
from gpuscope.serving.result import FAILED, FINISHED, TIMEOUT, Iterations, Served, Serving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuscope.serving.client.run import Asked

_TIMES = "intended_s sent_s first_token_s finished_s gap_p50_s gap_p99_s gap_max_s".split()

MOST_REASONS = 20
"""Different ones that are kept; a server may word each failure anew."""


@dataclass(slots=True)
class Record:
    """Columns that fill up during a run; rows that were never begun fall out at the end.

    Attributes:
        times: by name, seconds from the run's start; NaN unknown.
        input_tokens, output_tokens: as asked for, then as the server or the stream counts.
        status: -1 for never begun.
        reason: row in `reasons`.
        reasons: sentences, in the order in which they came.
        http: the HTTP status of each reason.
        counted: requests whose tokens the stream's pieces count, the server not saying.
        pieces, tokens: of finished requests: a piece of the stream may hold several tokens.
        short: finished requests with fewer tokens than asked for.
    """

    times: dict[str, np.ndarray]
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    wanted: np.ndarray
    status: np.ndarray
    reason: np.ndarray
    reasons: list[str] = field(default_factory=list)
    http: list[int] = field(default_factory=list)
    counted: int = 0
    pieces: int = 0
    tokens: int = 0
    short: int = 0

    @classmethod
    def of(cls, requests: Requests) -> Record:
        """For these requests; nothing has happened yet."""
        rows = len(requests)
        return cls(
            {name: np.full(rows, np.nan) for name in _TIMES},
            requests.input_tokens.copy(),
            np.zeros(rows, np.int64),
            requests.output_tokens,
            np.full(rows, -1, np.int64),
            np.full(rows, -1, np.int64),
        )

    def sent(self, row: int, intended_s: float, sent_s: float) -> None:
        """A request went out."""
        self.times["intended_s"][row] = intended_s
        self.times["sent_s"][row] = sent_s

    def answered(self, row: int, reply: Reply, start_s: float) -> None:
        """Its answer is whole."""
        came = np.array(reply.times_s) - start_s
        last = (reply.finished_s or reply.times_s[-1]) - start_s
        self.times["first_token_s"][row] = came[0]
        self.times["finished_s"][row] = last
        if len(came) > 1:
            gaps = np.diff(came)
            p50, p99 = np.percentile(gaps, (50, 99))
            for name, value in (("p50", p50), ("p99", p99), ("max", gaps.max())):
                self.times[f"gap_{name}_s"][row] = value
        tokens = reply.output_tokens
        if tokens is None or tokens < 1:
            tokens = len(came)
            self.counted += 1
        self.output_tokens[row] = tokens
        if reply.prompt_tokens is not None and reply.prompt_tokens > 0:
            self.input_tokens[row] = reply.prompt_tokens
        self.status[row] = FINISHED
        self.pieces += len(came)
        self.tokens += tokens
        self.short += tokens < self.wanted[row]

    def failed(self, row: int, intended_s: float, now_s: float, reason: str, http: int) -> None:
        """It came to nothing."""
        if np.isnan(self.times["intended_s"][row]):
            self.times["intended_s"][row] = intended_s
        self.times["finished_s"][row] = now_s
        self.status[row] = TIMEOUT if reason == failure.TOO_SLOW else FAILED
        if reason not in self.reasons:
            if len(self.reasons) == MOST_REASONS:
                reason = Text("Other failures.")
            if reason not in self.reasons:
                self.reasons.append(reason)
                self.http.append(http)
        self.reason[row] = self.reasons.index(reason)

    def check(self, probe: str) -> None:
        """Refuse to tell of a run in which nothing was answered.

        Args:
            probe: address at which such a server says something, for the reader to ask.

        Raises:
            NoAnswerError: so it is.
        """
        if (self.status == FINISHED).any():
            return
        begun = int((self.status >= 0).sum())
        most = Counter(self.reason[self.reason >= 0].tolist()).most_common(1)
        if not most:
            raise NoAnswerError(
                Text("No request was sent."), "", Text("Allow more time: --for 60s")
            )
        at = most[0][0]
        raise NoAnswerError(
            Text("All {count} requests failed.", count=Count(begun)),
            sentences(Text("{count} of them:", count=Count(most[0][1])), self.reasons[at]),
            failure.next_step(self.reasons[at], self.http[at], probe),
        )

    def served(self) -> Served:
        """The rows that were begun."""
        rows = self.status >= 0
        columns = {name: column[rows] for name, column in self.times.items()}
        return Served(
            **columns,
            input_tokens=self.input_tokens[rows],
            output_tokens=self.output_tokens[rows],
            status=self.status[rows],
            reason=self.reason[rows],
        )


def as_serving(
    asked: Asked,
    known: Known,
    record: Record,
    own: Own,
    pages: Sequence[bytes],
    energy_j: float | None,
) -> Serving:
    """Put a run together.

    Raises:
        NoAnswerError: every request failed.
    """
    record.check(f"{parse_address(asked.url)}{FRONT[asked.api]}")
    server: dict[str, float | str] = {}
    blocks = block_tokens = None
    notes = [*known.notes, *_notes(record)]
    if pages and scrape.can_read():
        read = [scrape.read_page(page.decode("utf-8", "replace")) for page in pages]
        server = scrape.summed_up(read[0], read[1:-1], read[-1])
        blocks, block_tokens = scrape.kv_size(read[-1])
    elif pages:
        notes.append(
            Text('The server has /metrics; to read it, type: pip install "gpuscope[exporter]"')
        )
    served = record.served()
    allowed_s = _allowed_s(served)
    requests = asked.requests
    iterations = read_iterations(asked.engine_log) if asked.engine_log else Iterations()
    return Serving(
        origin="measured",
        model=known.model,
        engine=known.engine,
        engine_version=known.version,
        devices="",
        served=served,
        reasons=tuple(record.reasons),
        settings={
            "api": known.form.api,
            "prompts": known.form.sort,
            "ignore_eos": "asked" if known.form.ignore_eos else "refused",
            "concurrency": requests.concurrency,
            "seed": requests.seed,
        },
        iterations=iterations,
        kv_blocks=blocks,
        kv_block_tokens=block_tokens,
        energy_j=energy_j,
        client={
            "lateness_p99_s": own.lateness_p99_s,
            "stamp_p99_s": own.stamp_p99_s,
            "processor_share": own.busy,
            "tokens_from": _counted(known, record),
            "allowed_s": allowed_s,
            **_void(own, allowed_s),
        },
        server=server,
        name=requests.name,
        notes=tuple(notes),
    )


def _counted(known: Known, record: Record) -> str:
    """Who counted the tokens: "answers" are whole, and count as one."""
    if known.form.api == "triton":
        return "answers"
    return "pieces" if record.counted else "usage"


def _notes(record: Record) -> list[Text]:
    found = []
    if record.short:
        found.append(
            Text("{count} answers were shorter than asked for.", count=Count(record.short))
        )
    if not record.counted and record.tokens > 1.02 * record.pieces:
        found.append(
            Text(
                "{tokens} tokens came in {pieces} pieces: gaps are between pieces.",
                tokens=Count(record.tokens),
                pieces=Count(record.pieces),
            )
        )
    return found


def _allowed_s(served: Served) -> float:
    """How late the client may be before a run says more of it than of the server."""
    done = served.status == FINISHED
    ttft_s = float(np.median((served.first_token_s - served.sent_s)[done]))
    return max(pace.LEAST_LATE_S, pace.SHARE_OF_LATENCY * ttft_s)


def _void(own: Own, allowed_s: float) -> dict[str, str]:
    """By what the client was the limit; nothing where it was not."""
    if own.lateness_p99_s > allowed_s:
        return {"void": "late"}
    return {"void": "busy"} if own.busy > pace.MOST_BUSY else {}
