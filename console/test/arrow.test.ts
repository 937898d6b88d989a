// @vitest-environment node
import { readFileSync } from 'node:fs';
import * as arrow from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { readArrow } from '../src/lib/arrow';
import { fromTable, numbers } from '../src/lib/result';
import { CORPUS } from './corpus';

const respond = (bytes: Uint8Array): Response => new Response(bytes as BodyInit);

function words(values: bigint[]): Uint32Array {
  const result = new Uint32Array(values.length * 4);
  values.forEach((value, row) => {
    const digits = BigInt.asUintN(128, value);
    for (let word = 0; word < 4; word++) result[row * 4 + word] = Number((digits >> BigInt(32 * word)) & 0xffffffffn);
  });
  return result;
}

describe('results in Arrow', () => {
  it('keep every digit', async () => {
    const times = new BigInt64Array([1704205800000000001n, -1n]);
    const table = new arrow.Table({
      time: arrow.makeVector(arrow.makeData({ type: new arrow.TimestampNanosecond('UTC'), data: times, length: 2 })),
      micros: arrow.makeVector(arrow.makeData({ type: new arrow.TimestampMicrosecond(), data: new BigInt64Array([1n, -1n]), length: 2 })),
      price: arrow.makeVector(arrow.makeData({ type: new arrow.Decimal(3, 38, 128), data: words([123456789012345678901234567890n, -5n]), length: 2 })),
      big: arrow.makeVector(new BigUint64Array([18446744073709551615n, 0n])),
      signed: arrow.makeVector(new BigInt64Array([-9223372036854775808n, 9007199254740993n])),
      float: arrow.makeVector(new Float64Array([0.1, NaN])),
      single: arrow.makeVector(new Float32Array([0.1, Infinity])),
      text: arrow.vectorFromArray([CORPUS[0]!, null], new arrow.Utf8()),
      word: arrow.vectorFromArray(['a', 'a'], new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32())),
      flag: arrow.vectorFromArray([true, false], new arrow.Bool()),
      list: arrow.vectorFromArray([[1, 2], []], new arrow.List(new arrow.Field('item', new arrow.Int32()))),
      day: arrow.makeVector(arrow.makeData({ type: new arrow.DateDay(), data: new Int32Array([19724, -1]), length: 2 })),
    });
    const result = await readArrow(respond(arrow.tableToIPC(table, 'stream')), 100, () => {});
    const row = (index: number) => Object.fromEntries(result.columns.map((column, at) => [column.name, result.value(index, at)]));
    expect(result).toMatchObject({ count: 2, truncated: false });
    expect(row(0)).toEqual({
      time: '1704205800000000001', micros: '1000', price: '123456789012345678901234567.890', big: '18446744073709551615', signed: '-9223372036854775808',
      float: 0.1, single: 0.1, text: CORPUS[0], word: 'a', flag: true, list: [1, 2], day: '2024-01-02',
    });
    expect(row(1)).toEqual({
      time: '-1', micros: '-1000', price: '-0.005', big: '0', signed: '9007199254740993', float: 'NaN', single: 'Infinity', text: null, word: 'a', flag: false, list: [], day: '1969-12-31',
    });
    expect(result.columns.filter((column) => column.time).map((column) => column.name)).toEqual(['time', 'micros']);
  });

  it('of several batches are one table, and end at the limit', async () => {
    const batches = [0, 1, 2].map((part) => new arrow.Table({ n: arrow.makeVector(new Int32Array([part * 2, part * 2 + 1])) }).batches[0]!);
    const bytes = arrow.tableToIPC(new arrow.Table(batches), 'stream');
    const seen: number[] = [];
    const all = await readArrow(respond(bytes), 10, (rows) => seen.push(rows));
    expect(numbers(all, 0)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(seen).toEqual([2, 4, 6]);
    const some = await readArrow(respond(bytes), 3, () => {});
    expect(some).toMatchObject({ count: 3, truncated: true });
  });

  it('may have dictionaries that grow and are replaced', async () => {
    // Written by pyarrow: symbols A, B; then A, B, C; then Z, A.
    const bytes = readFileSync(new URL('dictionaries.arrows', import.meta.url));
    const table = await readArrow(respond(bytes), 100, () => {});
    const rows = Array.from({ length: table.count }, (_, row) => [table.value(row, 0), table.value(row, 1)]);
    expect(rows).toEqual([['A', 'BUY'], ['B', null], ['A', 'SELL'], ['C', 'SELL'], ['B', 'SELL'], ['Z', 'BUY'], ['A', null]]);
    expect(table.columns.map(({ type }) => type)).toEqual(['Utf8', 'Utf8']);
  });

  it('that are cut off are errors or what arrived, never a hang', async () => {
    const bytes = arrow.tableToIPC(new arrow.Table({ n: arrow.makeVector(new Int32Array(1000)) }), 'stream');
    for (const length of [0, 3, 8, 100, bytes.length - 200]) {
      const result = await readArrow(respond(bytes.slice(0, length)), 10_000, () => {}).catch((error: unknown) => error);
      expect(result instanceof Error || (result as { count: number }).count >= 0).toBe(true);
    }
  });
});

describe('results in JSON', () => {
  it('are tables too', () => {
    const table = fromTable({ columns: [{ name: 't', type: 'timestamp' }, { name: 'n', type: 'uint64' }], rows: [['1', '18446744073709551615'], ['2', null]] }, 1);
    expect(table).toMatchObject({ count: 1, truncated: true });
    expect(table.value(0, 1)).toBe('18446744073709551615');
    expect(table.columns.map(({ number, time }) => [number, time])).toEqual([[false, true], [true, false]]);
  });
});
