// Numbers as texts for people: short, of one width where they stand below each other.

/** Groups of three digits, of an integer text of any length. */
export function grouped(value: string | number | bigint | null | undefined): string {
  if (value === null || value === undefined || value === '') return '–';
  const text = String(value);
  const match = /^(-?)(\d+)(\.\d+)?$/.exec(text);
  if (!match) return text;
  const [, sign = '', whole = '', rest = ''] = match;
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ' ') + rest;
}

const SHORT: [bigint, string][] = [
  [1_000_000_000_000n, 'T'],
  [1_000_000_000n, 'G'],
  [1_000_000n, 'M'],
  [1_000n, 'k'],
];

/** `12.3 M`: three digits and a unit; exact below 10,000. */
export function short(value: string | number | bigint | null | undefined): string {
  if (value === null || value === undefined || value === '') return '–';
  if (typeof value === 'number' && !Number.isInteger(value)) {
    return Math.abs(value) < 1000 ? value.toPrecision(3).replace(/\.?0+$/, '') : short(Math.round(value));
  }
  if (!/^-?\d+$/.test(String(value))) return String(value);
  const whole = BigInt(value);
  const size = whole < 0n ? -whole : whole;
  if (size < 10_000n) return grouped(whole);
  for (const [unit, name] of SHORT) {
    if (size < unit) continue;
    const thousandths = Number((size * 1000n) / unit);
    const digits = thousandths >= 100_000 ? 0 : thousandths >= 10_000 ? 1 : 2;
    return `${whole < 0n ? '-' : ''}${(thousandths / 1000).toFixed(digits)} ${name}`;
  }
  return grouped(whole);
}

/** Bytes in units of 1,024. */
export function bytes(value: string | number | bigint | null | undefined): string {
  if (value === null || value === undefined || value === '') return '–';
  let size = Number(value);
  if (!Number.isFinite(size)) return '–';
  if (size < 1024) return `${Math.round(size)} B`;
  let unit = '';
  for (const name of ['KiB', 'MiB', 'GiB', 'TiB', 'PiB']) {
    size /= 1024;
    unit = name;
    if (size < 1000) break;
  }
  return `${size.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)} ${unit}`;
}

/** A latency: three digits and its unit. */
export function latency(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return '–';
  for (const [scale, unit] of [
    [1, 's'],
    [1e3, 'ms'],
    [1e6, 'µs'],
  ] as const) {
    if (seconds * scale >= 1 || unit === 'µs') return `${Number((seconds * scale).toPrecision(3))} ${unit}`;
  }
  return '–';
}

type Key = number | bigint | string | null;

/** What a value is sorted by: integers by their value, whatever their length. Keys of a column are made once, not in each comparison. */
export function sortKey(value: unknown): Key {
  if (value === null || value === undefined) return null;
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  const text = String(value);
  if (!/^-?\d+$/.test(text)) return text;
  return text.length < 16 ? Number(text) : BigInt(text);
}

/** A copy in the order of keys; equal ones stay as they are. */
export function sorted<T>(items: readonly T[], key: (item: T) => unknown, down = false): T[] {
  const keyed = items.map((item) => ({ item, key: sortKey(key(item)) }));
  const sign = down ? -1 : 1;
  const numeric = (key: Key): boolean => typeof key !== 'string';
  return keyed
    .sort(({ key: a }, { key: b }) => {
      if (a === b) return 0;
      if (a === null) return -sign;
      if (b === null) return sign;
      if (numeric(a) !== numeric(b)) return numeric(a) ? -sign : sign;
      return a < b ? -sign : a > b ? sign : 0;
    })
    .map(({ item }) => item);
}

/** Which of two values comes first: integers by value, other texts by their characters. */
export function compare(a: unknown, b: unknown): number {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  const [left, right] = [String(a), String(b)];
  if (/^-?\d+$/.test(left) && /^-?\d+$/.test(right)) {
    const difference = BigInt(left) - BigInt(right);
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }
  return left < right ? -1 : left > right ? 1 : 0;
}

export function plural(count: number | string, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${String(count) === '1' ? one : many}`;
}
