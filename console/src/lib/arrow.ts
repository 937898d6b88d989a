// Reads Arrow's stream format. Values are taken from the buffers: the library's own access makes milliseconds of timestamps
// and loses digits. This module and the library are one chunk that is loaded with the first result.

import { DataType, RecordBatchReader, Type, type Data, type Field } from 'apache-arrow';
import { write } from './decimal';
import { iso } from './time';
import type { ResultColumn, ResultTable } from './result';
import type { Json } from './types';

const UNITS = [1_000_000_000n, 1_000_000n, 1_000n, 1n];
const text = new TextDecoder();

export async function readArrow(response: Response, most: number, progress: (rows: number) => void): Promise<ResultTable> {
  const reader = await RecordBatchReader.from(response);
  await reader.open();
  const fields = reader.schema.fields;
  const columns: ResultColumn[] = fields.map((field) => ({ name: field.name, type: typeName(field), number: isNumber(field.type), time: isTime(field.type) }));
  const batches: { data: Data[]; begin: number }[] = [];
  let count = 0;
  let truncated = false;
  for await (const batch of reader) {
    batches.push({ data: batch.data.children as Data[], begin: count });
    count += batch.numRows;
    progress(Math.min(count, most));
    if (count > most) {
      truncated = true;
      count = most;
      await reader.cancel();
      break;
    }
  }
  const find = (row: number): { data: Data[]; begin: number } => {
    let [low, high] = [0, batches.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (batches[middle]!.begin <= row) low = middle;
      else high = middle;
    }
    return batches[low]!;
  };
  return {
    columns,
    count,
    truncated,
    value(row, column) {
      const batch = find(row);
      const data = batch.data[column];
      return data ? read(data, row - batch.begin) : null;
    },
  };
}

function isNumber(type: DataType): boolean {
  return DataType.isInt(type) || DataType.isFloat(type) || DataType.isDecimal(type);
}

const isTime = (type: DataType): boolean => DataType.isTimestamp(type);

function typeName(field: Field): string {
  const { type } = field;
  if (DataType.isDictionary(type)) return String(type.dictionary);
  return String(type).replace('Timestamp<NANOSECOND', 'Timestamp<ns').toLowerCase();
}

/** A value as JSON: integers of 64 bits, decimals and times as texts; a timestamp as nanoseconds. */
export function read(data: Data, index: number): Json {
  const { type } = data;
  if (type.typeId === Type.Null || (data.nullCount > 0 && !data.getValid(index))) return null;
  const values = data.values as unknown;
  switch (type.typeId) {
    case Type.Int: {
      const value = (values as ArrayLike<number | bigint>)[index]!;
      return typeof value === 'bigint' ? String(value) : value;
    }
    case Type.Float:
      return float(data, index);
    case Type.Bool:
      return bit(values as Uint8Array, data.offset + index);
    case Type.Decimal:
      return decimal(values as Uint32Array, index, type as DataType & { scale: number; bitWidth: number });
    case Type.Timestamp:
      return String((values as BigInt64Array)[index]! * UNITS[(type as DataType & { unit: number }).unit]!);
    case Type.Date: {
      const value = (values as ArrayLike<number | bigint>)[index]!;
      const days = typeof value === 'bigint' ? value / 86_400_000n : BigInt(value);
      return iso(days * 86_400_000_000_000n).slice(0, 10);
    }
    case Type.Time:
    case Type.Duration:
      return String((values as ArrayLike<number | bigint>)[index]!);
    case Type.Utf8:
    case Type.LargeUtf8:
      return text.decode(slice(data, index));
    case Type.Binary:
    case Type.LargeBinary:
      return hex(slice(data, index));
    case Type.FixedSizeBinary: {
      const width = (type as DataType & { byteWidth: number }).byteWidth;
      return hex((values as Uint8Array).subarray(index * width, (index + 1) * width));
    }
    case Type.Utf8View:
      return text.decode(view(data, index));
    case Type.BinaryView:
      return hex(view(data, index));
    case Type.Dictionary: {
      const key = (values as ArrayLike<number | bigint>)[index]!;
      return fromVector(data, Number(key));
    }
    case Type.Struct: {
      const result: { [key: string]: Json } = {};
      type.children.forEach((field: Field, at: number) => (result[field.name] = read(data.children[at]!, index)));
      return result;
    }
    case Type.List:
    case Type.LargeList:
    case Type.Map: {
      const offsets = data.valueOffsets as unknown as ArrayLike<number | bigint>;
      return items(data.children[0]!, Number(offsets[index]), Number(offsets[index + 1]));
    }
    case Type.FixedSizeList: {
      const size = (type as DataType & { listSize: number }).listSize;
      return items(data.children[0]!, index * size, (index + 1) * size);
    }
    case Type.Union: {
      const union = type as DataType & { typeIdToChildIndex: Record<number, number>; mode: number };
      const child = data.children[union.typeIdToChildIndex[data.typeIds[index]!] ?? 0];
      const dense = union.mode === 1;
      return child ? read(child, dense ? Number(data.valueOffsets[index]) : index) : null;
    }
    default:
      return `(${String(type)})`;
  }
}

function float(data: Data, index: number): Json {
  const value = (data.values as ArrayLike<number>)[index]!;
  // Half precision is rare: its two bytes are shown as a number of its own.
  if ((data.type as DataType & { precision: number }).precision === 0) return half(value);
  if (!Number.isFinite(value)) return String(value);
  return data.values instanceof Float32Array ? Number(Number.parseFloat(value.toPrecision(7))) : value;
}

function half(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : (fraction / 1024) * 2 ** -14);
}

const bit = (bits: Uint8Array, index: number): boolean => ((bits[index >> 3] ?? 0) & (1 << (index & 7))) !== 0;

function decimal(words: Uint32Array, index: number, { scale, bitWidth }: { scale: number; bitWidth: number }): string {
  const size = bitWidth / 32;
  let digits = 0n;
  for (let word = size - 1; word >= 0; word--) digits = (digits << 32n) | BigInt(words[index * size + word]!);
  return write(BigInt.asIntN(bitWidth, digits), scale);
}

function slice(data: Data, index: number): Uint8Array {
  const offsets = data.valueOffsets as unknown as ArrayLike<number | bigint>;
  return (data.values as Uint8Array).subarray(Number(offsets[index]), Number(offsets[index + 1]));
}

function view(data: Data, index: number): Uint8Array {
  const views = data.values as Uint8Array;
  const place = new DataView(views.buffer, views.byteOffset + index * 16, 16);
  const length = place.getInt32(0, true);
  if (length <= 12) return views.subarray(index * 16 + 4, index * 16 + 4 + length);
  const buffers = (data as Data & { variadicBuffers: readonly Uint8Array[] }).variadicBuffers;
  const offset = place.getInt32(12, true);
  return buffers[place.getInt32(8, true)]?.subarray(offset, offset + length) ?? new Uint8Array();
}

const hex = (bytes: Uint8Array): string => `0x${Array.from(bytes.subarray(0, 256), (byte) => byte.toString(16).padStart(2, '0')).join('')}`;

function items(child: Data, begin: number, end: number): Json[] {
  const result: Json[] = [];
  for (let index = begin; index < end; index++) result.push(read(child, index));
  return result;
}

function fromVector(data: Data, key: number): Json {
  const chunks = data.dictionary?.data ?? [];
  let before = 0;
  for (const chunk of chunks) {
    if (key < before + chunk.length) return read(chunk, key - before);
    before += chunk.length;
  }
  return null;
}
