// Every view of a real server, in both themes under axe: what a change has to pass. `npm run browser` has all tests.
import { rmSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findings, launch, run, untroubled, watched } from './browser';
import { begin, ended, folder, processes, tapedb } from './server';

let browser: Browser;

/** The other theme changes colours alone: only their contrast is analysed again. */
async function inBothThemes(page: Page, name: string): Promise<void> {
  await page.emulateMedia({ colorScheme: 'dark' });
  expect(await findings(page, `dark ${name}`)).toEqual([]);
  await page.emulateMedia({ colorScheme: 'light' });
  expect(await findings(page, `light ${name}`, ['color-contrast'])).toEqual([]);
}

describe.skipIf(!tapedb)('the console of a real server, in short', () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(async () => {
    await browser?.close();
    for (const process of processes.splice(0)) await ended(process, 'SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  it('shows every view without serious findings of axe, runs a query, and misses nothing', async () => {
    const ready = await begin(['demo', '--serve', '--http', '127.0.0.1:0', '--messages', '50k', '--live-rate', '500', '--db', 'demo']);
    const url = `http://${ready.http}`;
    const opened = await watched(browser);
    const { page } = opened;
    const { symbols } = (await (await page.request.get(`${url}/api/streams/feed/symbols`)).json()) as { symbols: string[] };
    const views: [path: string, ready: string][] = [
      ['/streams', '.rows .row'],
      ['/streams/feed', '.type'],
      ['/messages/trades?mode=history', '.rows .row'],
      ['/messages/feed', '.rows .row'],
      [`/market/feed?symbol=${symbols[1]}`, '.levels tr.bid'],
      ['/sql', 'main'],
      ['/operations', '.tall tbody tr'],
    ];
    for (const [path, ready] of views) {
      await page.goto(url + path);
      await page.locator(ready).first().waitFor();
      if (path.startsWith('/messages/trades')) await page.locator('.rows .row').nth(4).click();
      if (path === '/sql' && ((await (await page.request.get(`${url}/api/session`)).json()) as { sql: boolean }).sql) {
        await page.locator('.side details').first().waitFor();
        await run(page, 'SELECT time, symbol, price, size FROM trades."Trade" ORDER BY time DESC LIMIT 500');
        await page.locator('.rows .row').first().waitFor();
      }
      await inBothThemes(page, path);
    }
    await untroubled(opened);
    // Compilers may run beside it.
  }, 300_000);
});
