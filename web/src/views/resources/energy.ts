// Energy, utilisation and pace: small panels beside each other.

import { roleColour } from "../../core/colours";
import { h, tipped, type Child } from "../../core/dom";
import { energy, flopRate, flops, missing, money, percent, power, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { legend, panel } from "../../core/panel";

interface Parts { total_j: number | null; idle_j: number | null; active_j: number | null; compute_j: number | null; memory_j: number | null; average_w: number | null; cost_usd: number | null; source: string }

const PARTS: [keyof Parts, string, string][] = [
  ["compute_j", "matrix arithmetic", roleColour("tensor")], ["active_j", "other kernels and L2", roleColour("instruction")], ["memory_j", "device memory", roleColour("memory")], ["idle_j", "being on at all", roleColour("idle")],
];

const partName = (name: string): string => ({
  "matrix arithmetic": t("matrix arithmetic"), "other kernels and L2": t("other kernels and L2"), "device memory": t("device memory"), "being on at all": t("being on at all"),
})[name] ?? name;

/** The three small panels; null where none has data. */
export function smallPanels(page: ReportPage): HTMLElement | null {
  const made = [energyPanel(page), utilisationPanel(page), pacePanel(page)].filter((p) => p !== null);
  return made.length ? h("div", { class: "resource-trio" }, made) : null;
}

/** Energy of a step, in parts, against the power limit. */
export function energyPanel(page: ReportPage): HTMLElement | null {
  const run = page.run, e = run.analysis.energy as Parts | null, joules = e?.total_j ?? run.energy_j;
  if (missing(joules)) return null;
  const limit = run.device?.power_limit_w ?? null, measured = run.measurement as { average_w?: number | null; energy_uncertainty_j?: number | null } | null;
  const watts = measured?.average_w ?? e?.average_w ?? null;
  const whole = run.figures.job_energy_j as number | null, devices = run.figures.devices as number, many = devices > 1 && !missing(whole) && !missing(run.step_time_s);
  const rows = PARTS.map(([key, name, colour]) => ({ name: partName(name), colour, joules: (e?.[key] as number | null | undefined) ?? null })).filter((r) => r.joules !== null && r.joules > 0) as { name: string; colour: string; joules: number }[];
  const sum = rows.reduce((a, r) => a + r.joules, 0);
  return panel("energy", t("Energy"), t("What one step takes, and on what."),
    many ? h("p", { class: "res-big" }, energy(whole), h("span", { class: "dim" }, ` ${t("a step, all {n} devices", { n: devices })}`)) : h("p", { class: "res-big" }, energy(run.energy_j ?? joules), measured?.energy_uncertainty_j ? h("span", { class: "dim" }, ` ± ${energy(measured.energy_uncertainty_j)}`) : null, h("span", { class: "dim" }, ` ${t("a step")}`)),
    many && rows.length > 1 ? h("p", { class: "res-note" }, t("Rank {rank} takes {energy} of it:", { rank: run.ranks[0] ?? 0, energy: energy(joules) })) : null,
    rows.length > 1 ? [h("div", { class: "stack", role: "img", "aria-label": rows.map((r) => `${r.name} ${percent(r.joules / sum)}`).join(", ") },
      rows.map((r) => tipped(h("i", { style: { width: `${(r.joules / sum) * 100}%`, background: r.colour } }), r.name, [energy(r.joules), percent(r.joules / sum)]))),
    legend(rows.map((r) => ({ label: r.name, colour: r.colour, value: `${energy(r.joules)} · ${percent(r.joules / sum)}` })))] : null,
    many ? gauge(t("average power of a device, mean of all"), (whole as number) / run.step_time_s / devices, limit, power) : gauge(t("average power"), watts, limit, power),
    h("dl", { class: "facts" }, fact(t("a token"), run.figures.energy_per_token_j, energy), fact(t("a step, rented"), run.figures.usd_per_step ?? e?.cost_usd, money), fact(t("a million tokens, rented"), run.figures.usd_per_million_tokens, money)),
    e?.source && run.origin === "predicted" ? h("p", { class: "res-note" }, t(e.source)) : null);
}

const fact = (label: string, value: number | null | undefined, shown: (v: number) => string): Child =>
  missing(value) ? null : h("div", {}, h("dt", {}, label), h("dd", {}, shown(value)));

/** A bar of a value against its limit. */
function gauge(label: string, value: number | null, limit: number | null, shown: (v: number | null) => string): HTMLElement | null {
  if (missing(value)) return null;
  return h("div", { class: "res-against" }, h("span", {}, label, " ", h("b", {}, shown(value))), limit ? h("span", { class: "dim" }, t("{share} of {limit}", { share: percent(value / limit), limit: shown(limit) })) : null,
    limit ? h("div", { class: "res-track" }, h("i", { style: { width: `${Math.min(1, value / limit) * 100}%` } })) : null);
}

/** MFU and HFU with what they mean. */
export function utilisationPanel(page: ReportPage): HTMLElement | null {
  const run = page.run, used = run.analysis.utilisation as { mfu: number | null; hfu: number | null; model_flops: number; hardware_flops: number; peak_flops_per_s: number | null; definition: string } | null;
  if (!used || missing(used.mfu)) return null;
  const devices = run.figures.devices as number, mean = run.figures.mfu as number | null, again = run.figures.hfu as number | null;
  if (devices > 1 && !missing(mean) && used.peak_flops_per_s !== null) return jobUtilisation(run, devices, mean, again, used.peak_flops_per_s, used.definition);
  const hardware = used.hfu !== null && Math.abs(used.hfu - used.mfu) > 1e-4;
  return panel("utilisation", t("Utilisation"), t("How much of the device's arithmetic the model uses."),
    h("p", { class: "res-big" }, percent(used.mfu), h("span", { class: "dim" }, " MFU")),
    gauge(t("model"), used.peak_flops_per_s === null ? null : used.mfu * used.peak_flops_per_s, used.peak_flops_per_s, flopRate),
    hardware ? gauge(t("hardware, repeated work included"), (used.hfu as number) * (used.peak_flops_per_s ?? 0), used.peak_flops_per_s, flopRate) : null,
    h("dl", { class: "facts" }, fact(t("FLOPs of the model, a step"), used.model_flops, flops), hardware ? fact("HFU", used.hfu, percent) : null),
    h("p", { class: "res-note" }, t(used.definition)));
}

/** The same of a job: the mean over its devices, and what they compute together. */
function jobUtilisation(run: ReportPage["run"], devices: number, mfu: number, hfu: number | null, peak: number, definition: string): HTMLElement {
  const hardware = hfu !== null && Math.abs(hfu - mfu) > 1e-4;
  return panel("utilisation", t("Utilisation"), t("How much of the devices' arithmetic the model uses: the mean of all {n}.", { n: devices }),
    h("p", { class: "res-big" }, percent(mfu), h("span", { class: "dim" }, " MFU")),
    gauge(t("model, a device"), mfu * peak, peak, flopRate),
    hardware ? gauge(t("hardware, repeated work included, a device"), hfu * peak, peak, flopRate) : null,
    h("dl", { class: "facts" }, fact(t("FLOPs of the model, a step of the job"), mfu * peak * run.step_time_s * devices, flops), hardware ? fact("HFU", hfu, percent) : null),
    h("p", { class: "res-note" }, t(definition)));
}

/** Host and device: the slower one sets the pace. */
export function pacePanel(page: ReportPage): HTMLElement | null {
  const run = page.run;
  if (missing(run.step_time_s) || missing(run.device_busy_s)) return null;
  const longest = Math.max(run.step_time_s, run.device_busy_s, run.host_busy_s ?? 0);
  const row = (label: string, value: number, kind: string): Child[] => [h("span", {}, label), h("div", { class: "res-track" }, h("i", { class: kind, style: { width: `${(value / longest) * 100}%` } })), h("span", {}, time(value))];
  const share = run.device_busy_s / run.step_time_s;
  const waits = run.analysis.classes.filter((c) => c.label === "communication: waiting for another rank").reduce((sum, c) => sum + c.time_s, 0);
  const said = missing(run.host_busy_s) ? t("The device works {share} of the step.", { share: percent(Math.min(1, share)) })
    : waits > 0.05 * run.step_time_s ? t("The device is taken {share} of the step, but {waiting} of that it waits in collectives for other ranks: the last of them sets the pace.", { share: percent(Math.min(1, share)), waiting: time(waits) })
    : share > 0.95 ? t("The device works {share} of the step: it sets the pace.", { share: percent(Math.min(1, share)) })
      : run.host_busy_s > run.device_busy_s ? t("The device works {share} of the step and the host more: launching the work sets the pace.", { share: percent(share) })
        : t("The device works {share} of the step; the rest is waiting for the host, for data or for other ranks.", { share: percent(share) });
  return panel("pace", t("Host and device"),
    t("The host is the CPU: it runs Python and launches the device's work, ahead of it where it can. The slower of the two sets the pace."),
    h("div", { class: "res-pace" }, row(t("device works"), run.device_busy_s, ""), missing(run.host_busy_s) ? null : row(t("host works"), run.host_busy_s, "host"), row(t("step"), run.step_time_s, "step")),
    h("p", { class: "res-note" }, said));
}
