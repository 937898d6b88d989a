// A real Chromium, and what every page is held to.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import AxeBuilder from '@axe-core/playwright';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { expect } from 'vitest';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Where screenshots go. */
export const SHOTS = process.env.TAPEDB_SHOTS ?? join(ROOT, 'test-results');
const PATHS = [process.env.TAPEDB_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
export const executablePath = PATHS.find((path) => path && existsSync(path));
if (!executablePath) console.warn('SKIPPED: the browser test; install chromium (apt-get install chromium), or name one: TAPEDB_CHROMIUM=PATH');

export const launch = (): Promise<Browser> => chromium.launch({ executablePath: executablePath!, args: ['--no-sandbox', '--disable-gpu'] });

export interface Watched {
  page: Page;
  context: BrowserContext;
  /** What the browser complained about, and requests to other origins. */
  trouble: string[];
}

/** A page whose complaints are kept. */
export async function watched(browser: Browser, options: Parameters<Browser['newContext']>[0] = {}): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 860 }, colorScheme: 'dark', ...options });
  const page = await context.newPage();
  const trouble: string[] = [];
  page.on('console', (message) => message.type() === 'error' && trouble.push(message.text()));
  page.on('pageerror', (error) => trouble.push(String(error)));
  page.on('request', (request) => {
    if (!/^(http:\/\/127\.0\.0\.1:\d+\/|blob:|data:)/.test(request.url())) trouble.push(`request to ${request.url()}`);
  });
  await page.addInitScript(() => {
    const found: string[] = [];
    Object.assign(window, { __violations: found });
    document.addEventListener('securitypolicyviolation', (event) => found.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}:${event.columnNumber}`));
  });
  return { page, context, trouble };
}

/** Nothing was complained about, and no text became markup. */
export async function untroubled({ page, trouble }: Pick<Watched, 'page' | 'trouble'>): Promise<void> {
  expect(await page.evaluate(() => (window as unknown as { __violations: string[] }).__violations)).toEqual([]);
  expect(await page.evaluate(() => '__xss' in window)).toBe(false);
  expect(trouble).toEqual([]);
}

/** The serious findings of axe, by all of its rules or some. */
export async function findings(page: Page, name: string, rules?: string[]): Promise<string[]> {
  const axe = new AxeBuilder({ page });
  const { violations } = await (rules ? axe.withRules(rules) : axe).analyze();
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  return serious.map(({ id, nodes }) => `${name}: ${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`).slice(0, 3).join(' | ')}`);
}

/** Types a query, and runs it. */
export async function run(page: Page, sql: string): Promise<void> {
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(sql);
  await page.keyboard.press('Control+Enter');
}
