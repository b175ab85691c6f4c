// Builds the page into one HTML file; its data is put in by Python (gpuscope/views/html.py).
import { defineConfig } from "vitest/config";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: { target: "es2022", modulePreload: false, reportCompressedSize: false, chunkSizeWarningLimit: 2000 },
  test: { environment: "jsdom", include: ["test/**/*.test.ts"] },
});
