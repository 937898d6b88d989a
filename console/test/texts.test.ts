import { describe, expect, it } from 'vitest';
import { command, bookCommand, csv, csvField, csvTable, flatten, python, shellWord, summary } from '../src/lib/copy';
import { minus, plus, write } from '../src/lib/decimal';
import { bytes, compare, grouped, latency, short, sorted } from '../src/lib/format';
import { windowOf, scrollTo, HEIGHT_MAX } from '../src/lib/grid';
import { gapsIn, palette, plotted } from '../src/lib/chart';
import { address, streamPath } from '../src/lib/api';
import { href, parseRoute } from '../src/lib/route.svelte';
import { backOff } from '../src/lib/live.svelte';
import { CORPUS } from './corpus';

describe('numbers', () => {
  it('of 64 bits are never rounded', () => {
    expect(grouped('18446744073709551615')).toBe('18 446 744 073 709 551 615');
    expect(grouped('-1234.5670')).toBe('-1 234.5670');
    expect(compare('9007199254740993', '9007199254740992')).toBe(1);
    expect(compare('10', '9')).toBe(1);
    expect(['b', null, 'a'].sort(compare)).toEqual([null, 'a', 'b']);
    const same = (value: unknown): unknown => value;
    expect(sorted(['9007199254740993', '10', '9007199254740992', null, '-3', 'x', 7.5], same)).toEqual([null, '-3', 7.5, '10', '9007199254740992', '9007199254740993', 'x']);
    expect(sorted([1, 2, 3], () => 0, true)).toEqual([1, 2, 3]);
  });
  it('are short with three digits', () => {
    expect(short('9999')).toBe('9 999');
    expect(short('10000')).toBe('10.0 k');
    expect(short('18446744073709551615')).toBe('18446744 T');
    expect(short(0)).toBe('0');
    expect(short(null)).toBe('–');
    expect(short(0.1234)).toBe('0.123');
    expect(bytes(1023)).toBe('1023 B');
    expect(bytes(1_048_576)).toBe('1.00 MiB');
    expect(latency(0.000_021)).toBe('21 µs');
    expect(latency(0.0021)).toBe('2.1 ms');
    expect(latency(null)).toBe('–');
  });
  it('that are decimals stay exact', () => {
    expect(minus('0.3', '0.1')).toBe('0.2');
    expect(minus('212.890000000', '212.87')).toBe('0.020000000');
    expect(plus('-0.05', '0.1')).toBe('0.05');
    expect(minus('1e5', '1')).toBeNull();
    expect(write(-5n, 3)).toBe('-0.005');
    expect(write(12345n, 0)).toBe('12345');
  });
});

describe('copies', () => {
  const selection = { stream: 'feed', symbols: ['AAPL'], types: ['Trade'], from: 1704205800000000000n, to: 1704205801000000001n };
  it('are commands of the same messages', () => {
    expect(command(selection, 'tape://h')).toBe('tapedb read --db tape://h --from 2024-01-02T14:30:00Z --to 2024-01-02T14:30:01.000000001Z --symbols AAPL --types Trade feed');
    expect(command({ ...selection, live: true }, 'tape://h')).toBe('tapedb tail --db tape://h --symbols AAPL --types Trade feed');
    expect(bookCommand('feed', 'AAPL', 1704205800000000000n, 5, 'tape://h')).toBe('tapedb book --db tape://h --at 2024-01-02T14:30:00Z --depth 5 feed AAPL');
    expect(python(selection, 'tape://h')).toBe('messages = tapedb.open("tape://h")["feed"].cursor(symbols=["AAPL"], types=["Trade"], start="2024-01-02T14:30:00Z", end="2024-01-02T14:30:01.000000001Z")');
  });
  it('cannot leave their quotes', () => {
    expect(shellWord("it's $(rm)")).toBe("'it'\\''s $(rm)'");
    expect(shellWord('')).toBe("''");
    for (const text of CORPUS) {
      const line = command({ ...selection, stream: text, symbols: [text] }, 'tape://h');
      // What a shell would make of it: words outside of quotes are plain.
      const outside = line.replace(/\\'/g, '').replace(/'[^']*'/g, '');
      expect(outside).not.toMatch(/[<>$`;&|()"\\]/);
      expect(python({ ...selection, symbols: [text] }, 'tape://h')).toContain(JSON.stringify(text));
    }
    expect(command({ ...selection, stream: '-x' }, 'd')).toContain('-- -x');
    expect(command({ ...selection, symbols: ['-A'] }, 'd')).toContain('--symbols=-A');
  });
  it('of CSV are no formulas, and negative numbers stay', () => {
    expect(csvField('=1+1')).toBe(`"'=1+1"`);
    expect(csvField('@x')).toBe(`"'@x"`);
    expect(csvField('-cmd')).toBe(`"'-cmd"`);
    expect(csvField('-12.50')).toBe('-12.50');
    expect(csvField('a"b,c')).toBe('"a""b,c"');
    expect(csvField(null)).toBe('');
    expect(csvTable(['a', '=b'], [[1, '2']])).toBe(`a,"'=b"\n1,2`);
  });
  it('flatten records', () => {
    expect([...flatten({ a: { b: 1, c: { d: '2' } }, e: [1] })]).toEqual([['a.b', 1], ['a.c.d', '2'], ['e', [1]]]);
    const one = { time: '1', symbol: 'A', type: 'T', sequence: '9007199254740993', space: 0, body: { p: '1.50', n: null } };
    expect(csv([one])).toBe('time,symbol,type,sequence,p,n\n1,A,T,9007199254740993,1.50,');
    expect(summary({ a: 1, b: null, c: [{ d: 1 }, { d: 2 }] })).toBe('a 1  c [{d 1}, +1]');
    expect(summary(Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`f${n}`, 'x']))).length).toBeLessThan(250);
  });
});

describe('grids', () => {
  it('draw only their window, of any number of rows', () => {
    expect(windowOf(5_000, 28, 0, 560)).toMatchObject({ first: 0, last: 24, total: 140_000 });
    const huge = windowOf(10_000_000, 24, HEIGHT_MAX - 600, 600);
    expect(huge.total).toBe(HEIGHT_MAX);
    expect(huge.last).toBe(10_000_000);
    expect(huge.last - huge.first).toBeLessThan(40);
    expect(windowOf(0, 28, 0, 500)).toMatchObject({ first: 0, last: 0, total: 0 });
  });
  it('scroll to rows that are not in it', () => {
    expect(scrollTo(3, 100, 20, 0, 200)).toBeNull();
    expect(scrollTo(30, 100, 20, 0, 200)).toBe(420);
    expect(scrollTo(1, 100, 20, 200, 200)).toBe(20);
    const place = scrollTo(9_999_999, 10_000_000, 24, 0, 600)!;
    expect(windowOf(10_000_000, 24, place, 600).last).toBe(10_000_000);
  });
});

describe('charts', () => {
  it('break lines at gaps', () => {
    const times = ['100', '200', '500', '600'];
    const values = [1, 2, 3, 4];
    const data = { time: times, first: values, min: values, max: values, last: values, count: values, volume: null, raw: false, gaps: [{ from: '250', to: '450', cause: 'x' }] };
    expect(plotted(data, 100n)).toMatchObject({ x: [0, 100, 150, 400, 500], last: [1, 2, null, 3, 4], amount: [1, 2, null, 3, 4] });
    expect(gapsIn(data.gaps, 300n, 1000n)).toEqual([{ from: 0, to: 150, cause: 'x' }]);
    expect(gapsIn(data.gaps, 460n, 1000n)).toEqual([]);
  });
  it('have 256 colours', () => {
    const table = palette([[0, 0, 0], [255, 255, 255]]);
    expect([...table.slice(0, 3), ...table.slice(-3)]).toEqual([0, 0, 0, 255, 255, 255]);
  });
});

describe('addresses', () => {
  it('hold any name', () => {
    for (const name of CORPUS) {
      const path = href('messages', name, { symbols: name, from: null });
      const url = new URL(path, 'http://h');
      expect(url.origin).toBe('http://h');
      expect(parseRoute(url.pathname, url.search)).toEqual({ view: 'messages', stream: name, query: { symbols: name } });
      const request = new URL(address(streamPath(name, 'messages'), { symbols: [name, 'A'] }), 'http://h');
      expect(request.origin).toBe('http://h');
      // A name of dots alone would be taken for a step in the path; streams have no such names.
      expect(request.pathname.startsWith('/api/streams/')).toBe(true);
    }
    expect(parseRoute('/', '')).toEqual({ view: 'streams', stream: null, query: {} });
    expect(parseRoute('/streams/a%2Fb', '').stream).toBe('a/b');
    expect(parseRoute('/streams/%E0%A4%A', '').stream).toBe('%E0%A4%A');
    expect(parseRoute('/elsewhere', '').view).toBe('streams');
  });
});

describe('reconnecting', () => {
  it('waits longer after each failure, up to a bound', () => {
    expect(backOff(0, 0)).toBe(400);
    expect(backOff(3, 0)).toBe(3200);
    expect(backOff(100, 0)).toBe(15_000);
    expect(backOff(100, 1)).toBe(11_250);
  });
});
