// A server with the console's contract and generated data, for tests and for work on the page without a database.

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join, normalize } from 'node:path';
import type { Socket } from 'node:net';
import * as arrow from 'apache-arrow';
import { CORPUS } from './corpus';

export interface Scenario {
  /** Number of streams. */
  streams: number;
  /** Names, symbols and values of the corpus. */
  evil: boolean;
  /** A login is needed: ann, secret. */
  login: boolean;
  /** Requests for data are refused. */
  forbidden: boolean;
  /** The stream `feed` has no messages. */
  empty: boolean;
  /** Messages a second in the tail. */
  rate: number;
  /** No right to administrate. */
  reader: boolean;
}

const USUAL: Scenario = { streams: 42, evil: false, login: false, forbidden: false, empty: false, rate: 60, reader: false };

export const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const MS = 1_000_000n;
export const T0 = 1_704_205_800_000_000_000n; // 2024-01-02 14:30 UTC
const COUNT = 400_000;
const STEP = 18n * MS;
const T1 = T0 + BigInt(COUNT) * STEP;
const GAP = { from: T0 + 2_580_000n * MS, to: T0 + 2_700_000n * MS };
const SYMBOLS = ['AAPL', 'AMZN', 'BAC', 'GOOG', 'JPM', 'META', 'MSFT', 'NVDA', 'TSLA', 'XOM', 'ESH4', 'ESM4', 'NQH4', 'ZNH4', 'BTC-USD', 'ETH-USD'];

function hash(value: number): number {
  let x = (value ^ 0x9e3779b9) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b) >>> 0;
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35) >>> 0;
  return ((x ^ (x >>> 16)) >>> 0) / 4294967296;
}

/** The middle price in cents. */
function middle(time: bigint, symbol: string): number {
  const t = Number((time - T0) / MS) / 1000;
  const base = 18_700 + (symbol.charCodeAt(0) % 7) * 1_300;
  let price = base + 60 * Math.sin(t / 900) + 25 * Math.sin(t / 171 + 1) + 9 * Math.sin(t / 31) + 3 * Math.sin(t / 3.1);
  for (let k = 0; k < 6; k++) price += (hash(Math.floor(t / 2 ** k) * 7 + k) - 0.5) * 2 ** k * 0.9;
  return Math.round(price);
}
const cents = (value: number): string => `${Math.floor(value / 100)}.${String(value % 100).padStart(2, '0')}`;

function message(index: number, evil: boolean): Record<string, unknown> {
  const jitter = BigInt(Math.floor(hash(index) * 9_000_000));
  const time = T0 + BigInt(index) * STEP + jitter;
  const symbol = evil ? CORPUS[index % CORPUS.length]! : SYMBOLS[Math.floor(hash(index * 3) * SYMBOLS.length)]!;
  const mid = middle(time, symbol);
  const size = 100 * (1 + Math.floor(hash(index * 5) ** 3 * 40));
  const common = { time: String(time), symbol, sequence: String(9_007_199_254_740_993n + BigInt(index)), space: 0 };
  const text = evil ? CORPUS[(index * 7) % CORPUS.length]! : 'XNAS';
  if (index % 4 === 0) {
    return { ...common, type: 'Trade', body: { price: cents(mid), size: String(size), side: hash(index * 11) > 0.5 ? 'buy' : 'sell', venue: text, id: String(18_446_744_073_709_000_000n + BigInt(index)) } };
  }
  if (index % 4 === 1) {
    const entries = [0, 1, 2].map((level) => ({ action: level ? 'update' : 'insert', side: level % 2 ? 'ask' : 'bid', price: cents(mid + (level % 2 ? 1 : -1) * (level + 1)), size: String(size + level * 100), orders: 1 + level }));
    return { ...common, type: 'Package', body: { kind: 'incremental', received: String(time + 41_000n), venue: text, entries: evil ? [...entries, { [text]: text, nested: { [CORPUS[0]!]: [text, { deep: text }] } }] : entries } };
  }
  return { ...common, type: 'Quote', body: { bid: cents(mid - 1), bid_size: String(size), ask: cents(mid + 1), ask_size: String(size + 200), venue: text, note: null } };
}

const indexOf = (time: bigint): number => (time <= T0 ? 0 : Math.min(COUNT, Number((time - T0) / STEP)));

function bookAt(time: bigint, symbol: string, depth: number): Record<string, unknown> {
  const mid = middle(time, symbol);
  const slot = Number(time / (400n * MS) % 1_000_000n);
  const level = (price: number, side: number, at: number): [string, string, number] => {
    const orders = 1 + Math.floor(hash(price * 13 + slot + side) * 9);
    return [cents(price), String(100 * (1 + Math.floor((2 + at) * 2 * hash(price * 31 + Math.floor(slot / 4) + side)))), orders];
  };
  const bids = Array.from({ length: depth }, (_, at) => level(mid - 1 - at, 0, at));
  const asks = Array.from({ length: depth }, (_, at) => level(mid + 1 + at, 1, at));
  const inGap = time >= GAP.from && time < GAP.to;
  return {
    at: String(time),
    books: [{ exchange: 'XNAS', kind: 'by price', state: inGap ? 'stale' : 'good', reason: inGap ? 'messages are missing since 15:13:00' : null, bids, asks }],
    best: { bid: bids[0]?.[0] ?? null, bid_size: bids[0]?.[1] ?? null, ask: asks[0]?.[0] ?? null, ask_size: asks[0]?.[1] ?? null },
  };
}

const gapsIn = (from: bigint, to: bigint) => (GAP.from < to && GAP.to > from ? [{ from: String(GAP.from), to: String(GAP.to), cause: 'sequence numbers missing', symbol: 'AAPL', missing: '6664' }] : []);

function chart(query: URLSearchParams): Record<string, unknown> {
  const [from, to] = rangeOf(query);
  const symbol = query.get('symbol') ?? 'AAPL';
  const most = Number(query.get('pixels') ?? 1200);
  const total = Number((to - from) / (250n * MS));
  const raw = total <= most;
  const points = raw ? total : most;
  const result = { time: [] as string[], first: [] as number[], min: [] as number[], max: [] as number[], last: [] as number[], count: [] as number[], volume: [] as number[], gaps: gapsIn(from, to), raw };
  for (let index = 0; index < points; index++) {
    const begin = from + ((to - from) * BigInt(index)) / BigInt(points);
    if (begin < T0 || begin > T1 || (begin >= GAP.from && begin < GAP.to)) continue;
    const end = from + ((to - from) * BigInt(index + 1)) / BigInt(points);
    const samples = raw ? [middle(begin, symbol) / 100] : Array.from({ length: 8 }, (_, k) => middle(begin + ((end - begin) * BigInt(k)) / 8n, symbol) / 100);
    result.time.push(String(begin));
    result.first.push(samples[0]!);
    result.min.push(Math.min(...samples));
    result.max.push(Math.max(...samples));
    result.last.push(samples.at(-1)!);
    result.count.push(samples.length);
    result.volume.push(Math.round(100 * (1 + hash(index * 17) ** 4 * 60) * (1 + Math.abs(Math.sin(index / 40)))));
  }
  return result;
}

function tradesIn(from: bigint, to: bigint, symbol: string, most: number): Record<string, unknown>[] {
  const step = (to - from) / BigInt(most) || 1n;
  return Array.from({ length: most }, (_, index) => {
    const time = from + step * BigInt(index) + step / 3n;
    return { time: String(time), price: cents(middle(time, symbol) + (hash(index) > 0.5 ? 1 : -1)), size: String(100 * (1 + Math.floor(hash(index * 5) ** 4 * 80))), side: hash(index) > 0.5 ? 'buy' : 'sell' };
  }).filter(({ time }) => BigInt(time) >= T0 && BigInt(time) <= T1 && (BigInt(time) < GAP.from || BigInt(time) >= GAP.to));
}

function heatmap(query: URLSearchParams): Record<string, unknown> {
  const [from, to] = rangeOf(query);
  const symbol = query.get('symbol') ?? 'AAPL';
  const columns = Number(query.get('columns') ?? 300);
  const rows = Number(query.get('rows') ?? 80);
  const times = Array.from({ length: columns }, (_, index) => from + ((to - from) * BigInt(index)) / BigInt(columns));
  const mids = times.map((time) => middle(time, symbol));
  const [low, high] = [Math.min(...mids) - 14, Math.max(...mids) + 14];
  const tick = Math.max(1, Math.ceil((high - low) / rows));
  const prices = Array.from({ length: Math.ceil((high - low) / tick) }, (_, index) => low + index * tick);
  const sizes = times.map((time, column) => {
    if (time < T0 || time > T1 || (time >= GAP.from && time < GAP.to)) return prices.map(() => 0);
    return prices.map((price) => {
      const distance = Math.abs(price + tick / 2 - mids[column]!) / tick;
      if (distance < 0.6 || distance > 30) return 0;
      const wall = hash(price * 3 + Math.floor(column / 45) * 977) > 0.93 ? 9 : 1;
      return Math.round(100 * wall * (1 + 6 * hash(price * 7 + Math.floor(column / 6) * 131)) * Math.min(1, 0.25 + distance / 8) * (1 - distance / 40));
    });
  });
  return { times: times.map(String), prices: prices.map(cents), sizes, trades: tradesIn(from, to, symbol, 120), gaps: gapsIn(from, to) };
}

function rangeOf(query: URLSearchParams): [bigint, bigint] {
  const from = query.get('from');
  const to = query.get('to');
  return [from ? BigInt(from) : T0, to ? BigInt(to) : T1];
}

function arrowResult(rows: number, evil: boolean): Uint8Array {
  const times = new BigInt64Array(rows);
  const prices = new Uint32Array(rows * 4);
  const sequences = new BigInt64Array(rows);
  const sizes: (number | null)[] = [];
  const values = new Float64Array(rows);
  const symbols: string[] = [];
  for (let row = 0; row < rows; row++) {
    const one = message(row * 4, evil) as { time: string; symbol: string };
    times[row] = BigInt(one.time);
    sequences[row] = 9_007_199_254_740_993n + BigInt(row);
    const digits = BigInt.asUintN(128, BigInt(middle(times[row]!, 'AAPL')) * (row % 97 === 5 ? -1n : 1n) * 100n);
    for (let word = 0; word < 4; word++) prices[row * 4 + word] = Number((digits >> BigInt(32 * word)) & 0xffffffffn);
    sizes.push(row % 13 === 12 ? null : 100 * (1 + (row % 9)));
    values[row] = middle(times[row]!, 'AAPL') / 100;
    symbols.push(one.symbol);
  }
  const table = new arrow.Table({
    time: arrow.makeVector(arrow.makeData({ type: new arrow.TimestampNanosecond('UTC'), data: times, length: rows })),
    symbol: arrow.vectorFromArray(symbols, new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32())),
    price: arrow.makeVector(arrow.makeData({ type: new arrow.Decimal(4, 18, 128), data: prices, length: rows })),
    size: arrow.vectorFromArray(sizes, new arrow.Uint32()),
    vwap: arrow.makeVector(values),
    sequence: arrow.makeVector(sequences),
  });
  return arrow.tableToIPC(table, 'stream');
}

const TYPES = [
  {
    name: 'Trade',
    message: true,
    fields: [
      { name: 'price', type: 'decimal64', nullable: false, doc: 'Price of the trade' },
      { name: 'size', type: 'u64', nullable: false, doc: 'Number of shares or contracts' },
      { name: 'side', type: 'Side', nullable: true, doc: 'Of the aggressor' },
      { name: 'venue', type: 'ascii(8)', nullable: true, doc: 'Market identifier code' },
      { name: 'id', type: 'u64', nullable: false, doc: 'As the venue numbers it' },
    ],
  },
  {
    name: 'Quote',
    message: true,
    fields: [
      { name: 'bid', type: 'decimal64', nullable: false, doc: '' },
      { name: 'bid_size', type: 'u64', nullable: false, doc: '' },
      { name: 'ask', type: 'decimal64', nullable: false, doc: '' },
      { name: 'ask_size', type: 'u64', nullable: false, doc: '' },
    ],
  },
  {
    name: 'Package',
    message: true,
    fields: [
      { name: 'kind', type: 'PackageKind', nullable: false, doc: 'Snapshot or incremental' },
      { name: 'received', type: 'timestamp', nullable: true, doc: 'When the capture received it' },
      { name: 'entries', type: 'array<record<Entry>>', nullable: false, doc: 'Changes that belong together' },
    ],
  },
  {
    name: 'Entry',
    message: false,
    fields: [
      { name: 'action', type: 'Action', nullable: false, doc: '' },
      { name: 'side', type: 'Side', nullable: false, doc: '' },
      { name: 'price', type: 'decimal64', nullable: false, doc: '' },
      { name: 'size', type: 'u64', nullable: false, doc: '' },
      { name: 'orders', type: 'u32', nullable: true, doc: 'Orders at the price, where the venue counts them' },
    ],
  },
];

const SCHEMA = `enum Side { bid, ask, buy, sell }\n\n/// One trade.\nmessage Trade {\n  /// Price of the trade\n  price: decimal64,\n  size: u64,\n  side: Side?,\n  venue: ascii(8)?,\n  id: u64,\n}\n`;

const AREAS = ['feed', 'feed.books', 'bars.1m', 'bars.1h', 'quotes.eu', 'quotes.us', 'trades.eu', 'trades.us', 'orders', 'fills', 'positions', 'risk.limits', 'crypto.btc', 'crypto.eth', 'rates.sofr', 'ops.audit'];

export interface Mock {
  url: string;
  scenario: Scenario;
  /** Requests, as method and path. */
  requests: string[];
  /** What clients sent over their WebSockets. */
  sent: Record<string, unknown>[];
  /** Ends the session, and its WebSockets with it. */
  end(): void;
  /** Ends all WebSockets. */
  drop(): void;
  close(): Promise<void>;
}

export async function startMock(dist: string, changes: Partial<Scenario> = {}, port = 0): Promise<Mock> {
  const scenario = { ...USUAL, ...changes };
  const requests: string[] = [];
  const sent: Record<string, unknown>[] = [];
  const sockets = new Set<Socket>();
  const all = new Set<Socket>();
  const cancelled = new Set<string>();
  let loggedIn = false;
  let connections = Array.from({ length: 14 }, (_, index) => index + 101);
  let imports: Record<string, unknown>[] = [];
  let users = [
    { name: 'admin', rights: [{ streams: '*', may: ['read', 'write', 'create', 'admin'] }] },
    { name: 'feed-handler', rights: [{ streams: 'feed*', may: ['read', 'write'] }] },
    { name: 'research', rights: [{ streams: '*', may: ['read'] }, { streams: 'scratch.*', may: ['read', 'write', 'create', 'admin'] }] },
  ];

  const nameOf = (index: number): string => {
    if (scenario.evil && index < CORPUS.length) return CORPUS[index]!;
    if (index < AREAS.length) return AREAS[index]!;
    return `${['capture', 'replay', 'desk', 'model'][index % 4]}.${String(index).padStart(4, '0')}`;
  };
  const streamRow = (index: number, second: number): Record<string, unknown> => {
    const busy = hash(index * 77) > 0.35 && !scenario.empty;
    const rate = busy ? Math.round(10 ** (1 + 4.5 * hash(index * 3)) * (0.8 + 0.4 * hash(index * 101 + second))) : 0;
    const readers = Math.floor(hash(index * 19) * 5);
    const lag = readers ? Math.round(hash(index * 23) ** 6 * 400_000 * (0.7 + 0.6 * hash(second + index))) : 0;
    return {
      name: nameOf(index),
      types: scenario.evil ? [CORPUS[(index + 3) % CORPUS.length]] : index % 3 ? ['Trade', 'Quote'] : ['Trade', 'Quote', 'Package'],
      messages: scenario.empty ? '0' : String(BigInt(Math.floor(10 ** (4 + 6 * hash(index * 5)))) + BigInt(second * rate)),
      bytes: scenario.empty ? 0 : Math.floor(10 ** (6 + 6 * hash(index * 5))),
      durability: index % 5 === 4 ? 'sync' : index % 7 === 6 ? 'transient' : 'async',
      first_time: scenario.empty ? null : String(T0),
      last_time: scenario.empty ? null : String(T1 - BigInt(Math.floor(hash(index) * 60_000)) * MS),
      appended_per_second: rate,
      bytes_per_second: rate * 46,
      readers,
      lag: readers ? String(lag) : null,
      may: index % 6 === 5 || scenario.reader ? ['read'] : ['read', 'write', 'admin'],
    };
  };
  const rows = (second: number): Record<string, unknown>[] => Array.from({ length: scenario.streams }, (_, index) => streamRow(index, second));

  const status = (second: number): Record<string, unknown> => ({
    status: 'ok',
    version: '0.2.0',
    uptime_seconds: 86_400 * 3 + 5_025 + second,
    process: { open_files: 412, open_files_max: 65_536, resident_bytes: 734_003_200, disk_free_bytes: 412_316_860_416, disk_total_bytes: 1_099_511_627_776 },
    connections: connections.length,
    connections_max: 1_000,
    watches: 37,
    received_bytes: 9_000_000_000 + second * 41_000_000,
    sent_bytes: 71_000_000_000 + Math.round(second * 96_000_000 + 9_000_000 * Math.sin(second)),
    appended: { batches: second, messages: 4_000_000_000 + Math.round(second * 812_000 + 60_000 * Math.sin(second / 2)), bytes: 1 },
    delivered: { batches: second, messages: 9_000_000_000 + Math.round(second * 2_410_000 + 200_000 * Math.sin(second)), bytes: 1 },
    append: {
      async: { count: 4_120_331, p50_seconds: 0.000_021, p99_seconds: 0.000_094, p999_seconds: 0.000_81, ranges: [[1e-5, 20_331], [2.5e-5, 2_900_000], [5e-5, 1_000_000], [1e-4, 180_000], [2.5e-4, 15_000], [1e-3, 4_800], [2.5e-3, 200]] },
      sync: { count: 21_033, p50_seconds: 0.0021, p99_seconds: 0.0064, p999_seconds: 0.019, ranges: [[1e-3, 900], [2.5e-3, 14_000], [5e-3, 5_600], [1e-2, 500], [2.5e-2, 33]] },
    },
    delivery: { count: 9_120_331, p50_seconds: 0.000_038, p99_seconds: 0.000_21, p999_seconds: 0.0031, ranges: [[2.5e-5, 900_000], [5e-5, 6_000_000], [1e-4, 2_000_000], [2.5e-4, 180_331], [1e-3, 30_000], [5e-3, 10_000], [null, 2]] },
    catch_up: { count: 212, p50_seconds: 0.004, p99_seconds: 0.41, p999_seconds: 2.1 },
    warnings: ['the slowest cursor of stream "trades.us" lags by 1204331 messages'],
  });

  const connection = (id: number): Record<string, unknown> => ({
    id,
    user: scenario.evil ? CORPUS[id % CORPUS.length] : ['feed-handler', 'research', 'ann', 'desk-eu'][id % 4],
    address: `10.2.${id % 7}.${id}:${40_000 + id * 7}`,
    since: String(T1 - BigInt(id) * 91_000n * MS),
    watches: id % 4,
    loaders: id % 3 === 0 ? 1 : 0,
    lag: id % 4 ? String(Math.floor(hash(id) ** 5 * 2_000_000)) : null,
    sent_bytes: Math.floor(10 ** (5 + 5 * hash(id))),
    received_bytes: Math.floor(10 ** (4 + 4 * hash(id * 3))),
  });

  async function api(method: string, path: string, query: URLSearchParams, body: Record<string, unknown>, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const json = (value: unknown, code = 200): void => {
      response.writeHead(code, { 'content-type': 'application/json', 'cache-control': 'no-store', 'content-security-policy': CSP });
      response.end(JSON.stringify(value));
    };
    const fail = (code: number, text: string, word: string): void => json({ error: text, code: word }, code);
    if (method !== 'GET' && request.headers['x-tapedb'] !== '1') return fail(403, 'the header X-TapeDB is missing', 'forbidden');
    if (method !== 'GET' && request.headers['content-type'] !== (path === 'imports' ? 'application/octet-stream' : 'application/json')) return fail(415, 'the content type is not JSON', 'media');
    if (path === 'login') {
      loggedIn = body.user === 'ann' && body.password === 'secret';
      return loggedIn ? json({ user: 'ann' }) : fail(401, 'user or password is wrong', 'unauthorized');
    }
    if (path === 'logout') {
      loggedIn = false;
      return json({});
    }
    if (path === 'session') {
      const user = scenario.login ? (loggedIn ? 'ann' : null) : 'anonymous';
      return json({ user, login: user === null, admin: !scenario.reader, create: !scenario.reader, version: '0.2.0', sql: true });
    }
    if (scenario.login && !loggedIn) return fail(401, 'log in first', 'unauthorized');
    if (scenario.forbidden) return fail(403, 'the user "anonymous" has no right to read here', 'forbidden');
    if (path === 'streams') return json({ streams: rows(0) });
    if (path === 'connections') return json({ connections: connections.map(connection) });
    if (path.startsWith('connections/') && method === 'DELETE') {
      connections = connections.filter((id) => id !== Number(path.split('/')[1]));
      return json({});
    }
    if (path === 'users') return json({ users });
    if (path.startsWith('users/')) {
      const name = decodeURIComponent(path.split('/')[1] ?? '');
      users = users.filter((user) => user.name !== name);
      if (method === 'PUT') users = [...users, { name, rights: body.rights as { streams: string; may: string[] }[] }];
      return json({});
    }
    if (path === 'plants') {
      const name = scenario.evil ? CORPUS[3]! : 'tp';
      return json({ plants: [{ name, date: '2024-01-02', day_ends: '17:00:00 America/New_York', kept_back: null, tables: ['quote', 'trade'].map((table) => ({ name: scenario.evil ? CORPUS[0]! : table, stream: `${name}/${table}`, today: '1204331', ever: '98120331' })).slice(0, scenario.evil ? 1 : 2) }] });
    }
    if (path === 'backup') return json({ state: 'done', directory: scenario.evil ? CORPUS[2] : '/backup/ticks.tape', began: String(T0), seconds: 4.2, bytes: 73_400_320, streams: 42, segments: 3, damaged: 0, removed: [], failed: scenario.evil ? CORPUS : [], failure: null });
    if (path === 'imports' && method === 'GET') return json({ bytes_max: 1 << 30, imports });
    if (path === 'imports') {
      imports = [{ id: 1, name: query.get('name'), stream: query.get('stream'), bytes: 5, state: 'here', preview: false, done: 0, total: 0, messages: '0', text: '', failure: null }];
      return json({ id: 1, bytes: 5 });
    }
    if (path.startsWith('imports/')) {
      const text = scenario.evil ? CORPUS.join('\n') : body.preview ? 'schema of the new stream "ticks":\n\nmessage Tick {\n    price: decimal64?,\n    size: i64?,\n}\n' : '"ticks": 2 messages of 1 files in 0.02 s\n';
      imports = method === 'DELETE' ? [] : imports.map((one) => ({ ...one, state: 'done', messages: '2', text }));
      return json({});
    }
    if (path === 'topics') return json({ topics: [{ name: scenario.evil ? CORPUS[1] : 'ticks', messages: '48120331', subscribers: [{ name: 'signal-7', lag: '12' }, { name: 'recorder', lag: '0' }] }, { name: 'orders', messages: '9120', subscribers: [] }] });
    if (path === 'catalog') {
      const tables = rows(0).flatMap((row) => (scenario.evil ? [CORPUS[2]!] : ['Trade', 'Quote']).map((table) => ({ stream: row.name, table, columns: [{ name: 'time', type: 'Timestamp(ns)' }, { name: 'symbol', type: 'Utf8' }, { name: scenario.evil ? CORPUS[4] : 'price', type: 'Decimal(18, 4)' }, { name: 'size', type: 'UInt64' }, { name: 'sequence', type: 'UInt64' }] })));
      return json({ tables, functions: [{ name: 'time_bucket', kind: 'scalar', description: 'The begin of the bucket of a time' }, { name: 'vwap', kind: 'aggregate', description: 'Volume-weighted average price' }] });
    }
    if (path === 'query') return runQuery(body, response, json, fail);
    if (path.startsWith('queries/')) {
      cancelled.add(path.split('/')[1] ?? '');
      return json({});
    }
    const match = /^streams\/([^/]+)(?:\/(\w+))?$/.exec(path);
    if (!match) return fail(404, 'there is no such address', 'not_found');
    const name = decodeURIComponent(match[1]!);
    const index = Array.from({ length: scenario.streams }, (_, index) => index).find((index) => nameOf(index) === name);
    if (index === undefined) return fail(404, `there is no stream ${JSON.stringify(name)}`, 'not_found');
    if (method !== 'GET') return json({});
    stream(name, index, match[2] ?? '', query, json, fail);
  }

  function stream(name: string, index: number, part: string, query: URLSearchParams, json: (value: unknown) => void, fail: (code: number, text: string, word: string) => void): void {
    const symbols = scenario.evil ? CORPUS : SYMBOLS;
    switch (part) {
      case '': {
        const row = streamRow(index, 0);
        const types = scenario.evil ? TYPES.map((type, at) => ({ ...type, name: CORPUS[at]!, fields: type.fields.map((field, k) => ({ ...field, name: CORPUS[k + 4]!, type: CORPUS[k + 2]!, doc: CORPUS[k]! })) })) : TYPES;
        const stored = { messages: scenario.empty ? '0' : String(COUNT), first_time: scenario.empty ? null : String(T0), last_time: scenario.empty ? null : String(T1) };
        return json({ ...row, name, schema: scenario.evil ? CORPUS.join('\n') : SCHEMA, versions: 3, types, retention: { seconds: 31_536_000, bytes: 1_099_511_627_776 }, symbols: symbols.length, segments: 214, log_files: 2, spaces: 1, ...stored });
      }
      case 'symbols': {
        const prefix = query.get('prefix') ?? '';
        return json({ symbols: symbols.filter((symbol) => symbol.startsWith(prefix)), more: false });
      }
      case 'messages': {
        const down = query.get('order') === 'desc';
        const limit = Number(query.get('limit') ?? 200);
        const wanted = (query.get('symbols') ?? '').split(',').filter(Boolean);
        const types = (query.get('types') ?? '').split(',').filter(Boolean);
        const [from, to] = rangeOf(query);
        let at = query.get('position') ? Number(query.get('position')) : down ? indexOf(to) - 1 : indexOf(from);
        const messages: Record<string, unknown>[] = [];
        while (!scenario.empty && at >= indexOf(from) && at < indexOf(to) && messages.length < limit) {
          const one = message(at, scenario.evil);
          if ((!wanted.length || wanted.includes(String(one.symbol))) && (!types.length || types.includes(String(one.type)))) messages.push(one);
          at += down ? -1 : 1;
        }
        return json({ messages, next: at >= indexOf(from) && at < indexOf(to) && !scenario.empty ? String(at) : null });
      }
      case 'histogram': {
        const [from, to] = rangeOf(query);
        const buckets = Number(query.get('buckets') ?? 200);
        const counts = Array.from({ length: buckets }, (_, bucket) => {
          const at = from + ((to - from) * BigInt(bucket)) / BigInt(buckets);
          if (at < T0 || at >= T1 || (at >= GAP.from && at < GAP.to)) return 0;
          const share = bucket / buckets;
          return Math.round((COUNT / buckets) * (0.5 + 3 * Math.exp(-share * 14) + 1.6 * Math.exp(-((1 - share) ** 2) * 90) + 0.5 * hash(bucket * 7)));
        });
        return json({ from: String(from), to: String(to), counts, exact: true });
      }
      case 'chart':
        return json(chart(query));
      case 'book': {
        const at = query.get('at');
        return json(bookAt(at ? BigInt(at) : T1, query.get('symbol') ?? '', Number(query.get('depth') ?? 20)));
      }
      case 'heatmap':
        return json(heatmap(query));
      case 'gaps':
        return json({ verdict: 'incomplete', gaps: gapsIn(T0, T1).map((gap) => ({ ...gap, symbol: scenario.evil ? CORPUS[0] : gap.symbol })) });
      default:
        return fail(404, 'there is no such address', 'not_found');
    }
  }

  async function runQuery(body: Record<string, unknown>, response: ServerResponse, json: (value: unknown, code?: number) => void, fail: (code: number, text: string, word: string) => void): Promise<void> {
    const sql = String(body.sql);
    if (/\bfail\b/.test(sql)) return fail(400, `column "${scenario.evil ? CORPUS[0] : 'prise'}" does not exist; did you mean "price"?\n  at line 1, column 8`, 'query');
    if (/\bsleep\b/.test(sql)) {
      for (let wait = 0; wait < 200 && !cancelled.has(String(body.id)); wait++) await new Promise((done) => setTimeout(done, 50));
      return fail(499, 'the query was cancelled', 'cancelled');
    }
    if (/\bnothing\b/.test(sql)) return json({ columns: [{ name: 'time', type: 'timestamp' }], rows: [], truncated: false, milliseconds: 1 });
    if (/\btable\b/.test(sql)) return json({ columns: [{ name: 'n', type: 'uint64' }, { name: 'text', type: 'utf8' }], rows: [['18446744073709551615', CORPUS[0]!]], truncated: false, milliseconds: 1 });
    const count = Math.min(Number(body.limit ?? 1000), /\bhuge\b/.test(sql) ? 120_001 : 2_000);
    response.writeHead(200, { 'content-type': 'application/vnd.apache.arrow.stream', 'x-tapedb-query': String(body.id), 'content-security-policy': CSP });
    response.end(arrowResult(count, scenario.evil));
  }

  async function file(path: string, response: ServerResponse): Promise<void> {
    const asked = normalize(path).replace(/^(\.\.[/\\])+/, '');
    const types: Record<string, string> = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', html: 'text/html; charset=utf-8', json: 'application/json' };
    let name = asked === '/' ? '/index.html' : asked;
    let content: Buffer;
    try {
      content = await readFile(join(dist, name));
    } catch {
      name = '/index.html';
      content = await readFile(join(dist, name));
    }
    response.writeHead(200, { 'content-type': types[name.split('.').pop() ?? ''] ?? 'application/octet-stream', 'content-security-policy': CSP, 'x-content-type-options': 'nosniff' });
    response.end(content);
  }

  const server: Server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    requests.push(`${request.method} ${url.pathname}${url.search}`);
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const work = url.pathname.startsWith('/api/')
        ? api(request.method ?? 'GET', url.pathname.slice(5), url.searchParams, text && request.headers['content-type'] === 'application/json' ? (JSON.parse(text) as Record<string, unknown>) : {}, request, response)
        : file(decodeURIComponent(url.pathname), response);
      work.catch((error: unknown) => {
        if (!response.headersSent) response.writeHead(500);
        response.end(String(error));
      });
    });
  });
  server.on('connection', (socket) => {
    all.add(socket);
    socket.on('close', () => all.delete(socket));
  });
  server.on('upgrade', (request, socket: Socket) => {
    if (scenario.login && !loggedIn) {
      socket.end('HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n');
      return;
    }
    const key = String(request.headers['sec-websocket-key']);
    const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    sockets.add(socket);
    serve(socket);
  });

  function serve(socket: Socket): void {
    const subscriptions = new Map<number, Record<string, unknown> & { paused: boolean; at: bigint }>();
    let frame = 0;
    let waiting = 0;
    let second = 0;
    let next = COUNT / 2;
    let skipped = 0;
    const push = (items: Record<string, unknown>[]): void => {
      if (!items.length) return;
      waiting += 1;
      write(socket, JSON.stringify({ frame: ++frame, items }));
    };
    const item = (id: number, subscription: Record<string, unknown> & { paused: boolean; at: bigint }, slow: boolean): Record<string, unknown>[] => {
      if (subscription.paused) return [];
      switch (subscription.channel) {
        case 'tail': {
          if (scenario.empty) return [];
          const count = Math.max(1, Math.round(scenario.rate / 10));
          const wanted = subscription.symbols as string[] | undefined;
          const messages = Array.from({ length: Math.min(200, count) }, () => message(next++ % COUNT, scenario.evil)).filter((one) => !wanted || wanted.includes(String(one.symbol)));
          skipped = Math.max(0, count - 200);
          return [{ id, stream: 'tail', data: { messages, skipped } }];
        }
        case 'streams':
          return slow ? [{ id, stream: 'streams', data: rows(second).filter((_, index) => index % 3 !== 2) }] : [];
        case 'status':
          return slow ? [{ id, stream: 'status', data: status(second) }] : [];
        case 'book':
          return [{ id, stream: 'book', data: bookAt(T1 + BigInt(Date.now() % 10_000_000) * MS, String(subscription.symbol), Number(subscription.depth)) }];
        case 'play': {
          const before = subscription.at;
          subscription.at += BigInt(Math.round(100 * (Number(subscription.speed) || 1000))) * MS;
          return [{ id, stream: 'play', data: { ...bookAt(subscription.at, String(subscription.symbol), Number(subscription.depth)), trades: tradesIn(before, subscription.at, String(subscription.symbol), 2), ended: subscription.at > T1 } }];
        }
        default:
          return [{ id, error: 'there is no such channel' }];
      }
    };
    let ticks = 0;
    const timer = setInterval(() => {
      ticks += 1;
      const slow = ticks % 10 === 0;
      if (slow) second += 1;
      if (waiting >= 2) return;
      push([...subscriptions].flatMap(([id, subscription]) => item(id, subscription, slow)));
    }, 100);
    receive(socket, (text) => {
      const asked = JSON.parse(text) as Record<string, unknown> & { op: string; id: number };
      sent.push(asked);
      const subscription = subscriptions.get(asked.id);
      if (asked.op === 'ack') waiting = Math.max(0, waiting - 1);
      else if (asked.op === 'unsubscribe') subscriptions.delete(asked.id);
      else if (asked.op === 'pause' && subscription) subscription.paused = true;
      else if (asked.op === 'resume' && subscription) subscription.paused = false;
      else if (asked.op === 'subscribe') {
        if (scenario.forbidden) push([{ id: asked.id, error: 'the user "anonymous" has no right to read here' }]);
        else {
          const one = { ...asked, paused: false, at: asked.at ? BigInt(String(asked.at)) : T0 };
          subscriptions.set(asked.id, one);
          push(item(asked.id, one, true));
        }
      }
    });
    socket.on('close', () => {
      clearInterval(timer);
      sockets.delete(socket);
    });
    socket.on('error', () => socket.destroy());
  }

  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done));
  const { port: taken } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${taken}`,
    scenario,
    requests,
    sent,
    end() {
      loggedIn = false;
      sockets.forEach((socket) => socket.destroy());
    },
    drop: () => sockets.forEach((socket) => socket.destroy()),
    close: () =>
      new Promise((done) => {
        all.forEach((socket) => socket.destroy());
        server.close(() => done());
      }),
  };
}

function write(socket: Socket, text: string): void {
  const payload = Buffer.from(text);
  const head = payload.length < 126 ? Buffer.from([0x81, payload.length]) : payload.length < 65_536 ? Buffer.from([0x81, 126, payload.length >> 8, payload.length & 255]) : Buffer.alloc(10);
  if (head.length === 10) {
    head[0] = 0x81;
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(payload.length), 2);
  }
  socket.write(Buffer.concat([head, payload]));
}

function receive(socket: Socket, take: (text: string) => void): void {
  let buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk]);
    for (;;) {
      if (buffer.length < 6) return;
      const opcode = buffer[0]! & 15;
      let length = buffer[1]! & 127;
      let at = 2;
      if (length === 126) {
        length = buffer.readUInt16BE(2);
        at = 4;
      }
      if (buffer.length < at + 4 + length) return;
      const mask = buffer.subarray(at, at + 4);
      const payload = Buffer.from(buffer.subarray(at + 4, at + 4 + length).map((byte, index) => byte ^ mask[index % 4]!));
      buffer = buffer.subarray(at + 4 + length);
      if (opcode === 8) socket.end();
      else if (opcode === 1) take(payload.toString());
    }
  });
}
