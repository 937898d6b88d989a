// The result of a query, whichever form it came in.

import type { Json } from './types';

export interface ResultColumn {
  name: string;
  type: string;
  number: boolean;
  time: boolean;
}

export interface ResultTable {
  columns: ResultColumn[];
  count: number;
  truncated: boolean;
  value(row: number, column: number): Json;
}

interface TableForm {
  columns: { name: string; type: string }[];
  rows: Json[][];
  truncated?: boolean;
}

const NUMBER = /^(u?int|float|double|decimal|[iuf]\d)/i;

export function fromTable(form: TableForm, most: number): ResultTable {
  return {
    columns: form.columns.map(({ name, type }) => ({ name, type, number: NUMBER.test(type), time: /^timestamp/i.test(type) })),
    count: Math.min(form.rows.length, most),
    truncated: form.truncated === true || form.rows.length > most,
    value: (row, column) => form.rows[row]?.[column] ?? null,
  };
}

/** A column as numbers, for drawing. */
export function numbers(table: ResultTable, column: number): (number | null)[] {
  const result: (number | null)[] = [];
  for (let row = 0; row < table.count; row++) {
    const value = table.value(row, column);
    const number = value === null || typeof value === 'object' || typeof value === 'boolean' ? NaN : Number(value);
    result.push(Number.isFinite(number) ? number : null);
  }
  return result;
}

export const textOfValue = (value: Json): string =>
  value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);

/** An identifier of a query, also where the page is not in a secure context. */
export function queryId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
