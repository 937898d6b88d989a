// The list of streams with its samples, kept up to date by the live channel.

import { get } from './api';
import { live, type Subscription } from './live.svelte';
import type { StreamRow } from './types';

/** Samples of a stream, one a second. */
export const SAMPLES = 60;

export interface Samples {
  rate: number[];
  lag: number[];
}

class Streams {
  rows = $state.raw<StreamRow[]>([]);
  loaded = $state(false);
  error = $state.raw<unknown>(undefined);
  /** Counts the seconds, so that samples are drawn again. */
  second = $state(0);
  readonly samples = new Map<string, Samples>();

  private byName = new Map<string, StreamRow>();
  private users = 0;
  private subscription: Subscription | null = null;
  private timer: ReturnType<typeof setInterval> | undefined;

  /** Keeps the list live; the function that is returned ends it. */
  use(): () => void {
    if (this.users++ === 0) this.begin();
    return () => {
      if (--this.users > 0) return;
      this.subscription?.close();
      this.subscription = null;
      clearInterval(this.timer);
    };
  }

  async refresh(): Promise<void> {
    try {
      const { streams } = await get<{ streams: StreamRow[] }>('streams');
      this.byName = new Map(streams.map((row) => [row.name, row]));
      this.rows = streams;
      for (const name of this.samples.keys()) if (!this.byName.has(name)) this.samples.delete(name);
      this.error = undefined;
      this.loaded = true;
    } catch (error) {
      this.error = error;
    }
  }

  private begin(): void {
    void this.refresh();
    this.subscription = live.subscribe<StreamRow[] | { streams: StreamRow[]; gone?: string[] }>({ channel: 'streams' }, (data) => {
      const rows = Array.isArray(data) ? data : (data.streams ?? []);
      for (const row of rows) this.byName.set(row.name, row);
      if (!Array.isArray(data)) for (const name of data.gone ?? []) this.byName.delete(name);
      this.rows = [...this.byName.values()];
      if (rows.length) this.loaded = true;
    });
    this.timer = setInterval(() => this.sample(), 1_000);
  }

  private sample(): void {
    for (const row of this.byName.values()) {
      let samples = this.samples.get(row.name);
      if (!samples) {
        samples = { rate: [], lag: [] };
        this.samples.set(row.name, samples);
      }
      push(samples.rate, row.appended_per_second);
      push(samples.lag, Number(row.lag ?? 0));
    }
    this.second += 1;
    if (this.error !== undefined && live.state === 'open') void this.refresh();
  }
}

function push(values: number[], value: number): void {
  values.push(value);
  if (values.length > SAMPLES) values.shift();
}

export const streams = new Streams();
