import { describe, expect, it } from 'vitest';
import { between, formatSpan, formatTime, iso, parseTime, shareOf, tickText, ticks } from '../src/lib/time';

describe('times', () => {
  it('keep all nine digits', () => {
    expect(formatTime('1704205800000000001', 'UTC')).toBe('2024-01-02 14:30:00.000000001');
    expect(formatTime(-1n, 'UTC')).toBe('1969-12-31 23:59:59.999999999');
    expect(formatTime('9223372036854775807', 'UTC')).toBe('2262-04-11 23:47:16.854775807');
    expect(formatTime('-9223372036854775808', 'UTC')).toBe('1677-09-21 00:12:43.145224192');
    expect(formatTime('not a time', 'UTC')).toBe('–');
    expect(formatTime(null, 'UTC')).toBe('–');
  });

  it('are shown in a zone, with its changes of clocks', () => {
    expect(formatTime('1704205800000000000', 'America/New_York', 3)).toBe('2024-01-02 09:30:00.000');
    expect(formatTime('1720013400000000000', 'America/New_York', 0)).toBe('2024-07-03 09:30:00');
  });

  it('that are typed are the same times', () => {
    for (const zone of ['UTC', 'America/New_York', 'Asia/Tokyo', 'Australia/Sydney', 'Asia/Kolkata']) {
      for (const time of [1704205800123456789n, 1720013400000000001n, 0n, 1710054000000000000n, 1711846800999999999n]) {
        expect(parseTime(formatTime(time, zone), zone)).toBe(time);
      }
    }
    expect(parseTime('2024-01-02', 'UTC')).toBe(1704153600000000000n);
    expect(parseTime('2024-01-02T14:30:00.5Z', 'Asia/Tokyo')).toBe(1704205800500000000n);
    expect(parseTime('2024-01-02 09:30-05:00', 'UTC')).toBe(1704205800000000000n);
    expect(parseTime('1704205800000000001', 'Asia/Tokyo')).toBe(1704205800000000001n);
  });

  it('that are no times are refused', () => {
    for (const text of ['', 'now', '2024-02-30', '2024-13-01', '2024-01-02 25:00', '9223372036854775808', '3000-01-01', '2024-01-02 14:30:00.1234567890']) {
      expect(parseTime(text, 'UTC'), text).toBeNull();
    }
  });

  it('are written as commands take them', () => {
    expect(iso(1704205800120000000n)).toBe('2024-01-02T14:30:00.12Z');
    expect(iso(1704205800000000000n)).toBe('2024-01-02T14:30:00Z');
  });

  it('have spans', () => {
    expect(formatSpan(0n)).toBe('0 s');
    expect(formatSpan(999n)).toBe('999 ns');
    expect(formatSpan(1_500_000_000n)).toBe('1.5 s');
    expect(formatSpan(90n * 60n * 1_000_000_000n)).toBe('1 h 30 m');
    expect(formatSpan(-1_000_000n)).toBe('−1 ms');
  });

  it('have marks at round places, from nanoseconds to years', () => {
    for (const span of [20n, 4_000n, 5_000_000n, 1_000_000_000n, 3_600_000_000_000n, 86_400_000_000_000n, 31_536_000_000_000_000n]) {
      const from = 1704205800123456789n;
      const { times, step } = ticks(from, from + span, 8);
      expect(times.length).toBeGreaterThan(0);
      expect(times.length).toBeLessThanOrEqual(9);
      for (const time of times) expect(time >= from && time <= from + span && time % step === 0n).toBe(true);
    }
    expect(tickText(1704205800000000000n, 60_000_000_000n, 'UTC')).toBe('14:30');
    expect(tickText(1704205800000000000n, 86_400_000_000_000n, 'UTC')).toBe('2024-01-02');
  });

  it('are shares of ranges', () => {
    expect(between(0n, 1000n, 0.5)).toBe(500n);
    expect(between(0n, 1000n, 2)).toBe(1000n);
    expect(shareOf(250n, 0n, 1000n)).toBe(0.25);
    expect(shareOf(1n, 5n, 5n)).toBe(0);
  });
});
