// The same selection in other forms: JSON, CSV, the command line, Python, SQL.

import { iso } from './time';
import type { Json, Message } from './types';

export interface Selection {
  stream: string;
  symbols: string[];
  types: string[];
  from: bigint | null;
  to: bigint | null;
  last?: number | undefined;
  live?: boolean;
}

/** A word of a shell: in quotes unless it is plain. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A value of an option that begins with `-` would be taken for an option. */
const option = (name: string, value: string): string => (value.startsWith('-') ? `--${name}=${shellWord(value)}` : `--${name} ${shellWord(value)}`);

export function serverUrl(host: string, tls: boolean): string {
  return `${tls ? 'tapes' : 'tape'}://${host}`;
}

export function command(selection: Selection, db: string): string {
  const { stream, symbols, types, from, to, last, live } = selection;
  const words = ['tapedb', live ? 'tail' : 'read', '--db', shellWord(db)];
  if (from !== null && !live) words.push(option('from', iso(from)));
  if (to !== null && !live) words.push(option('to', iso(to)));
  if (symbols.length) words.push(option('symbols', symbols.join(',')));
  if (types.length) words.push(option('types', types.join(',')));
  if (last && !live) words.push(`--last ${last}`);
  words.push(stream.startsWith('-') ? `-- ${shellWord(stream)}` : shellWord(stream));
  return words.join(' ');
}

/** A text as a literal of Python. */
export const pythonText = (text: string): string => asciiJson(text);

// JSON's escapes are Python's, but for characters of two units: these stay as they are.
function asciiJson(text: string): string {
  return JSON.stringify(text).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029').replaceAll('\x7f', '\\x7f');
}

const pythonList = (texts: string[]): string => `[${texts.map(pythonText).join(', ')}]`;

export function python(selection: Selection, db: string): string {
  const { stream, symbols, types, from, to, last, live } = selection;
  const parts: string[] = [];
  if (symbols.length) parts.push(`symbols=${pythonList(symbols)}`);
  if (types.length) parts.push(`types=${pythonList(types)}`);
  if (from !== null && !live) parts.push(`start=${pythonText(iso(from))}`);
  if (to !== null && !live) parts.push(`end=${pythonText(iso(to))}`);
  if (live) parts.push('live=True', 'history=False');
  if (last && !live) parts.push(`last=${last}`);
  return `messages = tapedb.open(${pythonText(db)})[${pythonText(stream)}].cursor(${parts.join(', ')})`;
}

export function bookCommand(stream: string, symbol: string, at: bigint | null, depth: number, db: string): string {
  const words = ['tapedb', 'book', '--db', shellWord(db)];
  if (at !== null) words.push(option('at', iso(at)));
  words.push(`--depth ${depth}`, ...[stream, symbol].map(shellWord));
  return words.join(' ');
}

export function json(messages: Message[]): string {
  return messages.map((message) => JSON.stringify(message)).join('\n');
}

/** A field of CSV. Texts that a spreadsheet would take for a formula get an apostrophe. */
export function csvField(value: unknown): string {
  if (value === null || value === undefined) return '';
  let text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  if (/^[=+@\t\r]/.test(text) || /^-(?!\d+(\.\d+)?(e[+-]?\d+)?$)/i.test(text)) text = `'${text}`;
  return /[",\n\r']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvTable(columns: string[], rows: unknown[][]): string {
  return [columns, ...rows].map((row) => row.map(csvField).join(',')).join('\n');
}

export function csv(messages: Message[]): string {
  const names = new Map<string, true>();
  const flat = messages.map((message) => flatten(message.body));
  for (const row of flat) for (const name of row.keys()) names.set(name, true);
  const fields = [...names.keys()];
  return csvTable(
    ['time', 'symbol', 'type', 'sequence', ...fields],
    messages.map((message, index) => [
      message.time,
      message.symbol,
      message.type,
      message.sequence,
      ...fields.map((field) => flat[index]?.get(field)),
    ]),
  );
}

/** Nested records as `record.field`; arrays stay JSON. */
export function flatten(body: { [key: string]: Json }, before = '', into = new Map<string, Json>()): Map<string, Json> {
  for (const [name, value] of Object.entries(body)) {
    if (value !== null && typeof value === 'object' && !Array.isArray(value)) flatten(value, `${before}${name}.`, into);
    else into.set(before + name, value);
  }
  return into;
}

/** A body in one line. */
export function summary(body: { [key: string]: Json }, limit = 240): string {
  let text = '';
  for (const [name, value] of Object.entries(body)) {
    if (text.length > limit) return `${text}…`;
    if (value === null) continue;
    text += `${text ? '  ' : ''}${name} ${inline(value, limit)}`;
  }
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}

function inline(value: Json, limit: number): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    const first = inline(value[0] ?? null, limit);
    return value.length === 1 ? `[${first}]` : `[${first}, +${value.length - 1}]`;
  }
  if (value !== null && typeof value === 'object') {
    const parts: string[] = [];
    for (const [name, inner] of Object.entries(value)) {
      if (inner === null) continue;
      parts.push(`${name} ${inline(inner, limit)}`);
      if (parts.length >= 8) break;
    }
    return `{${parts.join(' ')}}`;
  }
  return String(value);
}

export async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Saves a text or bytes as a file of the reader's. */
export function download(name: string, content: BlobPart, type: string): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
