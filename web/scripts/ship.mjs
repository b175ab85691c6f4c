// Puts the built page into the Python package, with the digest of the sources it was built from, and
// writes THIRD-PARTY-NOTICES; with --check, says whether what is shipped is that build.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { banner, notices, packages } from "./notices.mjs";

const web = fileURLToPath(new URL("..", import.meta.url));
const target = join(web, "../src/gpuscope/views/page/page.html");

/** Files that decide what the page is, in a fixed order. */
export function sources() {
  const found = ["../src/gpuscope/document/palette.json", "index.html", "package-lock.json", "vite.config.ts"];
  const walk = (folder) => {
    for (const entry of readdirSync(join(web, folder), { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) walk(path);
      else found.push(path);
    }
  };
  walk("src");
  return found.map((path) => relative(web, join(web, path)).replaceAll("\\", "/")).sort();
}

/** One digest over all sources. */
export function digest() {
  const hash = createHash("sha256");
  for (const path of sources()) hash.update(path).update("\0").update(readFileSync(join(web, path))).update("\0");
  return hash.digest("hex");
}

/** A digest as a Content-Security-Policy names it. */
const hashOf = (text) => createHash("sha256").update(text).digest("base64");

/** What stands in the one element of a sort that the browser would run or apply. */
function content(page, pattern) {
  const found = [...page.matchAll(pattern)];
  if (found.length !== 1) throw new Error(`the built page must hold one of ${pattern}, and holds ${found.length}`);
  return found[0][1];
}

/** The built page, with its placeholders, the digests of what may run in it, and others' notices. */
function built(found) {
  const raw = readFileSync(join(web, "dist/index.html"), "utf8");
  const script = content(raw, /<script type="module"[^>]*>([\s\S]*?)<\/script>/g);
  const style = content(raw, /<style[^>]*>([\s\S]*?)<\/style>/g);
  const filled = {
    GPUSCOPE_BANNER: banner(found),
    GPUSCOPE_SCRIPT: hashOf(script),
    GPUSCOPE_STYLE: hashOf(style),
    GPUSCOPE_SOURCES: digest(),
    GPUSCOPE_NOTICES: notices(found).replaceAll("<", "\\u003c"),
  };
  if (filled.GPUSCOPE_BANNER.includes("--")) throw new Error("a comment must not hold --");
  let page = raw;
  for (const [mark, text] of Object.entries(filled)) {
    if (page.split(mark).length !== 2) throw new Error(`the built page must hold ${mark} exactly once`);
    page = page.replace(mark, () => text);
  }
  for (const mark of ["GPUSCOPE_TITLE", "GPUSCOPE_TEXTS", "GPUSCOPE_DATA", digest()]) {
    if (page.split(mark).length !== 2) throw new Error(`the built page must hold ${mark} exactly once`);
  }
  return page;
}

const found = packages();
const shipped = [[target, built(found)], [join(web, "../THIRD-PARTY-NOTICES"), notices(found)]];
if (!process.argv.includes("--check")) {
  for (const [path, text] of shipped) {
    writeFileSync(path, text);
    console.log(`${(text.length / 1024).toFixed(0)} KiB -> ${relative(join(web, ".."), path)}`);
  }
} else if (shipped.some(([path, text]) => !existsSync(path) || readFileSync(path, "utf8") !== text)) {
  console.error("The shipped page or THIRD-PARTY-NOTICES is not the build of its sources. Type: npm --prefix web run build");
  process.exit(1);
} else {
  console.log("The shipped page and THIRD-PARTY-NOTICES are the build of their sources.");
}
