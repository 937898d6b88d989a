// Decimals stay texts. Sums of them are computed in BigInt at the larger scale.

function parse(text: string): { digits: bigint; scale: number } | null {
  const match = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) return null;
  const [, sign = '', whole = '0', rest = ''] = match;
  const digits = BigInt(whole + rest);
  return { digits: sign ? -digits : digits, scale: rest.length };
}

export function write(digits: bigint, scale: number): string {
  const sign = digits < 0n ? '-' : '';
  const text = String(digits < 0n ? -digits : digits).padStart(scale + 1, '0');
  return scale ? `${sign}${text.slice(0, -scale)}.${text.slice(-scale)}` : sign + text;
}

function combine(a: string, b: string, sign: bigint): string | null {
  const [left, right] = [parse(a), parse(b)];
  if (!left || !right) return null;
  const scale = Math.max(left.scale, right.scale);
  const at = (value: { digits: bigint; scale: number }): bigint => value.digits * 10n ** BigInt(scale - value.scale);
  return write(at(left) + sign * at(right), scale);
}

/** The exact difference of two decimals, or null if one is not a plain decimal. */
export const minus = (a: string, b: string): string | null => combine(a, b, -1n);
/** The exact sum of two decimals, or null if one is not a plain decimal. */
export const plus = (a: string, b: string): string | null => combine(a, b, 1n);

/** Sizes as shares of the largest, for bars: a drawing needs no exact number. */
export const forDrawing = (text: string): number => {
  const value = Number.parseFloat(text);
  return Number.isFinite(value) ? value : 0;
};
