// Builds once more, elsewhere, and compares every byte with what is committed in dist/.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
// Names of styles depend on the folder that the build runs in; npm runs it here.
process.chdir(ROOT);
const made = mkdtempSync(join(tmpdir(), 'tapedb-console-'));
const below = (folder, path = '') =>
  readdirSync(join(folder, path)).flatMap((name) => {
    const inner = path ? `${path}/${name}` : name;
    return statSync(join(folder, inner)).isDirectory() ? below(folder, inner) : [inner];
  });
try {
  await build({ root: ROOT, logLevel: 'error', build: { outDir: made, emptyOutDir: true } });
  execFileSync(process.execPath, [join(ROOT, 'scripts/manifest.mjs'), made]);
  const [old, now] = [below(join(ROOT, 'dist')).sort(), below(made).sort()];
  const differ = [...new Set([...old, ...now])].filter(
    (path) => !old.includes(path) || !now.includes(path) || !readFileSync(join(ROOT, 'dist', path)).equals(readFileSync(join(made, path))),
  );
  if (differ.length) {
    console.error(`dist/ is not what the sources build; run make console:\n  ${differ.join('\n  ')}`);
    process.exitCode = 1;
  } else console.log(`dist/: ${now.length} files, the same bytes`);
} finally {
  rmSync(made, { recursive: true, force: true });
}
