"""Every way to serve on the clusters that may be taken, and each as `gpuscope.serving` takes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from gpuscope.hardware import Cluster
from gpuscope.hardware.cluster import build_cluster
from gpuscope.planning.serving.splits import SPLITS
from gpuscope.planning.serving.types import ServingChoice, ServingQuestion
from gpuscope.serving.engine import engine as profile_of
from gpuscope.serving.simulate import Deployment, apart, deploy
from gpuscope.serving.verb import cache_bytes_of

__all__ = ["choices", "deployed", "layouts"]

MAX_TOKENS = (2048, 8192)
MAX_SEQUENCES = (64, 256)
"""Settings of an iteration that are tried, besides the engine's own."""


def choices(question: ServingQuestion) -> Iterator[ServingChoice]:
    """Every way to use every cluster; settings of an iteration beside the engine's own."""
    profile = profile_of(question.engine)
    tokens = sorted({*MAX_TOKENS, profile.max_tokens})
    sequences = sorted({*MAX_SEQUENCES, profile.max_sequences})
    for layout in layouts(question):
        for dtype, kv, most, together in product(
            question.dtypes, question.kv_dtypes, tokens, sequences
        ):
            yield replace(layout, dtype=dtype, kv_dtype=kv, max_tokens=most, max_sequences=together)


def layouts(question: ServingQuestion) -> Iterator[ServingChoice]:
    """How devices are shared, with the engine's own settings: tensor parallelism within a node,
    each way to share the model beside it, and how many replicas work on prompts alone."""
    profile = profile_of(question.engine)
    dtype, kv = question.dtypes[0], question.kv_dtypes[0]
    for cluster in question.clusters:
        for tp in (2**n for n in range(cluster.devices_per_node.bit_length())):
            if cluster.n_devices % tp or tp > cluster.devices_per_node:
                continue
            alone = ServingChoice(
                cluster, tp, 1, dtype, kv, profile.max_tokens, profile.max_sequences
            )
            for shared in _shared(question, alone):
                whole = shared.filled()
                if whole is None:
                    continue
                yield whole
                for prefill in range(1, whole.replicas):
                    halves = replace(whole, prefill=prefill, replicas=whole.replicas - prefill)
                    if not halves.value("pp") > 1:  # stages are not modelled beside it
                        yield halves


def _shared(question: ServingQuestion, alone: ServingChoice) -> Iterator[ServingChoice]:
    """A replica, with every combination of values of the ways to share a model."""
    devices = alone.cluster.n_devices
    tried = [(each.name, (1, *each.values(question.size, alone.tp, devices))) for each in SPLITS]
    for values in product(*(each for _, each in tried)):
        choice = alone
        for (name, _), value in zip(tried, values, strict=True):
            choice = choice.split(name, value)
        yield choice


def deployed(question: ServingQuestion, choice: ServingChoice) -> Deployment:
    """A candidate as `gpuscope.serving` takes it.

    Raises:
        DoesNotFitError: the model has no room there.
        GpuscopeError: its devices cannot share the model so, or no link joins prompts and answers.
    """
    profile = profile_of(question.engine)
    shared: dict[str, Any] = dict(choice.splits)

    def group(cluster: Cluster, replicas: int) -> Deployment:
        return deploy(
            question.model,
            question.size,
            cluster,
            replace(profile, max_tokens=choice.max_tokens, max_sequences=choice.max_sequences),
            dtype=choice.dtype,
            tp=choice.tp,
            replicas=replicas,
            cache_bytes=cache_bytes_of(choice.kv_dtype),
            **shared,
        )

    if not choice.prefill:
        return group(choice.cluster, choice.replicas)
    device = choice.cluster.device
    return apart(
        *(
            group(build_cluster(device, replicas * choice.of_a_replica), replicas)
            for replicas in (choice.prefill, choice.replicas)
        )
    )
