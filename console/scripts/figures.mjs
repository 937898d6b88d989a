// The figures of the console: TAPEDB=COMMAND node scripts/figures.mjs [ROUNDS] [SECONDS] [RATE]
//
// `tapedb demo --serve` generates RATE messages a second. In turn without tabs and with ten: bytes and frames of a tab, processor time of the
// server, latency of its delivery to a native reader. Then a page in Chromium (frames a second of its live tail and of its market view), books at
// random instants, and the depth of an hour. One JSON object a line; medians, least and greatest.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { openTab, status } from './tab.mjs';

const [rounds = '5', seconds = '8', rate = '50k', messages = '3M'] = process.argv.slice(2);
const TABS = 10;
const DIST = fileURLToPath(new URL('../dist', import.meta.url));
const CHROMIUM = [process.env.TAPEDB_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

function print(name, values, unit) {
  const sorted = [...values].sort((a, b) => a - b);
  const round = (value) => Number(value.toPrecision(4));
  console.log(JSON.stringify({ case: `console.${name}`, value: round(sorted[sorted.length >> 1]), min: round(sorted[0]), max: round(sorted.at(-1)), n: sorted.length, unit }));
}

function sizes() {
  const page = readFileSync(join(DIST, 'index.html'), 'utf8');
  const all = ['index.html', 'icon.svg', ...readdirSync(join(DIST, 'assets')).map((name) => `assets/${name}`)];
  const first = ['index.html', 'icon.svg', ...[...page.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => match[1])];
  const sum = (names) => names.reduce((total, name) => total + gzipSync(readFileSync(join(DIST, name)), { level: 9 }).length, 0);
  print('assets.first', [sum(first) / 1024], 'KiB');
  print('assets.all', [sum(all) / 1024], 'KiB');
}

/** Upper ends of the server's ranges of latencies: three in a decade, from a microsecond on. */
const ENDS = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap((decade) => [1, 2.5, 5].map((step) => (decade * step) / 1e6));

/** A quantile of what came between two counts, in microseconds: within a range, as if its values were equally far from each other. */
function quantile(before, after, share) {
  const count = ({ ranges }, end) => ranges.find(([bound]) => Math.abs(bound / end - 1) < 1e-6)?.[1] ?? 0;
  const counts = ENDS.map((end) => [end, count(after, end) - count(before, end)]);
  const all = counts.reduce((sum, [, more]) => sum + more, 0);
  let [passed, low] = [0, 0];
  for (const [end, more] of counts) {
    if (more > 0 && passed + more >= share * all) return 1e6 * (low + ((end - low) * (share * all - passed)) / more);
    [passed, low] = [passed + more, end];
  }
  return 1e6 * low;
}

async function during(address, work) {
  const before = await status(address);
  const began = performance.now();
  await work();
  const passed = (performance.now() - began) / 1000;
  const after = await status(address);
  return {
    seconds: passed,
    core: (100 * (after.cpu - before.cpu)) / passed,
    appended: (after.appended - before.appended) / passed,
    p50: quantile(before.delivery, after.delivery, 0.5),
    p99: quantile(before.delivery, after.delivery, 0.99),
  };
}

async function tabs(address) {
  const rows = { none: [], tabs: [] };
  const each = { bytes: [], frames: [] };
  for (let round = 0; round < Number(rounds); round += 1) {
    rows.none.push(await during(address, () => sleep(1000 * Number(seconds))));
    const opened = Array.from({ length: TABS }, () => openTab(address, 'feed'));
    await sleep(1500);
    for (const tab of opened) [tab.bytes, tab.frames] = [0, 0];
    const row = await during(address, () => sleep(1000 * Number(seconds)));
    rows.tabs.push(row);
    for (const key of ['bytes', 'frames']) each[key].push(opened.reduce((sum, tab) => sum + tab[key], 0) / TABS / row.seconds);
    for (const tab of opened) tab.socket.destroy();
    await sleep(500);
  }
  const all = (name, key) => rows[name].map((row) => row[key]);
  print('appended', [...all('none', 'appended'), ...all('tabs', 'appended')], 'messages/s');
  print('tab.bytes', each.bytes.map((bytes) => bytes / 1000), 'KB/s');
  print('tab.frames', each.frames, 'frames/s');
  print('server.without', all('none', 'core'), '% of a core');
  print('server.with', all('tabs', 'core'), '% of a core');
  print('server.tabs', rows.tabs.map((row, at) => row.core - rows.none[at].core), '% of a core');
  for (const key of ['p50', 'p99']) {
    print(`delivery.${key}.without`, all('none', key), 'µs');
    print(`delivery.${key}.with`, all('tabs', key), 'µs');
  }
}

async function page(address, symbol) {
  const executablePath = CHROMIUM.find((path) => path && existsSync(path));
  if (!executablePath) return console.error('SKIPPED: frames of a page; install chromium, or name one: TAPEDB_CHROMIUM=PATH');
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    for (const [name, path] of [
      ['tail', '/messages/feed'],
      ['market', `/market/feed?symbol=${encodeURIComponent(symbol)}`],
    ]) {
      const opened = await browser.newPage({ viewport: { width: 1440, height: 860 } });
      await opened.goto(`http://${address}${path}`);
      await sleep(3000);
      const rates = [];
      for (let round = 0; round < Number(rounds); round += 1) {
        rates.push(
          await opened.evaluate(
            () =>
              new Promise((resolve) => {
                const began = performance.now();
                let frames = 0;
                const frame = (now) => {
                  frames += 1;
                  if (now - began < 3000) requestAnimationFrame(frame);
                  else resolve((1000 * frames) / (now - began));
                };
                requestAnimationFrame(frame);
              }),
          ),
        );
      }
      print(`page.${name}`, rates, 'frames/s');
      await opened.close();
    }
  } finally {
    await browser.close();
  }
}

async function timed(url) {
  const began = performance.now();
  const answer = await fetch(url);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url}: ${text}`);
  return performance.now() - began;
}

async function instants(address, symbol) {
  const { first_time: first, last_time: last } = await (await fetch(`http://${address}/api/streams/feed`)).json();
  const [from, to] = [BigInt(first), BigInt(last)];
  const books = [];
  for (let at = 0; at < 4 * Number(rounds); at += 1) {
    const instant = from + ((to - from) * BigInt(Math.floor(Math.random() * 1e6))) / 1_000_000n;
    books.push(await timed(`http://${address}/api/streams/feed/book?symbol=${encodeURIComponent(symbol)}&at=${instant}&depth=20`));
  }
  print('book', books, 'ms');
  const hour = 3_600_000_000_000n;
  const depths = [];
  for (let round = 0; round < Number(rounds); round += 1) {
    depths.push(await timed(`http://${address}/api/streams/feed/heatmap?symbol=${encodeURIComponent(symbol)}&from=${from + 1_800_000_000_000n}&to=${from + 1_800_000_000_000n + hour}&columns=600&rows=200`));
  }
  print('heatmap.hour', depths, 'ms');
}

sizes();
const folder = mkdtempSync(join(tmpdir(), 'tapedb-figures-'));
const command = process.env.TAPEDB ?? 'tapedb';
const server = spawn(command, ['--json', 'demo', '--serve', '--http', '127.0.0.1:0', '--live-rate', rate, '--messages', messages, '--db', join(folder, 'db')], { stdio: ['ignore', 'pipe', 'inherit'] });
try {
  const address = await new Promise((resolve, reject) => {
    let text = '';
    server.stdout.on('data', (data) => {
      text += data;
      if (text.includes('\n')) resolve(JSON.parse(text.slice(0, text.indexOf('\n'))).http);
    });
    server.on('exit', (code) => reject(new Error(`${command} ended with ${code}`)));
  });
  await sleep(3000);
  const { symbols } = await (await fetch(`http://${address}/api/streams/feed/symbols`)).json();
  await tabs(address);
  await instants(address, symbols[1]);
  await page(address, symbols[1]);
} finally {
  server.kill('SIGTERM');
  rmSync(folder, { recursive: true, force: true });
}
