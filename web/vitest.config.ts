import { defineConfig } from "vitest/config";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  test: { environment: "happy-dom", isolate: false, testTimeout: 120_000, include: ["test/**/*.test.{ts,tsx}"] },
});
