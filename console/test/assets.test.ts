// @vitest-environment node
// What is committed in dist/: its sizes, and what it must not contain.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const DIST = join(ROOT, 'dist');
const FIRST_MAX = 120 * 1024;
const ALL_MAX = 450 * 1024;

const files = ['index.html', 'icon.svg', ...readdirSync(join(DIST, 'assets')).map((name) => `assets/${name}`)];
const size = (name: string): number => gzipSync(readFileSync(join(DIST, name)), { level: 9 }).length;
const sum = (names: string[]): number => names.reduce((total, name) => total + size(name), 0);

describe('the assets', () => {
  it('are small enough', () => {
    const page = readFileSync(join(DIST, 'index.html'), 'utf8');
    const first = ['index.html', 'icon.svg', ...[...page.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => match[1]!)];
    expect(first.length).toBeGreaterThanOrEqual(4);
    console.log(`first screen ${sum(first)} bytes, all ${sum(files)} bytes, compressed`);
    expect(sum(first)).toBeLessThanOrEqual(FIRST_MAX);
    expect(sum(files)).toBeLessThanOrEqual(ALL_MAX);
  });

  it('name no other origin that a page would load from', () => {
    for (const name of files) {
      const text = readFileSync(join(DIST, name), 'utf8');
      // Names of XML are no addresses; others in texts of libraries are links to their documentation.
      const found = [...text.matchAll(/(?:src|href|url\(|import\(|fetch\(|from)\s*[=(]?\s*["'`]?(https?:)?\/\/[a-z]/gi)].map((match) => match[0]);
      expect(found, name).toEqual([]);
    }
    const page = readFileSync(join(DIST, 'index.html'), 'utf8');
    expect(page).not.toMatch(/<style|style=|<script(?![^>]*src=)|\son\w+=/);
  });

  it('were made from these sources', () => {
    const { sources } = JSON.parse(readFileSync(join(DIST, 'manifest.json'), 'utf8')) as { sources: Record<string, string> };
    expect(Object.keys(sources)).toEqual([...Object.keys(sources)].sort());
    for (const [path, hash] of Object.entries(sources)) {
      expect(createHash('sha256').update(readFileSync(join(ROOT, path))).digest('hex'), `${path} changed: make console`).toBe(hash);
    }
  });

  it('are made without markup from texts', () => {
    const below = (folder: string): string[] =>
      readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? below(`${folder}/${entry.name}`) : [`${folder}/${entry.name}`]));
    for (const path of below('src')) {
      expect(readFileSync(join(ROOT, path), 'utf8'), path).not.toMatch(/\{@html|innerHTML|outerHTML|insertAdjacentHTML|document\.write|new Function|\beval\(|srcdoc/);
    }
  });

  it('have a lock file that names no host', () => {
    expect(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')).not.toMatch(/"resolved"|https?:\/\/(?!(opencollective|github|www\.patreon|tidelift|paulmillr|dotenvx|feross|eslint)\.?)[^"]*(\.tgz|registry)/);
  });
});
