// Builds the page into one HTML file; its data is put in by Python (gpuscope/views/html.py).
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { viteSingleFile } from "vite-plugin-singlefile";

/** Says whose code really is in the page (dist/packages.json): scripts/notices.mjs gives their notices. */
function packagesOfTheBundle(): Plugin {
  const found = new Set<string>();
  return {
    name: "packages-of-the-bundle",
    generateBundle(_options, bundle) {
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const [id, module] of Object.entries(chunk.modules)) {
          const name = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1];
          if (name && module.renderedLength > 0) found.add(name);
        }
      }
    },
    writeBundle({ dir = "dist" }) {
      writeFileSync(join(dir, "packages.json"), `${JSON.stringify([...found].sort())}\n`);
    },
  };
}

export default defineConfig({
  plugins: [packagesOfTheBundle(), viteSingleFile({ removeViteModuleLoader: true })],
  build: { target: "es2022", modulePreload: false, reportCompressedSize: false, chunkSizeWarningLimit: 2000 },
  test: { environment: "jsdom", include: ["test/**/*.test.ts"] },
});
