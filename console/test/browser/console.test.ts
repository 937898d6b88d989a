// The built page in a real Chromium, against generated data, under the policy that the server sends.
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startMock, type Mock, type Scenario } from '../mock';
import { CORPUS } from '../corpus';
import { executablePath, findings, launch, ROOT, run, SHOTS, untroubled, watched } from './browser';

const MARKET = '/market/feed?symbol=AAPL&from=1704208000000000000&to=1704211000000000000&at=1704209200000000000';
const VIEWS: [name: string, path: string, ready: string][] = [
  ['streams', '/streams', '.rows .row'],
  ['stream', '/streams/feed', '.type'],
  ['messages', '/messages/feed?mode=history', '.rows .row'],
  ['tail', '/messages/feed', '.rows .row'],
  ['market', MARKET, '.levels tr.bid'],
  ['sql', '/sql?q=SELECT%20*%20FROM%20feed.Trade%20LIMIT%202000', '.side details'],
  ['operations', '/operations', '.stats'],
];

let browser: Browser;
const open: { close(): Promise<unknown> }[] = [];

interface Opened {
  page: Page;
  mock: Mock;
  context: BrowserContext;
  /** What the browser complained about. */
  trouble: string[];
}

async function start(scenario: Partial<Scenario> = {}, options: Parameters<Browser['newContext']>[0] = {}): Promise<Opened> {
  const mock = await startMock(join(ROOT, 'dist'), scenario);
  const { page, context, trouble } = await watched(browser, options);
  open.push(context, mock);
  return { page, mock, context, trouble };
}

async function show({ page, mock }: Opened, path: string, ready: string): Promise<void> {
  await page.goto(mock.url + path);
  await page.locator(ready).first().waitFor();
}

describe.skipIf(!executablePath)('the console in a browser', () => {
  beforeAll(async () => {
    mkdirSync(SHOTS, { recursive: true });
    browser = await launch();
  });
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await one.close().catch(() => {});
  });
  afterAll(() => browser?.close());

  for (const theme of ['dark', 'light'] as const) {
    it(`has every view in ${theme}, without serious findings of axe`, async () => {
      const opened = await start({}, { colorScheme: theme });
      for (const [name, path, ready] of VIEWS) {
        await show(opened, path, ready);
        const { page } = opened;
        if (name === 'messages') await page.locator('.rows .row').nth(9).click();
        if (name === 'sql') {
          await page.getByRole('button', { name: 'Run', exact: true }).click();
          await page.locator('.result .rows .row').first().waitFor();
          await page.locator('.side summary').first().click();
        }
        // Sparklines and charts fill.
        await page.waitForTimeout(name === 'streams' || name === 'operations' ? 8_000 : 900);
        await page.screenshot({ path: join(SHOTS, `${name}-${theme}.png`) });
        expect(await findings(page, name)).toEqual([]);
      }
      await untroubled(opened);
    });
  }

  it('shows hostile texts as texts, in every view', async () => {
    const opened = await start({ evil: true });
    const { page } = opened;
    const name = encodeURIComponent(CORPUS[0]!);
    const symbol = encodeURIComponent(CORPUS[1]!);
    const places: [string, string][] = [
      ['/streams', '.rows .row'],
      [`/streams/${name}`, '.type'],
      [`/messages/${name}?mode=history`, '.rows .row'],
      [`/messages/${name}`, '.rows .row'],
      [`/messages/${name}?symbols=${symbol}&find=${symbol}`, 'main'],
      [`/market/${name}?symbol=${symbol}&from=1704208000000000000&to=1704211000000000000&at=1704209200000000000`, '.levels tr.bid'],
      [`/sql?q=${symbol}`, '.side details'],
      ['/operations', '.tall tr'],
      [`/streams/${symbol}%2F..%2F..?sort=${symbol}&find=${symbol}`, 'main'],
    ];
    for (const [path, ready] of places) {
      await show(opened, path, ready);
      await page.waitForTimeout(400);
      if (path.includes('mode=history')) {
        await page.locator('.rows .row').nth(1).click();
        await page.locator('.detail').waitFor();
      }
      if (path.startsWith('/sql')) {
        for (const sql of ['SELECT 1', 'SELECT fail', 'SELECT table']) {
          await run(page, sql);
          await page.waitForTimeout(400);
        }
        await page.keyboard.insertText(' SELECT ');
        await page.keyboard.press('Control+Space');
        await page.waitForTimeout(300);
      }
      expect(await page.locator('main img, iframe, object, embed, main script, [onerror], [onload]').count(), path).toBe(0);
      await untroubled({ ...opened, trouble: opened.trouble.filter((text) => !/status of 4\d\d/.test(text)) });
    }
  });

  it('is usable with 5,000 streams', async () => {
    const opened = await start({ streams: 5_000 });
    const { page } = opened;
    await show(opened, '/streams', '.rows .row');
    await page.getByText('5 000 streams').first().waitFor();
    expect(await page.locator('.rows .row').count()).toBeLessThan(60);
    await page.getByRole('button', { name: 'Lag' }).click();
    expect(new URL(page.url()).search).toBe('?sort=lag.down');
    expect(await page.locator('[aria-sort=descending]').textContent()).toContain('Lag');
    await page.getByLabel('Search streams').fill('model.4999 trade');
    await page.getByText('1 of 5 000 streams').waitFor();
    await page.getByLabel('Search streams').fill('');
    await page.locator('[role=grid]').focus();
    await page.keyboard.press('End');
    await page.locator('[data-row="4999"]').waitFor();
    await page.keyboard.press('Enter');
    await page.locator('.type').first().waitFor();
    expect(page.url()).toMatch(/\/streams\/./);
    await untroubled(opened);
  });

  it('tails with pause, filter and resume, through one WebSocket with acknowledged frames', async () => {
    const opened = await start({ rate: 5_000 });
    const { page, mock } = opened;
    const sockets: string[] = [];
    page.on('websocket', (socket) => sockets.push(socket.url()));
    await show(opened, '/messages/feed', '.rows .row');
    await page.getByText(/not shown: more arrive/).waitFor();
    await page.keyboard.press('Space');
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    const before = await page.locator('.foot').textContent();
    await page.waitForTimeout(500);
    expect(await page.locator('.foot').textContent()).toBe(before);
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByLabel('Filter what is shown').fill('trade');
    await page.waitForTimeout(500);
    const types = await page.locator('.rows .row .cell:nth-child(3)').allTextContents();
    expect(new Set(types)).toEqual(new Set(['Trade']));
    expect(mock.sent.filter(({ op }) => op === 'ack').length).toBeGreaterThan(5);
    expect(mock.sent.map(({ op }) => op)).toEqual(expect.arrayContaining(['subscribe', 'pause', 'resume']));
    await page.getByRole('link', { name: 'Operations' }).click();
    await page.locator('.stats').waitFor();
    expect(sockets.length).toBe(1);
    await untroubled(opened);
  });

  it('scrubs history, and gives the command of what it shows', async () => {
    const opened = await start({}, { permissions: ['clipboard-read', 'clipboard-write'] });
    const { page } = opened;
    await show(opened, '/messages/feed?mode=history', '.rows .row');
    const bar = page.getByRole('slider', { name: /Time/ });
    const box = (await bar.boundingBox())!;
    await page.mouse.click(box.x + box.width / 2, box.y + 20);
    await page.waitForURL(/at=17042/);
    await page.getByText('2024-01-02 15:30:0').first().waitFor();
    await page.mouse.move(box.x + box.width * 0.25, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 20, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL(/from=17042\d+&to=17042\d+/);
    await page.getByLabel('Symbols').fill('AAPL');
    await page.keyboard.press('Enter');
    await page.waitForURL(/symbols=AAPL/);
    await page.locator('.rows .row').first().waitFor();
    expect(new Set(await page.locator('.rows .row .cell:nth-child(2)').allTextContents())).toEqual(new Set(['AAPL']));
    await page.getByRole('button', { name: /^Copy/ }).click();
    await page.getByRole('button', { name: 'Command' }).click();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    expect(command).toMatch(/^tapedb read --db tape:\/\/127\.0\.0\.1 --from 2024-01-02T15:0\S+Z --to 2024-01-02T15:\S+Z --symbols AAPL feed$/);
    const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save CSV' }).click()]);
    expect(saved.suggestedFilename()).toBe('feed.csv');
    expect(readFileSync(await saved.path(), 'utf8')).toMatch(/^time,symbol,type,sequence,.*\n17042\d{14},AAPL,/);
    // A long list loads on while it is scrolled.
    await page.locator('.list [role=grid]').evaluate((body) => body.scrollTo(0, body.scrollHeight));
    await page.getByText('600 shown').waitFor();
    await untroubled(opened);
  });

  it('plays the market from a stored instant', async () => {
    const opened = await start();
    const { page, mock } = opened;
    await show(opened, MARKET, '.levels tr.bid');
    await page.locator('.u-over').first().waitFor();
    const first = await page.locator('.ladder .top').textContent();
    expect(first).toContain('2024-01-02 15:26:40');
    await page.getByLabel('Speed').selectOption('10');
    await page.getByRole('button', { name: 'Play from here' }).click();
    await page.getByText('playing 10×').waitFor();
    await page.waitForFunction((text) => document.querySelector('.ladder .top')?.textContent !== text, first);
    expect(mock.sent).toContainEqual(expect.objectContaining({ channel: 'play', symbol: 'AAPL', speed: 10, at: '1704209200000000000' }));
    await page.keyboard.press('p');
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    await page.keyboard.press('x');
    await page.getByRole('button', { name: 'Play from here' }).waitFor();
    // Zooming asks for finer data, down to raw messages.
    for (let times = 0; times < 5; times++) await page.keyboard.press('+');
    await page.waitForTimeout(500);
    expect(mock.requests.filter((request) => request.includes('/chart?')).length).toBeGreaterThan(1);
    await page.getByText('As a table').click();
    expect(await page.locator('.table tbody tr').count()).toBeGreaterThan(3);
    // Keys move the moment in the heatmap.
    const at = new URL(page.url()).searchParams.get('at');
    await page.getByRole('slider', { name: 'Depth over time' }).focus();
    await page.keyboard.press('ArrowLeft');
    await page.waitForFunction((at) => new URL(location.href).searchParams.get('at') !== at, at);
    await untroubled(opened);
  });

  it('runs SQL: completes, cancels, shows errors, a huge result, a chart', async () => {
    const opened = await start();
    const { page, mock } = opened;
    await show(opened, '/sql', '.side details');
    await run(page, 'SELECT sleep');
    await page.getByRole('button', { name: 'Cancel', exact: true }).first().click();
    await page.getByText('The query was cancelled.').waitFor();
    expect(mock.requests.some((request) => request.startsWith('DELETE /api/queries/'))).toBe(true);
    await run(page, 'SELECT fail');
    await page.getByText('did you mean "price"?').waitFor();
    await page.getByLabel('Rows at most').selectOption('100000');
    await run(page, 'SELECT huge FROM feed.Trade');
    await page.getByText('100 000 rows').waitFor();
    await page.getByText('more exist').waitFor();
    expect(await page.locator('.result .rows .row').count()).toBeLessThan(80);
    expect(await page.locator('.result .rows .row').first().textContent()).toContain('9007199254740993');
    expect(await page.locator('.result .rows .row').first().textContent()).toMatch(/2024-01-02 14:30:00\.00\d{7}/);
    await page.getByRole('button', { name: 'Chart' }).click();
    await page.locator('.plot canvas').waitFor();
    await page.getByRole('button', { name: 'Save query …' }).click();
    await page.getByLabel('Name').fill('my query');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'my query', exact: true }).waitFor();
    await run(page, 'SELECT nothing');
    await page.getByRole('button', { name: 'Chart' }).click();
    await page.getByText('No rows').waitFor();
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+a');
    await page.keyboard.type('SELECT * FROM feed.Tr');
    await page.locator('.cm-tooltip-autocomplete').getByText('Trade').first().waitFor();
    await untroubled({ ...opened, trouble: opened.trouble.filter((text) => !/status of 4\d\d/.test(text)) });
  });

  it('closes connections and keeps users', async () => {
    const opened = await start();
    const { page, mock } = opened;
    await show(opened, '/operations', '.tall tr');
    await page.getByRole('button', { name: /^Close connection 114/ }).click();
    await page.getByRole('button', { name: 'Close connection', exact: true }).click();
    await page.getByText('Connection 114 is closed.').waitFor();
    expect(mock.requests).toContain('DELETE /api/connections/114');
    await page.getByRole('button', { name: 'Add user' }).click();
    await page.getByLabel('Name').fill('new');
    await page.getByLabel('Password').fill('secret');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('User new is saved.').waitFor();
    await untroubled(opened);
  });

  it('imports a file that is dropped, after it has shown what would be written', async () => {
    for (const evil of [false, true]) {
      const opened = await start({ evil });
      const { page, mock } = opened;
      await show(opened, '/streams', '.rows .row');
      const name = evil ? `${CORPUS[0]}.csv` : 'ticks.csv';
      const data = await page.evaluateHandle((name) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File(['time,symbol,price\n'], name));
        return transfer;
      }, name);
      await page.dispatchEvent('main', 'drop', { dataTransfer: data });
      await page.getByRole('dialog', { name: 'Import a file' }).getByText(name).waitFor();
      if (evil) await page.getByLabel('Stream', { exact: true }).fill('x');
      await page.getByRole('button', { name: /^Upload/ }).click();
      await page.getByLabel('What would be written').getByText(evil ? 'window.__xss' : 'message Tick {').waitFor();
      expect(await findings(page, 'import')).toEqual([]);
      await page.getByRole('button', { name: `Import into ${evil ? 'x' : 'ticks'}` }).click();
      await page.getByRole('link', { name: 'Show the messages' }).waitFor();
      expect(mock.requests.some((request) => request.startsWith(`POST /api/imports?stream=${evil ? 'x' : 'ticks'}&name=`))).toBe(true);
      await untroubled(opened);
    }
  });

  it('has states for no streams, no right, a server that is gone, and one that needs a login', async () => {
    const empty = await start({ streams: 0 });
    await show(empty, '/streams', 'text=No streams yet');
    const nothing = await start({ empty: true });
    for (const [path, text] of [['/messages/feed', 'No messages yet'], ['/messages/feed?mode=history', 'No messages here'], ['/market/feed?symbol=AAPL', 'The stream is empty']]) await show(nothing, path!, `text=${text}`);
    const refused = await start({ forbidden: true });
    await show(refused, '/streams', 'text=No right to see this');
    await refused.page.screenshot({ path: join(SHOTS, 'no-right.png') });
    await show(refused, '/operations', 'text=No right to see this');

    const gone = await start();
    await show(gone, '/streams', '.rows .row');
    await gone.mock.close();
    await gone.page.getByText('What is shown may be old').waitFor();
    expect(await gone.page.locator('.rows .row').count()).toBeGreaterThan(5);
    await gone.page.screenshot({ path: join(SHOTS, 'gone.png') });

    const login = await start({ login: true });
    await show(login, '/operations', 'text=Password');
    await login.page.screenshot({ path: join(SHOTS, 'login.png') });
    await login.page.getByLabel('User').fill('ann');
    await login.page.getByLabel('Password').fill('wrong');
    await login.page.keyboard.press('Enter');
    await login.page.getByText('User and password do not match.').waitFor();
    expect(await findings(login.page, 'login')).toEqual([]);
    await login.page.getByLabel('Password').fill('secret');
    await login.page.keyboard.press('Enter');
    await login.page.locator('.stats').waitFor();
    expect(login.page.url()).toMatch(/\/operations$/);
    await login.page.getByRole('button', { name: 'Log out' }).click();
    await login.page.getByLabel('Password').waitFor();
  });

  it('keeps the page when an answer is not what it expects', async () => {
    const opened = await start();
    const { page, mock } = opened;
    await page.route('**/api/users', (route) => route.fulfill({ json: { users: [{ name: 'x', rights: [{ streams: '*', may: 7 }] }] } }));
    await page.route('**/api/connections', (route) => route.fulfill({ body: '{', contentType: 'application/json' }));
    await page.goto(`${mock.url}/operations`);
    await page.getByText('This view has failed').waitFor();
    await page.getByRole('link', { name: 'Streams', exact: true }).click();
    await page.locator('.rows .row').first().waitFor();
  });

  it('asks again for what it did not get while the server was gone', async () => {
    const opened = await start();
    const { page, mock } = opened;
    let gone = true;
    await page.route('**/api/streams/feed', (route) => (gone ? route.abort('connectionrefused') : route.continue()));
    await page.route('**/api/session', (route) => (gone ? route.abort('connectionrefused') : route.continue()));
    await page.goto(`${mock.url}/streams/feed`);
    await page.getByText('The server does not answer').first().waitFor();
    await page.unroute('**/api/session');
    await page.getByText('The console tries again every three seconds').waitFor();
    gone = false;
    await page.locator('.type').first().waitFor();
  });

  it('connects again after the connection was lost', async () => {
    const opened = await start();
    await show(opened, '/streams', '.rows .row');
    await opened.page.getByText('live', { exact: true }).waitFor();
    opened.mock.drop();
    await opened.page.getByText('connection lost').waitFor();
    await opened.page.getByText('live', { exact: true }).waitFor();
    expect(opened.mock.sent.filter(({ op }) => op === 'subscribe').length).toBe(2);
  });

  it('asks for a login when the session has ended', async () => {
    const opened = await start({ login: true });
    const { page, mock } = opened;
    await show(opened, '/streams', 'text=Password');
    await page.getByLabel('User').fill('ann');
    await page.getByLabel('Password').fill('secret');
    await page.keyboard.press('Enter');
    await page.locator('.rows .row').first().waitFor();
    mock.end();
    await page.getByLabel('Password').waitFor();
  });

  it('is usable with keys, on a narrow screen, and enlarged twice', async () => {
    const opened = await start({}, { viewport: { width: 375, height: 720 }, reducedMotion: 'reduce' });
    const { page } = opened;
    for (const [name, path, ready] of VIEWS) {
      await show(opened, path, ready);
      await page.waitForTimeout(300);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(wide, `${name} is wider than the screen`).toBeLessThanOrEqual(0);
      await page.screenshot({ path: join(SHOTS, `${name}-narrow.png`) });
    }
    // At 200 % a window of 1280 by 800 has 640 by 400 pixels of the page.
    await page.setViewportSize({ width: 640, height: 400 });
    for (const [name, path, ready] of VIEWS) {
      await show(opened, path, ready);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(wide, `${name} at 200 %`).toBeLessThanOrEqual(0);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    await page.locator('.rows .row').first().waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.screenshot({ path: join(SHOTS, 'keys.png') });
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    expect(await page.evaluate(() => document.activeElement?.getAttribute('aria-label'))).toBe('Search streams');
    await page.keyboard.press('Tab');
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement!).outlineStyle);
    expect(outline).toBe('solid');
    await page.getByLabel('Time zone').selectOption('America/New_York');
    await page.getByText('2024-01-02 11:29').first().waitFor();
    await untroubled(opened);
  });
});
