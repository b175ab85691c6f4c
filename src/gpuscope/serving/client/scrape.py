"""What a server says of itself in `/metrics` (Prometheus text), before, during and after a run.

Pages are kept as they come and read when the run is over: reading one takes milliseconds, in which
no request could be sent. Names are vLLM's (0.27); another server's pages tell nothing here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpuscope.document.printable import one_line

EVERY_S = 2.0
"""Between two looks during a run: KV use and the queue are known only of their moment."""

MOST_PAGES = 2000

_HISTOGRAMS = {
    "queue_s": "vllm:request_queue_time_seconds",
    "prefill_s": "vllm:request_prefill_time_seconds",
    "decode_s": "vllm:request_decode_time_seconds",
    "ttft_s": "vllm:time_to_first_token_seconds",
    "e2e_s": "vllm:e2e_request_latency_seconds",
}
"""Means over the run's requests, by the name that `Serving.server` has."""

_COUNTERS = {
    "preemptions": "vllm:num_preemptions",
    "prefix_queried_tokens": "vllm:prefix_cache_queries",
    "prefix_hit_tokens": "vllm:prefix_cache_hits",
    "prompt_tokens": "vllm:prompt_tokens",
    "output_tokens": "vllm:generation_tokens",
}

_GAUGES = {
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "waiting": ("vllm:num_requests_waiting",),
    "running": ("vllm:num_requests_running",),
}


@dataclass(slots=True)
class Page:
    """One page, read.

    Attributes:
        sums: of each sample over its labels, without "_total".
        info: labels of `vllm:cache_config_info`.
    """

    sums: dict[str, float] = field(default_factory=dict)
    info: dict[str, str] = field(default_factory=dict)


def can_read() -> bool:
    """The client library of Prometheus is here."""
    return importlib.util.find_spec("prometheus_client") is not None


def read_page(text: str) -> Page:
    """Read a page; one that is none is empty."""
    from prometheus_client.parser import text_string_to_metric_families

    page = Page()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removesuffix("_total")
                if name == "vllm:cache_config_info":
                    page.info = {key: one_line(value)[:80] for key, value in sample.labels.items()}
                elif not name.endswith("_bucket"):
                    page.sums[name] = page.sums.get(name, 0.0) + sample.value
    except (ValueError, KeyError, IndexError):
        return Page()
    return page


def summed_up(before: Page, during: Sequence[Page], after: Page) -> dict[str, float | str]:
    """What the server says of the run; only what its pages hold.

    Returns:
        Means of a request's seconds ("queue_s", ...), counts over the run ("preemptions", ...),
        and mean and highest of what is known of moments ("kv_usage_mean", "kv_usage_max", ...).
    """
    found: dict[str, float | str] = {}
    for key, name in _HISTOGRAMS.items():
        seconds, count = (_grown(before, after, f"{name}_{end}") for end in ("sum", "count"))
        if seconds is not None and count:
            found[key] = seconds / count
    for key, name in _COUNTERS.items():
        grown = _grown(before, after, name)
        if grown is not None:
            found[key] = grown
    for key, names in _GAUGES.items():
        values = [
            page.sums[name] for page in (*during, after) for name in names if name in page.sums
        ]
        if values:
            found[f"{key}_mean"] = sum(values) / len(values)
            found[f"{key}_max"] = max(values)
    return found


def kv_size(page: Page) -> tuple[int | None, int | None]:
    """Blocks, and tokens of one; None where the page does not say."""
    return _whole(page.info, ("num_gpu_blocks",)), _whole(page.info, ("block_size",))


def _whole(info: dict[str, str], names: Iterable[str]) -> int | None:
    for name in names:
        text = info.get(name, "")
        if text.isdigit() and int(text[:12]) > 0:
            return int(text[:12])
    return None


def _grown(before: Page, after: Page, name: str) -> float | None:
    """How far a counter went; None where it is not there, or was set back."""
    if name not in after.sums:
        return None
    grown = after.sums[name] - before.sums.get(name, 0.0)
    return grown if grown >= 0 else None
