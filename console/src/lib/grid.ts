import type { Snippet } from 'svelte';

/** A column of a grid. */
export interface Column<Row> {
  id: string;
  title: string;
  /** A track of a CSS grid, for example `minmax(120px, 1fr)`. */
  width: string;
  number?: boolean;
  /** What the column is sorted by; without it, the column is not sortable. */
  sort?: (row: Row) => unknown;
  text?: (row: Row) => string;
  cell?: Snippet<[Row]>;
  tone?: (row: Row) => string;
}

export interface Sorting {
  id: string;
  down: boolean;
}

/** Browsers limit the height of an element: taller grids scroll in proportion. */
export const HEIGHT_MAX = 12_000_000;

/** Which rows are drawn, and where: of `count` rows, with `scroll` of the scrolled height in a window. */
export function windowOf(count: number, row: number, scroll: number, height: number): { first: number; last: number; total: number; top: number } {
  const full = count * row;
  const total = Math.min(full, HEIGHT_MAX);
  const most = Math.max(1, total - height);
  const place = full > HEIGHT_MAX ? (Math.min(scroll, most) / most) * Math.max(0, full - height) : scroll;
  const first = Math.max(0, Math.floor(place / row) - 4);
  const last = Math.min(count, Math.ceil((place + height) / row) + 4);
  return { first, last, total, top: first * row - (place - scroll) };
}

/** The scroll position that shows a row, or null if it is visible. */
export function scrollTo(index: number, count: number, row: number, scroll: number, height: number): number | null {
  const full = count * row;
  const factor = full > HEIGHT_MAX ? (HEIGHT_MAX - height) / Math.max(1, full - height) : 1;
  const place = scroll / factor;
  if (index * row < place) return index * row * factor;
  if ((index + 1) * row > place + height) return ((index + 1) * row - height) * factor;
  return null;
}
