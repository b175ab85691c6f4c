// The mesh of ranks: where they sit, in which groups they talk, and what goes from whom to whom.

import { BRANCHES, roleColour } from "../../core/colours";
import type { Mesh } from "../../core/document";
import { h, tipped } from "../../core/dom";
import { count, digits, size, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, latePanel, legend, table } from "../../core/panel";
import type { Selection } from "../../core/selection";
import { sentences } from "./bits";
import { light } from "./lit";
import { communicationEvents, hosts, pairs, rankOf, shortRanks } from "./mesh_data";
import { circle, matrix } from "./mesh_pictures";

type Rank = Mesh["ranks"][number];

const MOST_IN_CIRCLE = 16, MOST_TILES = 256;

export const groupColour = (index: number): string => BRANCHES[index % BRANCHES.length] as string;

export function groupName(group: Mesh["groups"][number]): string {
  const name = group.name ? t("group {name}", { name: group.name }) : t("group without a name");
  const ranks = group.ranks.length ? shortRanks(group.ranks, (step) => t("every {n}th", { n: step })) : group.size ? t("{n} ranks", { n: group.size }) : t("members not recorded");
  return `${name}${t(": ")}${group.ranks.length ? `${t("ranks")} ` : ""}${ranks}`;
}

/** The panel of ranks; null where no rank talks to another. */
export function meshPanel(page: ReportPage): HTMLElement | null {
  const mesh = page.run.mesh;
  if (!mesh) return null;
  return latePanel("mesh", t("Ranks, and who sends what to whom"),
    t("Each box is a rank, each colour a process group. The bytes are what must go from one rank to another whatever the algorithm; a ring passes them on through its neighbours. Press a rank, a field or a row to choose its communication on the whole page."),
    () => [summary(mesh), hostBoxes(page, mesh), drawings(page, mesh), groupTable(page, mesh), mesh.flows.length ? asTable(() => flowTable(page, mesh)) : null], 460);
}

function summary(mesh: Mesh): HTMLElement {
  const sent = mesh.ranks.map((rank) => rank.sent_bytes).filter((bytes): bytes is number => bytes !== null);
  const waits = mesh.ranks.filter((rank) => rank.waiting_s !== null);
  const total = waits.reduce((sum, rank) => sum + (rank.waiting_s as number), 0), moved = waits.reduce((sum, rank) => sum + (rank.transfer_s as number), 0);
  return h("p", { class: "story" }, sentences([
    t("{ranks} ranks in {groups}.", { ranks: mesh.ranks.length, groups: mesh.groups.length === 1 ? t("one group") : t("{n} groups", { n: mesh.groups.length }) }),
    sent.length ? (Math.max(...sent) - Math.min(...sent) < Math.max(...sent) * 0.001 ? t("Each sends at least {bytes} a step.", { bytes: size(sent[0]) }) : t("Each sends at least {low} to {high} a step.", { low: size(Math.min(...sent)), high: size(Math.max(...sent)) })) : null,
    waits.length && total + moved > 0 ? t("In a step, a rank spends {transfer} on transfer and {waiting} on waiting for others, on average.", { transfer: time(moved / waits.length), waiting: time(total / waits.length) }) : null,
    mesh.unplaced ? t("{n} calls are counted, not drawn: their size, partners or root are not recorded.", { n: count(mesh.unplaced) }) : null,
  ]));
}

function chooseRank(page: ReportPage, rank: number): void {
  page.selections.choose(page.model, "mesh", t("rank {rank}", { rank }), page.model.eventsWhere((event) => rankOf(page.run, event) === rank));
}

/** Ranks as tiles in the box of their host, with what their time goes into. */
function hostBoxes(page: ReportPage, mesh: Mesh): HTMLElement {
  const most = Math.max(...mesh.ranks.map((rank) => (rank.compute_s ?? 0) + rank.communication_s)) || 1;
  const tiles = new Map<number, HTMLElement>();
  const shown = new Set(mesh.ranks.slice(0, MOST_TILES).map((rank) => rank.rank));
  const boxes = hosts(mesh).map(({ host, ranks }) => h("div", { class: "host" }, h("h4", {}, host || t("host not recorded")),
    h("div", { class: mesh.ranks.length > MOST_IN_CIRCLE ? "tiles small" : "tiles" }, ranks.filter((rank) => shown.has(rank.rank)).map((rank) => {
      const tile = rankTile(page, mesh, rank, most);
      tiles.set(rank.rank, tile);
      return tile;
    }))));
  page.selections.on((selection) => tiles.forEach((tile, rank) => light(tile, rankState(selection, rank, mesh))));
  const some = mesh.ranks.some((rank) => rank.waiting_s !== null);
  return h("div", {}, h("div", { class: "hosts" }, boxes),
    mesh.ranks.length > MOST_TILES ? h("p", { class: "dim" }, t("The first {n} ranks are drawn.", { n: MOST_TILES })) : null,
    legend([{ label: t("computing"), colour: roleColour("compute") }, { label: some ? t("transfer") : t("communication"), colour: roleColour("communication") }, ...(some ? [{ label: t("waiting for other ranks"), colour: "var(--waiting)" }] : [])]));
}

/** Ranks that the selection does not touch are dimmed; those of a part of all ranks are lit. */
function rankState(selection: Selection | null, rank: number, mesh: Mesh): "on" | "off" | "none" {
  if (!selection) return "none";
  if (!selection.ranks.has(rank)) return "off";
  return selection.ranks.size < mesh.ranks.length ? "on" : "none";
}

function rankTile(page: ReportPage, mesh: Mesh, rank: Rank, most: number): HTMLElement {
  const groups = mesh.groups.map((group, i) => ({ group, i })).filter(({ group }) => group.ranks.includes(rank.rank));
  const other = Math.max(0, rank.communication_s - (rank.transfer_s ?? 0) - (rank.waiting_s ?? 0));
  const share = (value: number, colour: string) => h("i", { style: { width: `${(value / most) * 100}%`, background: colour } });
  const line = (name: string, value: string | null) => (value === null ? null : `${name}${t(": ")}${value}`);
  return tipped(h("button", { type: "button", class: `rank-tile${rank.recorded ? "" : " absent"}`, "aria-label": `${t("rank {rank}", { rank: rank.rank })}${rank.recorded ? "" : `${t(", ")}${t("not recorded")}`}`, onclick: () => chooseRank(page, rank.rank) },
    h("b", {}, String(rank.rank)), h("span", { class: "dots" }, groups.slice(0, 8).map(({ i }) => h("i", { style: { background: groupColour(i) } }))),
    h("span", { class: "spent" }, share(rank.compute_s ?? 0, roleColour("compute")), share((rank.transfer_s ?? 0) + other, roleColour("communication")), share(rank.waiting_s ?? 0, "var(--waiting)"))),
  t("rank {rank}", { rank: rank.rank }), [
    rank.recorded ? null : t("not recorded: known as a member of its group"),
    [rank.host, rank.device === null ? "" : t("device {n}", { n: rank.device })].filter(Boolean).join(t(", ")),
    line(t("computing"), rank.compute_s === null ? null : time(rank.compute_s)), line(t("communication"), time(rank.communication_s)),
    line(t("transfer"), rank.transfer_s === null ? null : time(rank.transfer_s)), line(t("waiting"), rank.waiting_s === null ? null : time(rank.waiting_s)),
    line(t("made others wait"), rank.caused_s === null ? null : time(rank.caused_s)), line(t("sends at least"), rank.sent_bytes === null ? null : size(rank.sent_bytes)),
    ...groups.slice(0, 6).map(({ group }) => groupName(group)),
  ]);
}

function drawings(page: ReportPage, mesh: Mesh): HTMLElement | null {
  if (!mesh.flows.length) return mesh.ranks.length > 1 && mesh.unplaced === 0 ? h("p", { class: "remark" }, t("With so many ranks, groups are listed and not every pair.")) : null;
  const found = pairs(mesh);
  const choose = (title: string, ranks: Set<number>) => page.selections.choose(page.model, "mesh", title, communicationEvents(page.model, mesh, null, ranks));
  const pictures = [
    mesh.ranks.length <= MOST_IN_CIRCLE ? circle(mesh, found, groupColour, (rank) => chooseRank(page, rank)) : null,
    matrix(mesh, found, groupColour, (pair) => choose(t("from rank {a} to rank {b}", { a: pair.sender, b: pair.receiver }), new Set([pair.sender, pair.receiver]))),
  ].filter((picture) => picture !== null);
  page.selections.on((selection) => pictures.forEach((picture) => picture.lit(selection && selection.ranks.size < mesh.ranks.length ? selection.ranks : null)));
  return h("div", { class: "mesh-pictures" }, pictures.map((picture) => picture.element));
}

function groupTable(page: ReportPage, mesh: Mesh): HTMLElement {
  const rows = mesh.groups.flatMap((group, i) => group.sorts.map((sort) => ({ group, i, sort })));
  type Row = (typeof rows)[number];
  const title = ({ group, sort }: Row) => `${sort.name} · ${groupName(group)}`;
  return table<Row>({
    caption: t("Process groups and their collectives"), rows, first: 10,
    columns: [
      { title: t("group"), text: true, sort: (row) => row.i, cell: (row) => h("span", { class: "group-name" }, h("i", { class: "swatch", style: { background: groupColour(row.i) } }), groupName(row.group)) },
      { title: t("collective"), text: true, sort: (row) => row.sort.name, cell: (row) => h("span", { class: "mono" }, [row.sort.name, row.sort.dtype].filter(Boolean).join(" ")) },
      { title: t("calls a step"), sort: (row) => row.sort.count, cell: (row) => (Number.isInteger(row.sort.count) ? count(row.sort.count) : digits(row.sort.count)) },
      { title: t("message"), sort: (row) => row.sort.message_bytes, cell: (row) => (row.sort.message_bytes === null ? h("span", { class: "dim" }, t("not recorded")) : size(row.sort.message_bytes)) },
      { title: t("sent by a rank"), sort: (row) => row.sort.sent_bytes, cell: (row) => (row.sort.sent_bytes === null ? "" : size(row.sort.sent_bytes)) },
      { title: t("time with waiting"), sort: (row) => row.sort.time_s, cell: (row) => time(row.sort.time_s) },
    ],
    press: (row) => page.selections.choose(page.model, "mesh", title(row), communicationEvents(page.model, mesh, row.i, null)),
  });
}

function flowTable(page: ReportPage, mesh: Mesh): HTMLElement {
  return table({
    caption: t("Bytes from rank to rank"), rows: mesh.flows, first: 20, search: (flow) => `${flow.sender} ${flow.receiver}`,
    columns: [
      { title: t("from rank"), sort: (flow) => flow.sender, cell: (flow) => String(flow.sender) },
      { title: t("to rank"), sort: (flow) => flow.receiver, cell: (flow) => String(flow.receiver) },
      { title: t("group"), text: true, sort: (flow) => flow.group, cell: (flow) => groupName(mesh.groups[flow.group] as Mesh["groups"][number]) },
      { title: t("bytes a step"), sort: (flow) => flow.sent_bytes, cell: (flow) => size(flow.sent_bytes) },
    ],
    press: (flow) => page.selections.choose(page.model, "mesh", t("from rank {a} to rank {b}", { a: flow.sender, b: flow.receiver }), communicationEvents(page.model, mesh, flow.group, new Set([flow.sender, flow.receiver]))),
  });
}
