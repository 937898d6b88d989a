// Data of charts. Times become distances from the range's begin, which is all that a drawing needs.

import { toNanos } from './time';
import type { ChartData, Gap } from './types';

export interface Plotted {
  x: number[];
  first: (number | null)[];
  min: (number | null)[];
  max: (number | null)[];
  last: (number | null)[];
  amount: (number | null)[];
}

/** Series of a chart; where a gap lies between two points, a null breaks the lines. */
export function plotted(data: ChartData, from: bigint): Plotted {
  const result: Plotted = { x: [], first: [], min: [], max: [], last: [], amount: [] };
  const gaps = data.gaps
    .map((gap) => ({ from: toNanos(gap.from), to: toNanos(gap.to) }))
    .filter((gap): gap is { from: bigint; to: bigint } => gap.from !== null && gap.to !== null)
    .sort((a, b) => (a.from < b.from ? -1 : a.from > b.from ? 1 : 0));
  let nextGap = 0;
  data.time.forEach((text, index) => {
    const time = BigInt(text);
    const broken = gaps[nextGap];
    if (broken && broken.from <= time) {
      while (nextGap < gaps.length && gaps[nextGap]!.from <= time) nextGap++;
      if (result.x.length) pushNull(result, Math.max(Number(broken.from - from), result.x.at(-1)!));
    }
    result.x.push(Number(time - from));
    result.first.push(data.first[index] ?? null);
    result.min.push(data.min[index] ?? null);
    result.max.push(data.max[index] ?? null);
    result.last.push(data.last[index] ?? null);
    result.amount.push((data.volume ?? data.count)[index] ?? null);
  });
  return result;
}

function pushNull(result: Plotted, x: number): void {
  result.x.push(x);
  for (const values of [result.first, result.min, result.max, result.last, result.amount]) values.push(null);
}

/** Gaps as distances from the range's begin, inside the range. */
export function gapsIn(gaps: Gap[], from: bigint, to: bigint): { from: number; to: number; cause: string }[] {
  return gaps.flatMap((gap) => {
    const [first, last] = [toNanos(gap.from), toNanos(gap.to)];
    if (first === null || last === null || last < from || first > to) return [];
    const begin = first < from ? from : first;
    const end = last > to ? to : last;
    return [{ from: Number(begin - from), to: Number(end - from), cause: gap.cause }];
  });
}

/** Red, green and blue of `#rrggbb`. */
export function rgb(text: string): [number, number, number] {
  const match = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(text);
  return match ? [parseInt(match[1]!, 16), parseInt(match[2]!, 16), parseInt(match[3]!, 16)] : [128, 128, 128];
}

/** 256 colours between some. */
export function palette(stops: [number, number, number][]): Uint8Array {
  const table = new Uint8Array(256 * 3);
  for (let index = 0; index < 256; index++) {
    const place = (index / 255) * (stops.length - 1);
    const before = Math.min(stops.length - 2, Math.floor(place));
    const share = place - before;
    for (let part = 0; part < 3; part++) {
      table[index * 3 + part] = Math.round(stops[before]![part]! * (1 - share) + stops[before + 1]![part]! * share);
    }
  }
  return table;
}
