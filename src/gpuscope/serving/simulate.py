"""A model served by an engine on devices, under a load: `gs.serve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from gpuscope.document.quantities import Count, Number, Seconds
from gpuscope.document.text import Text, sentences
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.hardware import Calibration, Cluster
from gpuscope.hardware.shares import error_factor, note_of
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.serving.apart import check_apart
from gpuscope.serving.disaggregated import Group, Link, link_between, serve_apart
from gpuscope.serving.engine import Engine
from gpuscope.serving.fitting import room_for
from gpuscope.serving.fleet import serve_all
from gpuscope.serving.iteration import IterationCost, iteration_cost
from gpuscope.serving.limiting import device_shares
from gpuscope.serving.memory import KvMemory
from gpuscope.serving.quantization import Quantization, quantization
from gpuscope.serving.record import ROW, Record
from gpuscope.serving.requests import Ints, Requests
from gpuscope.serving.result import Iterations, Served, Serving
from gpuscope.serving.routers import router_named
from gpuscope.serving.schedulers import Limits
from gpuscope.serving.slices import anew, part_of
from gpuscope.serving.speculation import Guess
from gpuscope.serving.spent import energy_j, usd_per_hour
from gpuscope.serving.splits import check_split, check_stages, fullest_stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A model on an engine on devices, priced.

    Attributes:
        model: its name.
        size: the model.
        kept: how weights are stored.
        engine: profile, with what the user changed.
        cluster: of all replicas.
        tp, replicas: how its devices are used.
        memory: for keys and values, of each replica.
        cost: of an iteration.
        router: which replica, or rank that attends apart, a request goes to.
        guess: how tokens are drafted; None: they are not.
        dp: groups of a replica's devices that attend to requests of their own.
        pp: stages of its layers, of `tp` devices each.
        prefill: works on the prompts, where other devices do; its router is this one's, too.
        link: that their keys and values go over.
    """

    model: str
    size: TransformerSize
    kept: Quantization
    engine: Engine
    cluster: Cluster
    tp: int
    replicas: int
    memory: KvMemory
    cost: IterationCost
    router: str = "round-robin"
    guess: Guess | None = None
    dp: int = 1
    pp: int = 1
    prefill: Deployment | None = None
    link: Link | None = None

    @property
    def devices(self) -> str:
        """As people write them, those that work on prompts first."""
        cluster = self.cluster
        own = f"{cluster.n_devices}x{cluster.device.id}".removeprefix("1x")
        return own if self.prefill is None else f"{self.prefill.devices} + {own}"

    @property
    def ranks(self) -> int:
        """With requests of their own, of all replicas: groups, or batches under way."""
        return self.replicas * self.dp * self.pp

    @property
    def limits(self) -> Limits:
        """Of an iteration."""
        engine = self.engine
        return Limits(
            max_tokens=engine.max_tokens,
            max_sequences=engine.max_sequences,
            chunked=engine.chunked,
            reserve=engine.reserve,
            reserve_least=engine.reserve_least,
            reserve_steps=engine.reserve_steps,
            reserve_ahead=engine.reserve_ahead,
            sizes=engine.sizes,
            delay_s=engine.delay_s,
            kv_blocks=self.memory.blocks,
            block_tokens=engine.block_tokens,
            beside=self.memory.beside,
            guess=self.guess,
        )


def deploy(
    model: str,
    size: TransformerSize,
    cluster: Cluster,
    engine: Engine,
    *,
    dtype: str = "bfloat16",
    tp: int | None = None,
    ep: int = 1,
    dp: int = 1,
    pp: int = 1,
    replicas: int | None = None,
    cache_bytes: float = 2.0,
    kv_blocks: int | None = None,
    router: str | None = None,
    guess: Guess | None = None,
    calibration: Calibration | None = None,
) -> Deployment:
    """Price a model on an engine on devices.

    Args:
        model, size: what is served.
        cluster: all devices.
        engine: profile.
        dtype: of the weights: bfloat16, fp8, fp4, int4.
        tp: devices of a replica, or of each stage of it; all of them by default.
        ep: ranks that share the experts, of the `tp`.
        dp: groups of the `tp` that attend to requests of their own, and share the experts.
        pp: stages that the layers are cut into, on devices of their own.
        replicas: copies; as many as the devices hold by default.
        cache_bytes: of one number of the keys and values.
        kv_blocks: where known (the engine logs it).
        router: which replica, or rank that attends apart, a request goes to; in turn, or as the
            engine itself shares them among ranks, by default.
        guess: how tokens are drafted.
        calibration: of the device; the catalogue's by default.

    Raises:
        UnknownNameError: no such router.
        InvalidValueError: devices, heads or experts that cannot be shared so.
        DoesNotFitError: the weights leave no room.
        UnsupportedError: a dtype that the device lacks.
    """
    tp = tp or max(1, cluster.n_devices // ((replicas or 1) * pp))
    replicas = replicas or max(1, cluster.n_devices // max(tp * pp, 1))
    check_split(model, size, cluster, tp, ep, dp, replicas, pp)
    if pp > 1:
        check_stages(model, size, engine, pp, dp, guess)
    if dp > 1:
        check_apart(model, size, engine, tp, dp, guess)
        engine = engine.of_rank(dp)
    kept = quantization(dtype, cluster.device).at_pace(engine.experts_pace, cluster.device)
    if cache_bytes == 1.0 and not cluster.device.supports("fp8"):
        told = Text("{device} has no fp8: keys and values are stored in it, and widened when read.",
                    device=cluster.device.name)  # fmt: skip
        kept = replace(kept, note=sentences(kept.note, told))
    memory = room_for(
        fullest_stage(size, pp), kept, cluster.device, engine, tp, cache_bytes, kv_blocks, dp
    )
    if memory.max_sequences is not None:
        engine = replace(engine, max_sequences=min(engine.max_sequences, memory.max_sequences))
    cost = iteration_cost(size, kept, cluster, tp, ep, cache_bytes, calibration, dp, pp)
    engine = engine.launching(-(-cost.launches // pp))
    if kept.sorted_apart(cluster.device):
        engine = engine.sorting(cost.mixtures / pp)
    cost = replace(cost, graph_sizes=engine.graph_sizes, scale=engine.device_scale)
    return Deployment(
        model=model, size=size, kept=kept, engine=engine, cluster=cluster, tp=tp,
        replicas=replicas, memory=memory, cost=cost, guess=guess, dp=dp, pp=pp,
        router=router_named(router or (engine.rank_router if dp > 1 else "round-robin")),
    )  # fmt: skip


def serve_requests(found: Deployment, requests: Requests) -> Serving:
    """What becomes of requests; each replica takes the next one in turn.

    Raises:
        InvalidValueError: a request beyond the model's context.
        DoesNotFitError: a request that keys and values have no room for.
    """
    longest = int((requests.input_tokens + requests.output_tokens).max())
    if longest > found.size.context:
        raise InvalidValueError(
            Text(
                "A request of {tokens} tokens is beyond the context of {model}.",
                tokens=longest,
                model=found.model,
            ),
            Text("It takes {context}, prompt and answer together.", context=found.size.context),
            Text("Give shorter lengths (--input, --answer)."),
        )
    record, rows, where = _run(found, requests)
    return _serving(found, requests, record, rows, where)


def apart(prefill: Deployment, decode: Deployment) -> Deployment:
    """A deployment of two: prompts on the devices of one, answers on those of the other.

    Raises:
        InvalidValueError: the catalogue knows no link between them.
        UnsupportedError: layers of one are in stages.
    """
    if max(prefill.pp, decode.pp) > 1:
        raise UnsupportedError(
            Text("Stages where prompts and answers have devices of their own are not modelled."),
            "",
            Text("Leave out --pp, or name all devices by --on."),
        )
    link = link_between(
        prefill.cluster.device,
        decode.cluster.device,
        prefill.cluster.n_devices + decode.cluster.n_devices,
        (prefill.tp, decode.tp),
        decode.memory.token_bytes * (1 if decode.size.latent is not None else decode.tp),
    )
    return replace(decode, prefill=prefill, link=link)


def _group(found: Deployment) -> Group:
    return Group(
        engine=found.engine, limits=found.limits, cost=found.cost,
        replicas=found.replicas, route=found.router,
    )  # fmt: skip


def _run(found: Deployment, requests: Requests) -> tuple[Record, list[Record], Ints]:
    """What became of requests, the iterations of each replica, and who served which."""
    if found.prefill is not None and found.link is not None:
        return serve_apart(requests, _group(found.prefill), _group(found), found.link)
    if found.router != "round-robin" and found.replicas > 1:
        return serve_all(
            requests, found.engine, found.limits, found.cost,
            replicas=found.replicas, route=found.router,
        )  # fmt: skip
    whole, made = Record(len(requests)), []
    where = np.arange(len(requests)) % found.replicas
    served = where * found.dp * found.pp  # by the first rank of each
    for at in range(min(found.replicas, len(requests))):
        rows = np.flatnonzero(where == at)
        part = part_of(requests, rows, found.replicas, at)
        record, own, rank = serve_all(
            part, found.engine, found.limits, found.cost, route=found.router
        )
        whole.put(rows, record)
        served[rows] += rank
        made += own
    return whole, made, served


def _serving(
    found: Deployment, requests: Requests, record: Record, rows: Sequence[Record], where: Ints
) -> Serving:
    column = record.column
    intended = column("intended")
    served = Served(
        intended_s=intended,
        sent_s=intended.copy(),
        input_tokens=requests.input_tokens,
        output_tokens=requests.output_tokens,
        first_token_s=column("first"),
        finished_s=column("finished"),
        status=np.zeros(len(requests), np.int64),
        reason=np.full(len(requests), -1),
        queue_s=column("started") - intended,
        prefill_s=column("prefill"),
        behind_s=column("behind"),
        decode_device_s=column("device"),
        decode_host_s=column("host"),
        preempted_s=column("put_off"),
        transfer_s=column("transfer") if found.link else np.zeros(0),
        preemptions=column("preemptions"),
        cached_tokens=column("cached"),
        replica=where,
    )
    made = Serving(
        "predicted",
        found.model,
        found.engine.name,
        found.engine.version,
        found.devices,
        served,
        settings={
            "tp": found.tp, "pp": found.pp, "attention_dp": found.dp, "replicas": found.replicas,
            "dtype": found.kept.name, "max_sequences": found.engine.max_sequences,
            "max_tokens": found.engine.max_tokens,
            "preferred": ",".join(map(str, found.engine.sizes)),
            "delay_us": round(found.engine.delay_s * 1e6),
            "prefill_replicas": found.prefill.ranks if found.prefill else 0,
            "concurrency": requests.concurrency, "seed": requests.seed, "load": requests.name,
        },
        iterations=iterations_of(rows),
        kv_blocks=found.memory.blocks,
        kv_block_tokens=found.engine.block_tokens,
        relative_error=_errors(found),
        name=requests.name,
        notes=_notes(found),
    )  # fmt: skip
    known = {**made.settings, **_shares(found, made.iterations)}
    if (price := usd_per_hour(found)) is not None:
        known["usd_per_hour"] = price
    return replace(made, settings=known, energy_j=energy_j(found, made))


def _shares(found: Deployment, rows: Iterations) -> dict[str, float]:
    """Of one kind of devices; nothing is said of two."""
    if found.prefill is not None:
        return {}
    rate = found.cluster.device.memory_bandwidth_bytes_per_s
    read_s = None  # of experts only those that are hit
    if found.size.experts is None and rate:
        read_s = found.pp * found.memory.weights_bytes / rate
    return device_shares(found.cost, read_s, rows)


def iterations_of(records: Sequence[Record]) -> Iterations:
    """Rows of all replicas, one after the other."""
    if len(records) == 1:  # without a copy: millions of rows
        columns = [np.asarray(column) for column in records[0].rows]
    else:
        every = [[np.asarray(column) for column in each.rows] for each in records]
        columns = [np.concatenate([each[at] for each in every]) for at in range(len(ROW))]
    replica = np.repeat(np.arange(len(records)), [len(r.rows[0]) for r in records])
    begun, steps, device, host, tokens, decoding, used, waiting, put_off = columns
    return Iterations(begun, steps, device, host, tokens, decoding, used, waiting, put_off, replica)


def _errors(found: Deployment) -> dict[str, float]:
    """Half-widths of the 80 % intervals, relative (docs/serving-accuracy.md)."""
    spread = max(found.cost.spread, 0.1) * error_factor(found.cluster.device.id)
    return {"tpot": spread, "e2e": spread, "throughput": spread, "ttft": min(0.9, 2.5 * spread)}


def _notes(found: Deployment) -> tuple[str, ...]:
    shared = note_of(found.cluster.device.id)
    notes = [note for note in (found.kept.note, found.engine.tuned, shared) if note]
    if not found.engine.graphs:
        each_s = found.engine.eager_s or found.engine.launch_s
        notes.append(
            Text("Without graphs the host launches {launches} kernels an iteration, {each} each.",
                 launches=Count(found.cost.launches), each=Seconds(each_s))
        )  # fmt: skip
    if found.cost.stages is not None:
        layers = ", ".join(map(str, found.cost.stages.layers))
        notes.append(Text("Stages of {layers} layers, held against no running engine.",
                          layers=layers))  # fmt: skip
    if found.size.experts is not None:
        notes.append(Text("Experts are hit evenly; a real router is not even."))
    notes.append(
        Text("Of {title} {version} the defaults; speculative decoding is off.",
             title=found.engine.called, version=found.engine.version)
        if found.guess is None else
        Text("{tokens} tokens come out of a step, by the acceptance that was given.",
             tokens=Number(found.guess.tokens_per_step))
    )  # fmt: skip
    return tuple(notes)


_PLACES = 512
"""In flight at most while capacity is found."""


def capacity_per_s(found: Deployment, requests: Requests) -> float:
    """Requests that all replicas can serve each second: how fast a full house takes in new ones.

    The same requests over and over, so many in flight that the engine is always full; counted from
    the first that had to wait for a place to the last.
    """
    places = min(found.engine.max_sequences * found.dp, _PLACES * min(found.dp, 4))
    rows = np.resize(np.arange(len(requests)), 5 * places)
    full = part_of(requests.at_concurrency(places), rows, 2, 0).at_concurrency(places)
    full = anew(full, np.arange(len(rows)) // len(requests))
    if found.prefill is not None:
        full = full.at_concurrency(places * (found.replicas + found.prefill.replicas))
        ended = np.sort(_run(found, full)[0].column("finished"))
        rest = ended[len(ended) // 5 : -len(ended) // 5]  # neither filling nor emptying
        return float((len(rest) - 1) / (rest[-1] - rest[0])) if rest[-1] > rest[0] else inf
    record, _, _ = serve_all(full, found.engine, found.limits, found.cost, route=found.router)
    started = np.sort(record.column("started"))
    lasts = float(started[-1] - started[places])
    return found.replicas * (len(rows) - 1 - places) / lasts if lasts > 0 else inf
