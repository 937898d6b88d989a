// The command, as a server of the page.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { executablePath, ROOT } from './browser';

/** The command: TAPEDB, or the newest that was built here with a console. */
function command(): string | null {
  const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, '../target');
  const built = ['release', 'demo', 'debug'].map((profile) => join(target, profile, 'tapedb')).filter(existsSync);
  built.sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
  const found = process.env.TAPEDB ?? built[0];
  if (!found) return null;
  // Without the feature `web` it says so.
  try {
    execFileSync(found, ['demo', '--serve', '--http', '192.0.2.1:1'], { stdio: 'pipe' });
  } catch (error) {
    const text = String((error as { stderr?: Buffer }).stderr ?? '');
    return text.includes('cannot listen on') ? found : null;
  }
  return found;
}

export const tapedb = executablePath ? command() : null;
if (executablePath && !tapedb) console.warn('SKIPPED: the console of a real server; build one with it (cargo build -p tapedb-cli), or name it: TAPEDB=PATH');

/** Where it runs. */
export const folder = mkdtempSync(join(tmpdir(), 'tapedb-console-'));
/** What was started. */
export const processes: ChildProcess[] = [];

export interface Ready {
  http: string;
  tcp: string;
  process: ChildProcess;
}

/** Starts the command, and waits for the line with its addresses. */
export function begin(args: string[]): Promise<Ready> {
  const process = spawn(tapedb!, ['--json', ...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  processes.push(process);
  let log = '';
  process.stderr!.on('data', (data: Buffer) => (log += data));
  return new Promise((resolve, reject) => {
    let text = '';
    process.stdout!.on('data', (data: Buffer) => {
      text += data;
      if (text.includes('\n')) resolve({ ...(JSON.parse(text.slice(0, text.indexOf('\n'))) as Ready), process });
    });
    process.on('exit', (code) => reject(new Error(`it ended with ${code}: ${log}`)));
  });
}

export const ended = (process: ChildProcess, signal: NodeJS.Signals): Promise<number | null> =>
  new Promise((resolve) => {
    if (process.exitCode !== null || process.signalCode !== null) return resolve(process.exitCode);
    process.on('exit', (code) => resolve(code));
    process.kill(signal);
  });
