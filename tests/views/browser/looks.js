// What is wrong with how a page looks, a line each: text cut off or over other text, parts wider
// than their place, pictures without anything in them.
() => {
  const style = (e) => getComputedStyle(e);
  const shown = (e) => e.getClientRects().length > 0 && style(e).visibility !== "hidden";
  const said = (e) => `"${e.textContent.trim().slice(0, 40)}"`;
  const place = (e) => e.closest("section[id]")?.id ?? "";
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
  const found = [];
  // Tilted words have boxes much larger than they are.
  const tilted = (e) => /rotate|matrix\((?!1,0,0,1)/.test(e.getAttribute("transform") ?? "");
  const words = (svg) => [...svg.querySelectorAll("text")].filter((e) =>
    e.textContent.trim() && shown(e) && Number(style(e).opacity) > 0 && !tilted(e));

  for (const svg of all("main svg")) {
    const room = svg.getBoundingClientRect(), hides = style(svg).overflow !== "visible";
    const texts = words(svg), boxes = texts.map((e) => e.getBoundingClientRect());
    boxes.forEach((a, i) => {
      const out = a.left < room.left - 2 || a.right > room.right + 2
        || a.top < room.top - 3 || a.bottom > room.bottom + 3;
      if (hides && out) found.push(`cut: ${place(svg)} ${said(texts[i])}`);
      for (let k = i + 1; k < boxes.length; k++) {
        const b = boxes[k], wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 && high > 4 && texts[i].textContent !== texts[k].textContent)
          found.push(`over each other: ${place(svg)} ${said(texts[i])} and ${said(texts[k])}`);
      }
    });
  }
  for (const e of all("button, h1, h2, h3, h4, th, td, dt, dd, p, li".replace(/\w+/g, "main $&"))) {
    const scrolls = ["auto", "scroll"].includes(style(e).overflowX);
    if (e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1 && !scrolls
      && style(e).textOverflow !== "ellipsis") found.push(`too wide: ${place(e)} ${said(e)}`);
  }
  for (const canvas of all("main canvas").filter((e) => e.width && e.height)) {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    if (!data.some((value) => value)) found.push(`blank: ${place(canvas)}`);
  }
  for (const chart of all("main .chart"))
    if (!chart.querySelector("path, polyline, text")) found.push(`empty: ${place(chart)}`);
  return found;
}
