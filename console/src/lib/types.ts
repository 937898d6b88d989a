// What the server sends. Integers of 64 bits, times (nanoseconds since 1970) and decimals are texts.

export interface Session {
  user: string | null;
  login: boolean;
  admin: boolean;
  create: boolean;
  version: string;
  sql: boolean;
}

export type May = 'read' | 'write' | 'admin';

export interface StreamRow {
  name: string;
  types: string[];
  messages: string;
  bytes: string | number;
  durability: string;
  first_time: string | null;
  last_time: string | null;
  appended_per_second: number;
  bytes_per_second: number;
  readers: number;
  lag: string | null;
  may: May[];
  /** Why the stream cannot be opened, or its maintenance fails. */
  failure?: string | null;
}

export interface Field {
  name: string;
  type: string;
  nullable: boolean;
  doc?: string | null;
}

export interface RecordType {
  name: string;
  message: boolean;
  fields: Field[];
}

export interface StreamDetail {
  name: string;
  schema: string;
  versions: number;
  types: RecordType[];
  durability: string;
  retention: Record<string, unknown> | null;
  symbols: number | string;
  messages: string;
  bytes: string | number;
  segments: number;
  log_files: number;
  spaces: number;
  first_time: string | null;
  last_time: string | null;
  may?: May[];
  failure?: string | null;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Message {
  time: string;
  symbol: string;
  type: string;
  sequence: string;
  space: number;
  body: { [key: string]: Json };
}

export interface MessagePage {
  messages: Message[];
  next: string | null;
  /** Messages that could not be read. */
  damaged?: number;
}

export interface Histogram {
  from: string;
  to: string;
  counts: number[];
  exact: boolean;
}

export interface Gap {
  symbol?: string;
  from: string;
  to: string;
  cause: string;
  missing?: string | number | null;
}

export interface ChartData {
  time: string[];
  first: number[];
  min: number[];
  max: number[];
  last: number[];
  count: number[];
  volume: number[] | null;
  gaps: Gap[];
  raw: boolean;
}

export type Level = [price: string, size: string, orders: number | null];

export interface Book {
  exchange: string;
  kind: string;
  state: string;
  reason?: string | null;
  bids: Level[];
  asks: Level[];
}

export interface BookState {
  at: string;
  books: Book[];
  best: { bid: string | null; bid_size: string | null; ask: string | null; ask_size: string | null } | null;
  trades?: Trade[];
  ended?: boolean;
}

export interface Trade {
  time: string;
  price: string;
  size: string;
  side: string | null;
}

export interface HeatmapData {
  times: string[];
  prices: string[];
  sizes: number[][];
  trades: Trade[];
  gaps: Gap[];
}

export interface Catalog {
  tables: { stream: string; table: string; columns: { name: string; type: string; nullable?: boolean }[] }[];
  functions: { name: string; kind: string; description?: string | null }[];
}

export interface Connection {
  id: string | number;
  user: string;
  address: string;
  program?: string;
  since: string;
  watches: number;
  loaders: number;
  lag: string | null;
  sent_bytes: string | number;
  received_bytes: string | number;
}

export interface UserRow {
  name: string;
  rights: { streams: string; may: string[] }[];
}

export interface Topic {
  name: string;
  messages: string;
  stream?: string;
  state?: string;
  failure?: string | null;
  subscribers: { name?: string; process?: string | number; lag?: string | number; lost?: string | number }[];
}

export interface Latency {
  count: number;
  p50_seconds: number | null;
  p99_seconds: number | null;
  p999_seconds: number | null;
  /** Ranges that have durations: the upper bound in seconds (null: none), and how many. */
  ranges?: [number | null, number][];
}

export interface Counts {
  batches: number;
  messages: number;
  bytes: number;
}

export interface Status {
  status: string;
  version: string;
  uptime_seconds: number;
  process: {
    open_files?: number | null;
    open_files_max?: number | null;
    resident_bytes?: number | null;
    disk_free_bytes?: number | null;
    disk_total_bytes?: number | null;
    cpu_seconds?: number | null;
    [more: string]: unknown;
  };
  connections: number;
  connections_max: number;
  watches: number;
  received_bytes: number;
  sent_bytes: number;
  appended: Counts;
  delivered: Counts;
  append: Record<string, Latency>;
  delivery: Latency;
  catch_up: Latency;
  warnings: string[];
}

export interface Plant {
  name: string;
  date: string;
  day_ends: string;
  kept_back: string | null;
  tables: { name: string; stream: string; today: string; ever: string }[];
}

export interface BackupState {
  state: 'off' | 'idle' | 'running' | 'done' | 'failed';
  directory: string | null;
  began: string | null;
  seconds: number | null;
  bytes: number;
  streams: number | null;
  segments: number | null;
  damaged: number | null;
  removed: string[] | null;
  failed: string[] | null;
  failure: string | null;
}

export interface ImportRow {
  id: number;
  name: string;
  stream: string;
  bytes: number;
  state: 'arriving' | 'here' | 'running' | 'done' | 'failed';
  preview: boolean;
  done: number;
  total: number;
  messages: string;
  text: string;
  failure: string | null;
}
