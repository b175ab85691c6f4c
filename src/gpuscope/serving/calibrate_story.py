"""A calibration told: how far each constant moved, and the error of each run before and after."""

from __future__ import annotations

from gpuscope.document.blocks import Cell, Column, Explanation, Section, Table
from gpuscope.document.quantities import Percent
from gpuscope.document.text import Text
from gpuscope.serving.calibrate import LEAST_TOKENS, Fit
from gpuscope.serving.metrics import metrics
from gpuscope.serving.tuning import SORTS, Tuning


def calibration_story(fit: Fit) -> Explanation:
    """What a fit found."""
    tuning = fit.tuning
    return Explanation(
        "serving calibration",
        Text("Calibrated: {model} on {devices}, {engine}", model=tuning.model,
             devices=tuning.devices, engine=tuning.engine),
        (
            Text(
                "Mean error of TTFT and TPOT: {before} before, {after} after.",
                before=Percent(tuning.error_before),
                after=Percent(tuning.error_after),
            ),
        ),
        (
            Section(Text("Constants"), (_factors(tuning),)),
            Section(Text("Runs"), (_runs(fit),)),
        ),
        assumptions=(
            Text("The profile's scheduler and the kernel models stay as they are."),
        ),
    )  # fmt: skip


def _factors(tuning: Tuning) -> Table:
    rows = tuple(
        (SORTS[name].label, each.value if each.spread is not None else None, each.spread)
        for name, each in tuning.factors.items()
    )
    silent = any(each.spread is None for each in tuning.factors.values())
    return Table(
        Text("How far they moved"),
        (
            Column(Text("constant")),
            Column(Text("of the profile's"), "ratio"),
            Column(Text("standard error"), "share"),
        ),
        rows,
        note=Text("What is not available stays as it is: these runs say nothing of it.")
        if silent
        else None,
    )


def _runs(fit: Fit) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for truth, *both in zip(fit.measured, fit.before, fit.after, strict=True):
        told = metrics(truth)
        mine = [metrics(each) for each in both]
        short = int(truth.served.output_tokens.max()) < LEAST_TOKENS
        tpot_s = None if short else told.tpot.p50_s  # as the fit has it
        rows.append(
            (
                truth.name,
                told.ttft.p50_s,
                *(_off(each.ttft.p50_s, told.ttft.p50_s) for each in mine),
                tpot_s,
                *(_off(each.tpot.p50_s, tpot_s) for each in mine),
            )
        )
    off = (Column(Text("error before"), "share"), Column(Text("error after"), "share"))
    return Table(
        Text("Medians, measured and predicted"),
        (
            Column(Text("load asked for")),
            Column(Text("TTFT measured"), "s"),
            *off,
            Column(Text("TPOT measured"), "s"),
            *off,
        ),
        tuple(rows),
    )


def _off(mine_s: float | None, truth_s: float | None) -> float | None:
    return mine_s / truth_s - 1 if mine_s is not None and truth_s else None
