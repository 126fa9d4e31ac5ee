// Build the page's script and style: `npm run build`. With --compare: fail unless the committed files are these.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "..", "src", "medvqa", "report", "html", "assets");

const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: assets,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".css": "css" },
  metafile: true,
  write: false,
});

// The licence of each package whose code went into the script.
const packages = new Set(
  Object.keys(result.metafile.inputs)
    .map((file) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1])
    .filter((name) => name !== undefined),
);
const licences = [...packages].sort().map((name) => {
  const { version } = JSON.parse(readFileSync(join(here, "node_modules", name, "package.json"), "utf8"));
  return `${name} ${version}\n\n${readFileSync(join(here, "node_modules", name, "LICENSE"), "utf8").trim()}\n`;
});

const files = new Map(result.outputFiles.map(({ path, text }) => [path, text]));
files.set(join(assets, "LICENSES.txt"), licences.join("\n\n"));

let differ = false;
for (const [path, text] of files) {
  const name = relative(join(here, ".."), path);
  if (!process.argv.includes("--compare")) {
    writeFileSync(path, text);
    console.log(`${name}: ${(text.length / 1000).toFixed(0)} kB`);
    continue;
  }
  let committed = "";
  try {
    committed = readFileSync(path, "utf8");
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
  if (committed !== text) {
    differ = true;
    console.error(`${name} is not what web/src builds: type "npm run build" in web/ and commit it`);
  }
}
process.exit(differ ? 1 : 0);
