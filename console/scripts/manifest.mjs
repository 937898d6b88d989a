// Writes dist/manifest.json: the SHA-256 of every file that the build reads. A test in Rust compares it with the files.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FILES = ['.npmrc', 'index.html', 'package-lock.json', 'package.json', 'scripts/manifest.mjs', 'svelte.config.js', 'tsconfig.json', 'vite.config.ts'];
const FOLDERS = ['public', 'src'];

function below(folder) {
  return readdirSync(join(ROOT, folder)).flatMap((name) => {
    const path = `${folder}/${name}`;
    return statSync(join(ROOT, path)).isDirectory() ? below(path) : [path];
  });
}

const hash = (path) => createHash('sha256').update(readFileSync(join(ROOT, path))).digest('hex');
const byBytes = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const paths = [...FILES, ...FOLDERS.flatMap(below)].sort(byBytes);
const sources = Object.fromEntries(paths.map((path) => [path, hash(path)]));
writeFileSync(join(resolve(ROOT, process.argv[2] ?? 'dist'), 'manifest.json'), `${JSON.stringify({ sources }, null, 1)}\n`);
