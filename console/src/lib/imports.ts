// What an import of a file is told.

/** Formats of single files, as `tapedb import` has them. */
export const FORMATS = [
  'csv', 'parquet', 'us-equity-ticks', 'fx-ticks', 'futures-ticks', 'binance-raw-ws', 'capture', 'dbn', 'lobster', 'itch', 'iex', 'mdp3', 'tardis', 'bybit-ob', 'coinbase-snapshot',
];

/** The fields of the form, empty. */
export const fieldsOf = () => ({
  format: '',
  time: '',
  symbol: '',
  symbol_is: '',
  zone: '',
  date_column: '',
  time_unit: '',
  delimiter: '',
  type: '',
  map: '',
  skip: false,
  again: false,
});

/** The body of the request. */
export function wanted(fields: ReturnType<typeof fieldsOf>, preview: boolean): Record<string, unknown> {
  const { map, skip, again, ...texts } = fields;
  const given = Object.entries(texts).filter(([, text]) => text.trim() !== '');
  const pairs = map.split(',').map((pair) => pair.trim()).filter((pair) => pair !== '');
  return { ...Object.fromEntries(given.map(([key, text]) => [key, text.trim()])), map: pairs, skip_bad_lines: skip, again, preview };
}

/** A name for the stream of a file. */
export function streamName(file: string): string {
  const base = file.replace(/\.(gz|zip|zst|csv|tsv|txt|parquet|json|jsonl|dbn|pcap)\b/gi, '');
  return base.replace(/[^\p{L}\p{N}_.-]+/gu, '-').replace(/^[-.]+|[-.]+$/g, '').toLowerCase().slice(0, 60);
}
