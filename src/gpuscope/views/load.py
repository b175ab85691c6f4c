"""A measured serving run as blocks: its figures, what failed, what the client and server say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from gpuscope.document.blocks import Block, Column, Fact, Facts, Paragraph, Table
from gpuscope.document.quantities import Count, Percent, Seconds
from gpuscope.document.text import Text, sentences, verbatim
from gpuscope.serving.metrics import LEAST_FOR_P99, Metrics, Spread, metrics, spread
from gpuscope.serving.result import Serving
from gpuscope.serving.slo import Limit

_SERVER_TIMES = {
    "queue_s": Text("in its queue"),
    "prefill_s": Text("prefill"),
    "decode_s": Text("decode"),
}


def load_blocks(found: Serving, limits: Sequence[Limit] = ()) -> list[Block]:
    """What is shown of a run."""
    figures = metrics(found, limits)
    blocks: list[Block] = []
    if "void" in found.client:
        blocks.append(Paragraph(_void(found.client), "warning"))
    blocks += [_latencies(found, figures), _rates(figures)]
    blocks += [Paragraph(text, "warning") for text in _failures(found, figures)]
    blocks += [Paragraph(sentences(note), "doubt") for note in found.notes]
    blocks.append(Paragraph(_client(found), "plain"))
    return [*blocks, *(each for each in (_spans(found), _server(found), _devices(found)) if each)]


def _void(client: Mapping[str, float | str]) -> Text:
    """Why the run says more of the client than of the server."""
    late, allowed, share = (
        client.get(n) for n in ("lateness_p99_s", "allowed_s", "processor_share")
    )
    why: Text | str = str(client["void"])  # a sentence, in files of before 2026-12
    if why == "late":
        why = Text(
            "The client itself was {late} late in sending (P99); up to {allowed} is let pass.",
            late=Seconds(late if isinstance(late, float) else None),
            allowed=Seconds(allowed if isinstance(allowed, float) else None),
        )
    elif why == "busy":
        share = share if isinstance(share, float) else None
        why = Text("The client was busy for {share} of the time.", share=Percent(share))
    return sentences(Text("This run is void."), why)


def _latencies(found: Serving, figures: Metrics) -> Table:
    rows = (
        (Text("TTFT"), figures.ttft),
        (Text("TPOT"), figures.tpot),
        (Text("largest gaps (P99 of each request)"), figures.itl_p99),
        (Text("end to end"), figures.e2e),
    )
    title = Text(
        "{model}: {finished} of {requests} requests finished ({load})",
        model=found.model,
        finished=Count(figures.finished),
        requests=Count(figures.requests),
        load=found.name,
    )
    few = figures.finished < LEAST_FOR_P99
    return Table(
        title,
        (
            Column(Text("latency")),
            Column(Text("mean"), "s"),
            Column(Text("P50"), "s"),
            Column(Text("P90"), "s"),
            Column(Text("P99"), "s"),
        ),
        tuple((label, *_cells(spread)) for label, spread in rows),
        note=Text("Fewer than 30 finished requests have no P99.") if few else None,
    )


def _spans(found: Serving) -> Table | None:
    """A request's time by the server's own spans, apart from what the client sees."""
    served = found.served
    if found.origin != "measured" or not len(served.queue_s):
        return None
    rows = [
        (Text("in its engine's queue"), served.queue_s),
        (Text("prefill"), served.prefill_s),
        (Text("decode"), served.decode_s),
    ]
    if len(served.front_s):
        ttft_s = served.first_token_s - served.sent_s
        outside_s = ttft_s - served.front_s - served.queue_s - served.prefill_s
        rows = [
            (Text("TTFT from sending, by the client"), ttft_s),
            (Text("outside the server"), outside_s),
            (Text("the server's front process"), served.front_s),
            *rows,
        ]
    known = np.isfinite(served.queue_s)
    return Table(
        Text("By the server's spans, {count} requests", count=Count(int(known.sum()))),
        (
            Column(Text("time")),
            Column(Text("mean"), "s"),
            *(Column(verbatim(f"P{share}"), "s") for share in (50, 90, 99)),
        ),
        tuple((label, *_cells(spread(times[known]))) for label, times in rows if len(times)),
    )


def _cells(spread: Spread) -> tuple[float | None, ...]:
    return (spread.mean_s, spread.p50_s, spread.p90_s, spread.p99_s)


def _rates(figures: Metrics) -> Facts:
    rows = [
        Fact(Text("requests each second"), figures.requests_per_s),
        Fact(Text("output tokens each second"), figures.output_tokens_per_s),
        Fact(Text("tokens each second, prompts included"), figures.tokens_per_s),
    ]
    if figures.kept_share is not None:
        rows += [
            Fact(Text("requests within every limit"), figures.kept_share, "share"),
            Fact(Text("such requests each second (goodput)"), figures.goodput_per_s),
        ]
    if figures.energy_per_token_j is not None:
        rows.append(Fact(Text("energy of an output token"), figures.energy_per_token_j, "J"))
    return Facts(tuple(rows))


def _failures(found: Serving, figures: Metrics) -> list[Text]:
    if not figures.failed + figures.timeouts:
        return []
    counts = Counter(found.served.reason[found.served.reason >= 0].tolist())
    lines = [
        Text("{count} requests failed: {reason}", count=Count(number), reason=found.reasons[at])
        for at, number in counts.most_common()
    ]
    lines.append(Text("What failed is in no percentile above."))
    return lines


def _client(found: Serving) -> Text:
    client = found.client
    counted = {
        "usage": Text("Tokens are counted by the server."),
        "answers": Text("Tensors were asked for: an answer counts as one token."),
    }.get(
        str(client.get("tokens_from")),
        Text("Tokens are pieces of the stream, counted by the client."),
    )
    late, share = client.get("lateness_p99_s"), client.get("processor_share")
    own = Text(
        "The client was {late} late in sending (P99), and took {share} of a processor.",
        late=Seconds(late if isinstance(late, float) else None),
        share=Percent(share if isinstance(share, float) else None),
    )
    return sentences(counted, own)


def _server(found: Serving) -> Facts | None:
    server = found.server
    rows = [Fact(label, server[key], "s") for key, label in _SERVER_TIMES.items() if key in server]
    if "kv_usage_max" in server:
        rows.append(
            Fact(Text("most of the key-value blocks in use"), server["kv_usage_max"], "share")
        )
    if "preemptions" in server:
        rows.append(Fact(Text("requests put off (preemptions)"), server["preemptions"], "count"))
    queried, hit = server.get("prefix_queried_tokens"), server.get("prefix_hit_tokens")
    if isinstance(queried, float) and isinstance(hit, float) and queried:
        rows.append(Fact(Text("prompt tokens found in the prefix cache"), hit / queried, "share"))
    return Facts(tuple(rows), Text("What the server says, a request on average")) if rows else None


def _devices(found: Serving) -> Facts | None:
    """What DCGM says of the devices beside the server."""
    server = found.server
    labels = {
        "devices": (Text("devices"), "count"),
        "device_power_w": (Text("mean power, together"), "W"),
        "device_busy": (Text("share of the time in which a kernel ran"), "share"),
        "device_memory_bytes": (Text("most memory in use, together"), "bytes"),
    }
    rows = [
        Fact(label, server[key], unit) for key, (label, unit) in labels.items() if key in server
    ]
    return Facts(tuple(rows), Text("What DCGM says of the devices")) if rows else None
