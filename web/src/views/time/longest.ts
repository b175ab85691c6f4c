// The timeline as a table: the longest events of the stretch that is shown.

import { h } from "../../core/dom";
import { count, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { table } from "../../core/panel";
import { companions } from "./belongs";
import { named } from "./cells";
import { eventsWithin } from "./moment";
import type { Scene } from "./scene";
import { shortName } from "./symbol";

const MOST = 200;

/** A table that follows the timeline's view. */
export function longestTable(page: ReportPage, scene: Scene, ranks: () => ReadonlySet<number>): HTMLElement {
  const place = h("div");
  let timer = 0;
  const draw = () => { timer = 0; place.replaceChildren(...content(page, scene, ranks())); };
  scene.watch(() => { if (place.isConnected && place.offsetParent && !timer) timer = window.setTimeout(draw, 250); });
  draw();
  return place;
}

function content(page: ReportPage, scene: Scene, ranks: ReadonlySet<number>): HTMLElement[] {
  const tl = page.run.timeline;
  if (!tl) return [];
  const { duration_ns, name, lane, start_ns } = tl.events;
  const all = eventsWithin(page.model, scene.view[0], scene.view[1], ranks);
  const rows = [...all].sort((a, b) => duration_ns[b] - duration_ns[a]).slice(0, MOST);
  const several = ranks.size > 1;
  return [
    h("p", { class: "dim" }, t("The longest of {n} events in the stretch shown above.", { n: count(all.length) })),
    table({
      caption: t("Timeline"), rows, search: (i) => tl.names[name[i]],
      press: (i) => {
        const { title, events } = companions(page.model, i);
        page.selections.choose(page.model, "timeline-table", title, events.includes(i) ? events : [i], { event: i });
      },
      columns: [
        { title: t("event"), cell: (i) => named(shortName(tl.names[name[i]]), tl.names[name[i]]), sort: (i) => tl.names[name[i]], text: true },
        { title: t("duration"), cell: (i) => time(duration_ns[i] * 1e-9), sort: (i) => duration_ns[i] },
        { title: t("starts at"), cell: (i) => time((start_ns[i] - scene.zero) * 1e-9), sort: (i) => start_ns[i] },
        { title: t("lane"), cell: (i) => tl.lanes[lane[i]].name + (several ? ` · ${tl.lanes[lane[i]].rank}` : ""), sort: (i) => lane[i], text: true },
      ],
    }),
  ];
}
