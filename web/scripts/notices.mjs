// The notices of the packages whose code is in the page (dist/packages.json, from the build).
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const web = fileURLToPath(new URL("..", import.meta.url));
const LEGAL = /^(licen[cs]e|notice|copying|copyrightnotice)(\.(txt|md))?$/i;
const RULE = "=".repeat(80);

/** What each package says of itself, by name. */
export function packages() {
  const names = JSON.parse(readFileSync(join(web, "dist/packages.json"), "utf8"));
  if (!names.includes("echarts")) throw new Error("dist/packages.json names no packages: the build did not write it");
  return names.map((name) => {
    const folder = join(web, "node_modules", name);
    const { version, license, homepage } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const texts = legalFiles(folder).map((file) => [file, readFileSync(join(folder, file), "utf8")]);
    if (!texts.some(([file]) => /^(licen[cs]e|copying)/i.test(file))) throw new Error(`${name} has no file with its licence`);
    return { name, version, license, homepage, texts };
  });
}

function legalFiles(folder) {
  const inside = readdirSync(folder, { withFileTypes: true });
  const own = inside.filter((e) => e.isFile() && LEGAL.test(e.name)).map((e) => e.name).sort();
  const of = inside.some((e) => e.isDirectory() && e.name === "licenses") ? readdirSync(join(folder, "licenses")).sort() : [];
  return [...own, ...of.map((name) => `licenses/${name}`)];
}

/** THIRD-PARTY-NOTICES: all licences and notices in full. */
export function notices(found) {
  const parts = found.map(({ name, version, license, homepage, texts }) => [
    RULE, `${name} ${version} (${license})${homepage ? `, ${homepage}` : ""}`, RULE,
    ...texts.map(([file, text]) => `-- ${file}\n\n${text.replaceAll("\r\n", "\n").split("\n").map((line) => line.trimEnd()).join("\n").trim()}\n`),
  ].join("\n\n"));
  return `The pages that gpuscope writes, and the template in its package (gpuscope/views/page/page.html),\nhold code of the packages below, in minified form. Made by web/scripts/ship.mjs from what is bundled.\n\n${parts.join("\n\n")}`;
}

/** The comment at the head of every page. */
export function banner(found) {
  const named = found.map(({ name, version, license }) => `  ${name} ${version} (${license})`);
  return ["Written by gpuscope (Apache-2.0). The script in this page holds, in minified form:", ...named,
    "Their licences and notices stand in full in this file, in the element with the id \"notices\"."].join("\n");
}
