// The ranges of the server's histograms of durations.

/** Upper bounds in seconds; longer durations are in one range more. */
export const BOUNDS: readonly number[] = [
  1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** Counts by range: those that are not told are 0. A bound that is no known one counts at the next. */
export function placed(ranges: readonly (readonly [number | null, number])[] | undefined): number[] {
  const counts = new Array<number>(BOUNDS.length + 1).fill(0);
  for (const [bound, count] of ranges ?? []) {
    const at = bound === null ? -1 : BOUNDS.findIndex((known) => known >= bound * 0.999);
    counts[at < 0 ? BOUNDS.length : at]! += count;
  }
  return counts;
}
