"""`gs.serve`: how an engine will serve a model, under one load or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpuscope.api import Target, resolve_target
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, OverLimitError, UnsupportedError
from gpuscope.hardware import Calibration
from gpuscope.program.lengths import parse_lengths
from gpuscope.program.models import find
from gpuscope.program.models.parallel.published import published_model
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.registry import Model
from gpuscope.serving.arrivals import Load, kind_named, make_requests
from gpuscope.serving.engine import engine as profile
from gpuscope.serving.intervals import under_load
from gpuscope.serving.requests import Requests
from gpuscope.serving.result import Serving
from gpuscope.serving.simulate import Deployment, apart, capacity_per_s, deploy, serve_requests
from gpuscope.serving.slo import Limit, parse_slo
from gpuscope.serving.speculation import Guess, parse_guess
from gpuscope.serving.traces import read_trace
from gpuscope.serving.triton_config import read_config
from gpuscope.serving.tuning import Tuning, load_tuning

__all__ = ["cache_bytes_of", "load_of", "serve", "serve_load"]

ENGINE_FIELDS = ("max_tokens", "max_sequences", "block_tokens", "utilization", "chunked")
"""Of a profile, what a user may set."""

ENOUGH = 100
"""Requests of a load that show how fast they come."""


def serve(
    model: str | TransformerSize,
    on: Target = "h200",
    *,
    engine: str = "vllm",
    rate: float = 0.0,
    concurrency: Sequence[int] = (),
    arrivals: str = "poisson",
    input: str | int = "1024",
    output: str | int = "256",
    requests: int = 1000,
    seed: int = 0,
    tp: int | None = None,
    ep: int = 1,
    attention_dp: int = 1,
    pp: int = 1,
    replicas: int | None = None,
    dtype: str = "bfloat16",
    kv_dtype: str = "bfloat16",
    kv_blocks: int | None = None,
    shared: int = 0,
    burstiness: float = 1.0,
    slo: str | None = None,
    router: str | None = None,
    prefill: Target | None = None,
    decode: Target | None = None,
    speculate: str | Guess | None = None,
    policy: str | None = None,
    graphs: bool = True,
    calibration: Calibration | Tuning | str | Path | None = None,
    **settings: Any,
) -> list[Serving]:
    """Predict how an engine serves a model, request by request, without a device.

    Args:
        model: a built-in decoder, one known by its size, a Hugging Face config.json, or a size.
        on: device or cluster, as `predict` takes it.
        engine: "vllm", "sglang", "tensorrt-llm", "static", or a config.pbtxt of Triton, whose
            instances are replicas.
        rate: requests each second (open loop), on average.
        concurrency: closed loops, one run each.
        arrivals: "poisson", "gamma", "constant", "steps:2x30,8x30",
            "conversations:5x20" (turns x seconds between them), or the file of a trace.
        input, output: lengths: 1024, "256..2048", "lognormal:1024,0.8".
        requests: how many.
        seed: of what is drawn; the load client makes the same requests from it.
        tp, ep, replicas: how the devices are used; by default one replica on all.
        attention_dp: groups of the `tp` devices that attend to requests of their own and share the
            experts, in step: vLLM's --data-parallel-size, SGLang's --enable-dp-attention --dp.
        pp: stages that the layers are cut into, on `tp` devices each (--pipeline-parallel-size).
        dtype, kv_dtype: of the weights (bfloat16, fp8, fp4, int4), and of keys and values (fp8).
        kv_blocks: where known, instead of the prediction.
        shared: tokens that all prompts begin with.
        burstiness: of gamma arrivals: the squared coefficient of variation of their gaps.
        slo: what is promised, "ttft<500ms,tpot<30ms": with no load given, the highest rate that
            keeps it is found, and served.
        router: which replica gets a request: "round-robin", "least-load", "least-waiting",
            "prefix"; in turn by default, among groups that attend apart as the engine does it.
        prefill, decode: devices that work on the prompts, and those that make the answers;
            both instead of `on`. `tp` and `replicas` are of each.
        speculate: tokens drafted and verified together: "k=3,accept=0.7".
        policy: of the scheduler, where the engine has several: "priority", "lpm",
            "max-utilization"; its default by default.
        graphs: decode batches are replayed as CUDA graphs, where the engine has any; without, the
            host launches each kernel (vLLM's --enforce-eager).
        calibration: measured constants of the device, or those of engine and host that
            `gpuscope serve --calibrate` kept, or their file.
        settings: of the engine: max_tokens, max_sequences, block_tokens, utilization, chunked.

    Returns:
        One `Serving` for each concurrency, or the one of the rate or the trace.

    Raises:
        GpuscopeError: what cannot be (docs/serve.md); says what to type instead.
    """
    if (prefill is None) != (decode is None):
        raise InvalidValueError(
            Text("Prompts and answers on devices of their own need both named."),
            "",
            Text("Type: --prefill 2xh100 --decode 2xh200"),
        )

    guess = parse_guess(speculate) if isinstance(speculate, str) else speculate

    def made(devices: Target) -> Deployment:
        return deployment(
            model, devices, engine, settings, tp=tp, ep=ep, dp=attention_dp, pp=pp,
            replicas=replicas, dtype=dtype, kv_dtype=kv_dtype, kv_blocks=kv_blocks,
            calibration=calibration, router=router, guess=guess, policy=policy, graphs=graphs,
        )  # fmt: skip

    found = made(on) if prefill is None or decode is None else apart(made(prefill), made(decode))
    how = {"input": str(input), "output": str(output), "requests": requests, "seed": seed}
    more: dict[str, Any] = {"shared": shared, "burstiness": burstiness}
    if slo and not (rate or concurrency or _is_trace(arrivals) or not kind_named(arrivals).rated):
        return [_highest(found, arrivals, parse_slo(slo), {**how, **more})]
    asked = load_of(
        arrivals, rate=rate, concurrency=concurrency, input=str(input), output=str(output),
        requests=requests, seed=seed, **more,
    )  # fmt: skip
    steady = not _is_trace(arrivals) and kind_named(arrivals).plain and kind_named(arrivals).rated
    return [serve_load(found, each, rate if steady else 0.0) for each in asked]


def serve_load(found: Deployment, requests: Requests, rate: float = 0.0) -> Serving:
    """One load; says so where more comes than the deployment can serve.

    A hundred requests show how fast they come; of fewer, chance tells too much: theirs is
    the `rate` they were asked for at, and a few without one are no steady load.
    """
    made = serve_requests(found, requests)
    few = len(requests) < ENOUGH
    if requests.concurrency or (few and not rate):
        return made
    capacity = capacity_per_s(found, requests)
    span = float(requests.arrival_s[-1])
    comes = rate if few else len(requests) / span if span > 0 else 0.0
    if few and comes <= capacity:
        return made
    if comes <= capacity:
        return replace(under_load(found, requests, made), capacity_per_s=capacity)
    return replace(made, capacity_per_s=capacity, saturated=True)


def _highest(
    found: Deployment, arrivals: str, limits: Sequence[Limit], how: Mapping[str, Any]
) -> Serving:
    """The run at the highest rate that keeps the limits.

    Raises:
        OverLimitError: none does; says which limits are kept at the slowest rate tried.
    """
    from gpuscope.serving.highest import highest_rate, nearest

    def asked(rate: float) -> Requests:
        return load_of(arrivals, rate=rate, concurrency=(), **how)[0]

    best = highest_rate(found, asked, limits)
    if best.rate_per_s is None:
        rate = best.tried_per_s
        reached = ",".join(map(str, nearest(serve_requests(found, asked(rate)).served, limits)))
        raise OverLimitError(
            Text("{model} on {devices} keeps {limits} at no rate.",
                 model=found.model, devices=found.devices, limits=",".join(map(str, limits))),
            Text("At {rate} requests/s, nearly idle, it keeps {reached}.",
                 rate=Number(rate), reached=reached),
            Text('Type: --slo "{reached}", or name more or quicker devices.', reached=reached),
        )  # fmt: skip
    made = serve_load(found, asked(best.rate_per_s))
    told = {"rate": best.rate_per_s, "rate_low": best.low_per_s, "rate_high": best.high_per_s}
    highest = {f"highest_{name}_per_s": each for name, each in told.items() if each is not None}
    return replace(made, settings={**made.settings, **highest}, saturated=False)


def _is_trace(arrivals: str) -> bool:
    return Path(arrivals).suffix in (".csv", ".jsonl", ".json", ".gz")


def load_of(
    arrivals: str,
    *,
    rate: float,
    concurrency: Sequence[int],
    input: str,
    output: str,
    requests: int,
    seed: int,
    shared: int = 0,
    burstiness: float = 1.0,
) -> list[Requests]:
    """The requests of each load that is asked for.

    Raises:
        InvalidValueError: neither a rate nor a concurrency nor a trace, or one that cannot be.
    """
    if any(each < 1 for each in concurrency):
        raise InvalidValueError(
            Text("A concurrency of {number} serves nobody.", number=min(concurrency)),
            "",
            Text("Type: --concurrency 1,4,16"),
        )
    if _is_trace(arrivals):
        trace = read_trace(arrivals)
        return [trace.at_concurrency(each) for each in concurrency] or [trace]
    if concurrency and rate:
        raise InvalidValueError(
            Text("Both a rate and a concurrency are given."),
            Text("In a closed loop the answers say when the next requests come."),
            Text("Give one: --rate {rate}, or --concurrency {number}",
                 rate=Number(rate), number=",".join(map(str, concurrency))),
        )  # fmt: skip
    if not concurrency and not rate and kind_named(arrivals).rated:
        raise InvalidValueError(
            Text("No load is given."),
            Text("A load is a rate, a number of requests in flight, or a recorded trace."),
            Text("Type: --rate 8, or --concurrency 1,4,16, or --arrivals trace.csv"),
        )
    load = Load(
        input=parse_lengths(input), output=parse_lengths(output), count=requests,
        rate_per_s=rate, arrivals=arrivals, burstiness=burstiness, seed=seed, shared_tokens=shared,
    )  # fmt: skip
    if not concurrency or requests < 1:
        return [make_requests(load)]  # of no request: refused there
    return [
        make_requests(replace(load, concurrency=each, count=max(requests, 2 * each)))
        for each in concurrency
    ]


def deployment(
    model: str | TransformerSize,
    on: Target,
    engine: str = "vllm",
    settings: Mapping[str, Any] = MappingProxyType({}),
    *,
    policy: str | None = None,
    graphs: bool = True,
    kv_dtype: str = "bfloat16",
    calibration: Calibration | Tuning | str | Path | None = None,
    **how: Any,
) -> Deployment:
    """What serves: see `serve` for the arguments, `simulate.deploy` for the others."""
    cluster = resolve_target(on)
    for option in ("tp", "ep", "dp", "pp", "replicas", "kv_blocks"):
        if how.get(option) is not None and how[option] < 1:
            name = "attention_dp" if option == "dp" else option
            raise InvalidValueError(
                Text("{name} cannot be {value}.", name=name, value=str(how[option])),
                "",
                Text("Give {name} a positive number.", name=name),
            )
    if engine.endswith(".pbtxt"):
        config = read_config(engine)
        chosen = config.engine().with_policy(policy)
        how["replicas"] = how.get("replicas") or config.instances
    else:
        chosen = profile(engine).with_policy(policy)
    if not graphs:
        chosen = chosen.without_graphs()
    if isinstance(calibration, str | Path):
        calibration = load_tuning(calibration)
    if isinstance(calibration, Tuning):
        chosen, calibration = calibration.applied(chosen), None
    unknown = [each for each in settings if each not in ENGINE_FIELDS]
    if unknown:
        raise InvalidValueError(
            Text("An engine has no setting '{name}'.", name=unknown[0]),
            "",
            Text("Known: {names}.", names=", ".join(ENGINE_FIELDS)),
        )
    given = {key: value for key, value in settings.items() if value is not None}
    for key, value in given.items():
        most = 1.0 if key == "utilization" else 10**7
        if not 0 < value <= most:
            raise InvalidValueError(
                Text("{name} cannot be {value}.", name=key, value=str(value)),
                "",
                Text("Give {name} a positive number.", name=key),
            )
    size, title = _size(model)
    return deploy(
        title, size, cluster, replace(chosen, **given), cache_bytes=cache_bytes_of(kv_dtype),
        calibration=calibration, **how,
    )  # fmt: skip


def _size(model: str | TransformerSize) -> tuple[TransformerSize, str]:
    if isinstance(model, TransformerSize):
        return model, f"{model.parameters / 1e9:.3g}b"
    found: Model | None
    if model.endswith(".json") or Path(model).is_dir():
        from gpuscope.program.models.config_file import model_of_config

        found = model_of_config(Path(model))
    else:
        found = published_model(model) or find(model)
    if found.size is None:
        raise UnsupportedError(
            Text("{model} is no decoder that engines serve token by token.", model=found.name),
            "",
            Text("Name a decoder: gpuscope models lists them."),
        )
    size = found.size()
    if size.states is not None:
        raise UnsupportedError(
            Text("{model} cannot be served here: it has state-space mixers.", model=found.name),
            Text("What an iteration of such a block costs is not known."),
            Text("Its training can be predicted: gpuscope predict {model}", model=found.name),
        )
    return size, found.name


def cache_bytes_of(dtype: str) -> float:
    """Bytes of a number of keys and values.

    Raises:
        InvalidValueError: no dtype that they are kept in.
    """
    lowered = dtype.strip().lower()
    if lowered in ("bfloat16", "bf16", "float16", "fp16", "auto"):
        return 2.0
    if lowered.startswith("fp8"):
        return 1.0
    raise InvalidValueError(
        Text("Keys and values are not kept in '{dtype}'.", dtype=dtype),
        "",
        Text("Type: --kv-dtype bfloat16 or fp8"),
    )
