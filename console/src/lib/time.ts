// Times are nanoseconds since 1970 as BigInt or text. A Number holds at most their milliseconds.

export const SECOND = 1_000_000_000n;
export const MINUTE = 60n * SECOND;
export const HOUR = 60n * MINUTE;
export const DAY = 24n * HOUR;

const TIME_MIN = -9223372036854775808n;
const TIME_MAX = 9223372036854775807n;

/** Division that rounds down, of negative numbers too. */
export function floorDiv(value: bigint, by: bigint): bigint {
  const quotient = value / by;
  return value % by !== 0n && value < 0n !== by < 0n ? quotient - 1n : quotient;
}

export function toNanos(text: string | bigint | null | undefined): bigint | null {
  if (typeof text === 'bigint') return text;
  return text && /^-?\d{1,19}$/.test(text) ? BigInt(text) : null;
}

interface Parts {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    formats.set(zone, format);
  }
  return format;
}

function partsOf(millis: number, zone: string): Parts {
  if (zone === 'UTC') {
    const date = new Date(millis);
    return {
      year: date.getUTCFullYear(),
      month: date.getUTCMonth() + 1,
      day: date.getUTCDate(),
      hour: date.getUTCHours(),
      minute: date.getUTCMinutes(),
      second: date.getUTCSeconds(),
    };
  }
  const parts: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(millis)) parts[type] = Number(value);
  return parts as unknown as Parts;
}

const two = (value: number): string => String(value).padStart(2, '0');

// Rows of a table share seconds: the last ones are kept.
const kept = new Map<string, { date: string; clock: string }>();

function secondOf(seconds: bigint, zone: string): { date: string; clock: string } {
  const key = `${seconds}${zone}`;
  let text = kept.get(key);
  if (!text) {
    const parts = partsOf(Number(seconds) * 1000, zone);
    text = {
      date: `${String(parts.year).padStart(4, '0')}-${two(parts.month)}-${two(parts.day)}`,
      clock: `${two(parts.hour)}:${two(parts.minute)}:${two(parts.second)}`,
    };
    if (kept.size > 2000) kept.clear();
    kept.set(key, text);
  }
  return text;
}

/** Date, clock and the nine digits of the second's fraction, in a zone. */
export function split(nanos: bigint, zone: string): { date: string; clock: string; fraction: string } {
  const seconds = floorDiv(nanos, SECOND);
  const fraction = String(nanos - seconds * SECOND).padStart(9, '0');
  return { ...secondOf(seconds, zone), fraction };
}

/** `2024-01-02 14:30:00.123456789`, with at least `digits` digits of the fraction: 0, 3, 6 or 9. */
export function formatTime(time: string | bigint | null | undefined, zone: string, digits: 0 | 3 | 6 | 9 = 9): string {
  const nanos = toNanos(time);
  if (nanos === null) return '–';
  const { date, clock, fraction } = split(nanos, zone);
  return `${date} ${clock}${digits ? `.${fraction.slice(0, digits)}` : ''}`;
}

export function formatClock(time: string | bigint | null | undefined, zone: string, digits: 0 | 3 | 6 | 9 = 9): string {
  const nanos = toNanos(time);
  if (nanos === null) return '–';
  const { clock, fraction } = split(nanos, zone);
  return `${clock}${digits ? `.${fraction.slice(0, digits)}` : ''}`;
}

/** The time as commands and SQL take it: RFC 3339 in UTC, without zeros at its end. */
export function iso(time: bigint): string {
  const { date, clock, fraction } = split(time, 'UTC');
  const short = fraction.replace(/0+$/, '');
  return `${date}T${clock}${short ? `.${short}` : ''}Z`;
}

const TEXT =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?$/;

/** A time as a person enters it: nanoseconds, or a date with or without a clock, of the zone unless it names an offset. */
export function parseTime(text: string, zone: string): bigint | null {
  const trimmed = text.trim();
  if (/^-?\d{1,19}$/.test(trimmed)) {
    const nanos = BigInt(trimmed);
    return nanos >= TIME_MIN && nanos <= TIME_MAX ? nanos : null;
  }
  const match = TEXT.exec(trimmed);
  if (!match) return null;
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', offset] = match;
  const wanted = Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
  const date = new Date(wanted);
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day) || Number(hour) > 23) return null;
  const millis = wanted - (offset ? offsetOf(offset) : zoneOffset(wanted, zone));
  const nanos = BigInt(millis) * 1_000_000n + BigInt(fraction.padEnd(9, '0') || '0');
  return nanos >= TIME_MIN && nanos <= TIME_MAX ? nanos : null;
}

function offsetOf(text: string): number {
  if (text === 'Z' || text === 'UTC') return 0;
  const minutes = Number(text.slice(1, 3)) * 60 + Number(text.slice(-2));
  return (text[0] === '-' ? -minutes : minutes) * 60_000;
}

/** How far a zone's clock is ahead of UTC when it shows a date and clock, in milliseconds. */
function zoneOffset(shown: number, zone: string): number {
  if (zone === 'UTC') return 0;
  const offsetAt = (millis: number): number => {
    const { year, month, day, hour, minute, second } = partsOf(millis, zone);
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(millis / 1000) * 1000;
  };
  const guess = offsetAt(shown);
  return offsetAt(shown - guess);
}

const UNITS: [bigint, string][] = [
  [DAY, 'd'],
  [HOUR, 'h'],
  [MINUTE, 'm'],
  [SECOND, 's'],
  [1_000_000n, 'ms'],
  [1_000n, 'µs'],
  [1n, 'ns'],
];

/** A length of time in its two largest units. */
export function formatSpan(nanos: bigint): string {
  if (nanos < 0n) return `−${formatSpan(-nanos)}`;
  for (const [index, [unit, name]] of UNITS.entries()) {
    if (nanos < unit) continue;
    const whole = nanos / unit;
    const next = UNITS[index + 1];
    const rest = next ? (nanos % unit) / next[0] : 0n;
    if (!next || rest === 0n || unit < SECOND) return `${whole} ${name}`;
    if (unit === SECOND) return `${whole}.${String(rest).padStart(3, '0').replace(/0+$/, '')} s`;
    return `${whole} ${name} ${rest} ${next[1]}`;
  }
  return '0 s';
}

const STEPS: bigint[] = [
  ...[1n, 10n, 100n, 1_000n, 10_000n, 100_000n, 1_000_000n, 10_000_000n, 100_000_000n].flatMap((unit) => [
    unit,
    2n * unit,
    5n * unit,
  ]),
  ...[1n, 2n, 5n, 10n, 15n, 30n].map((n) => n * SECOND),
  ...[1n, 2n, 5n, 10n, 15n, 30n].map((n) => n * MINUTE),
  ...[1n, 2n, 3n, 6n, 12n].map((n) => n * HOUR),
  ...[1n, 2n, 7n, 14n, 30n, 91n, 182n, 365n, 1825n].map((n) => n * DAY),
];

/** Round times between two times for the marks of an axis, at most `most`, and the digits that tell them apart. */
export function ticks(from: bigint, to: bigint, most: number): { times: bigint[]; step: bigint } {
  const span = to - from;
  const step = STEPS.find((step) => span / step <= BigInt(most)) ?? 3650n * DAY;
  const times: bigint[] = [];
  for (let at = floorDiv(from + step - 1n, step) * step; at <= to && times.length < 200; at += step) times.push(at);
  return { times, step };
}

/** The text of an axis mark: as much of the time as its step tells apart. */
export function tickText(time: bigint, step: bigint, zone: string): string {
  if (step >= DAY) return split(time, zone).date;
  const { clock, fraction } = split(time, zone);
  if (step >= MINUTE) return clock.slice(0, 5);
  if (step >= SECOND) return clock;
  const digits = step >= 1_000_000n ? 3 : step >= 1_000n ? 6 : 9;
  return `${clock.slice(3)}.${fraction.slice(0, digits)}`;
}

/** The times of a range, of which `share` is a part of its length. */
export function between(from: bigint, to: bigint, share: number): bigint {
  const parts = BigInt(Math.round(Math.min(1, Math.max(0, share)) * 1_000_000_000));
  return from + ((to - from) * parts) / 1_000_000_000n;
}

/** Where a time lies in a range, as a share of its length, for drawing. */
export function shareOf(time: bigint, from: bigint, to: bigint): number {
  if (to <= from) return 0;
  return Number(((time - from) * 1_000_000_000n) / (to - from)) / 1e9;
}
