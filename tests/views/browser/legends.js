// Colours of the palette that each panel's pictures use, with their pixels, and those that its legend
// names. A canvas' pixels count where they are opaque.
(colours) => {
  const hex = (r, g, b) => "#" + [r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("");
  const known = new Set(colours), found = {};
  // Of a timeline: device, host and waits; other lanes have their names beside them.
  const rows = (canvas) => {
    const scene = canvas.timeline;
    if (!scene) return () => true;
    const plain = scene.tracks.filter((track) => ["device", "host", "waits"].includes(track.kind));
    const ratio = canvas.height / canvas.getBoundingClientRect().height;
    return (y) => plain.some((track) => y / ratio + scene.scroll >= track.y
      && y / ratio + scene.scroll < track.y + track.height);
  };
  for (const panel of document.querySelectorAll("section.panel")) {
    const drawn = {}, named = new Set([...panel.querySelectorAll(".legend .swatch, .tl-legend i")].map((e) =>
      hex(...getComputedStyle(e).backgroundColor.match(/\d+/g).slice(0, 3).map(Number))));
    const count = (colour, n) => {
      if (known.has(colour)) drawn[colour] = (drawn[colour] ?? 0) + n;
    };
    for (const canvas of panel.querySelectorAll("canvas")) {
      if (!canvas.width || canvas.closest(".tl-map-box")) continue;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const own = rows(canvas);
      for (let y = 0; y < canvas.height; y++) if (own(y)) for (let x = 0; x < canvas.width; x++) {
        const i = (y * canvas.width + x) * 4;
        if (data[i + 3] === 255) count(hex(data[i], data[i + 1], data[i + 2]), 1);
      }
    }
    for (const e of panel.querySelectorAll("svg :is(path.layer, circle)"))
      count(e.getAttribute("fill"), 1e3);
    if (Object.keys(drawn).length) found[panel.id] = { drawn, named: [...named] };
  }
  return found;
}
