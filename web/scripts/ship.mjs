// Puts the built page into the Python package, with the digest of the sources it was built from;
// with --check, says whether the shipped page is that build.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const web = fileURLToPath(new URL("..", import.meta.url));
const target = join(web, "../src/gpuscope/views/page/page.html");

/** Files that decide what the page is, in a fixed order. */
export function sources() {
  const found = ["index.html", "package-lock.json", "vite.config.ts"];
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

/** The built page, with its placeholders and the digest of its sources. */
function built() {
  const page = readFileSync(join(web, "dist/index.html"), "utf8").replace("GPUSCOPE_SOURCES", digest());
  for (const mark of ["GPUSCOPE_TITLE", "GPUSCOPE_DATA", digest()]) {
    if (page.split(mark).length !== 2) throw new Error(`the built page must hold ${mark} exactly once`);
  }
  return page;
}

const page = built();
if (!process.argv.includes("--check")) {
  writeFileSync(target, page);
  console.log(`${(page.length / 1024).toFixed(0)} KiB -> src/gpuscope/views/page/page.html`);
} else if (readFileSync(target, "utf8") !== page) {
  console.error("The shipped page is not the build of its sources. Type: npm --prefix web run build");
  process.exit(1);
} else {
  console.log("The shipped page is the build of its sources.");
}
