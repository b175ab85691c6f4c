"""Rates, costs and use of the device that follow from a run's fields."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.hardware import Calibration
from gpuscope.run.types import Run


@dataclass(frozen=True, slots=True)
class Figures:
    """Rates and costs of a run; None where a part of them is unknown.

    Attributes:
        samples_per_s, tokens_per_s: work over the step time.
        energy_per_token_j: energy of one device per token of its step; of a job, of all devices.
        usd_per_step: the price per hour over the step: of one device; of a job, of all.
        usd_per_million_tokens: the same for 10^6 tokens.
        limiter: the time class that takes most of the step.
        devices: of a job, one a rank; else 1.
        samples_per_s_per_device, tokens_per_s_per_device: of a job.
        job_energy_j: energy of a step on all devices; of one device `Run.energy_j`.
        mfu, hfu: model (hardware) FLOPs over the peak, the mean over all devices of a job.
    """

    samples_per_s: float | None
    tokens_per_s: float | None
    energy_per_token_j: float | None
    usd_per_step: float | None
    usd_per_million_tokens: float | None
    limiter: str
    devices: int = 1
    samples_per_s_per_device: float | None = None
    tokens_per_s_per_device: float | None = None
    job_energy_j: float | None = None
    mfu: float | None = None
    hfu: float | None = None


def figures(run: Run) -> Figures:
    """Return what follows from the run's fields."""
    step_s = run.step_time_s
    devices = sum(len(each.members) for each in run.rank_results) or 1
    price, energy_j, (mfu, hfu) = _price_usd(run), _energy_j(run), _used(run)
    largest = max(run.analysis.classes, key=lambda share: share.time_s, default=None)
    return Figures(
        samples_per_s=_ratio(run.samples, step_s),
        tokens_per_s=_ratio(run.tokens, step_s),
        energy_per_token_j=_ratio(energy_j, run.tokens),
        usd_per_step=price,
        usd_per_million_tokens=None if price is None else _ratio(price * 1e6, run.tokens),
        limiter=largest.label if largest else "",
        devices=devices,
        samples_per_s_per_device=_ratio(_ratio(run.samples, step_s), devices),
        tokens_per_s_per_device=_ratio(_ratio(run.tokens, step_s), devices),
        job_energy_j=energy_j,
        mfu=mfu,
        hfu=hfu,
    )


def _price_usd(run: Run) -> float | None:
    """What a step costs on all devices of its job."""
    if run.rank_results and run.place is not None:
        hour = run.place.price_usd_per_hour
        return None if hour is None else hour * run.step_time_s / 3600
    return run.analysis.energy.cost_usd if run.analysis.energy else None


def _energy_j(run: Run) -> float | None:
    """Energy of a step on all devices of its job; None where that of any is unknown."""
    total = 0.0
    for each in run.rank_results:
        if each.energy_j is None:
            return None
        total += each.energy_j * len(each.members)
    return total if run.rank_results else run.energy_j


def _used(run: Run) -> tuple[float | None, float | None]:
    """MFU and HFU."""
    used, job = run.analysis.utilisation, run.analysis.job
    if used is None or job is None or not used.peak_flops_per_s:
        return (None, None) if used is None else (used.mfu, used.hfu)
    peak = run.step_time_s * used.peak_flops_per_s
    if not peak:
        return None, None
    return job.mean_model_flops / peak, job.mean_hardware_flops / peak


def _ratio(amount: float | None, by: float | None) -> float | None:
    return None if amount is None or not by else amount / by


_PACE = 0.8
"""Whose host works for this share of a step or more, and its device for less: the host's pace."""


def catalogue_host(
    constants: Calibration, step_s: float, host_s: float | None, device_s: float
) -> Text | None:
    """What to say where the step goes at the pace of a host that is not the reader's own.

    Args:
        constants: that the step was predicted with.
        step_s: the step.
        host_s: how long its host works.
        device_s: how long its device works.

    Returns:
        None where the device sets the pace, or where the constants come from a bench of the host.
    """
    if not host_s or host_s < _PACE * step_s or device_s >= _PACE * step_s:
        return None
    if "host.scale" not in constants or constants.origin("host.scale") != "estimated":
        return None
    scale = constants.entry("host.scale")
    return Text(
        "The host is the middle one of those measured (Xeons in virtual machines); others take "
        "{low} to {high} times as long. Yours: gpuscope bench --only host --save, then --on this.",
        low=f"{scale.low / scale.value:.1f}",
        high=f"{scale.high / scale.value:.1f}",
    )
