import { describe, expect, it } from 'vitest';
import { BOUNDS, placed } from '../src/lib/histogram';
import { fieldsOf, streamName, wanted } from '../src/lib/imports';
import { CORPUS } from './corpus';

describe('an import', () => {
  it('tells the server what is filled in', () => {
    expect(wanted(fieldsOf(), true)).toEqual({ map: [], skip_bad_lines: false, again: false, preview: true });
    const fields = { ...fieldsOf(), format: 'csv', time: ' ts ', map: 'Last Price=price, Junk=,', skip: true };
    expect(wanted(fields, false)).toEqual({ format: 'csv', time: 'ts', map: ['Last Price=price', 'Junk='], skip_bad_lines: true, again: false, preview: false });
  });
  it('names a stream after its file', () => {
    expect(streamName('Quotes 2026.csv.gz')).toBe('quotes-2026');
    expect(streamName('AAPL_2024-01-02.zip')).toBe('aapl_2024-01-02');
    expect(streamName('.csv')).toBe('');
    for (const text of CORPUS) expect(streamName(text)).toMatch(/^([\p{L}\p{N}_][\p{L}\p{N}_.-]*)?$/u);
  });
});

describe('a histogram', () => {
  it('has a place for each range', () => {
    const counts = placed([[0.000025, 7], [10, 2], [null, 1], [0.3, 4]]);
    expect(counts).toHaveLength(BOUNDS.length + 1);
    expect([counts[4], counts[21], counts[22], counts[BOUNDS.indexOf(0.5)]]).toEqual([7, 2, 1, 4]);
    expect(placed(undefined).every((count) => count === 0)).toBe(true);
  });
});
