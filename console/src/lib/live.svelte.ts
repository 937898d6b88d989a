// The one WebSocket of a tab. Subscriptions share it; a frame is acknowledged after it was rendered, so a slow tab receives
// the newest state and no queue. When the connection is lost, it is opened again and all subscriptions with it.

import { tick } from 'svelte';

export type LinkState = 'idle' | 'connecting' | 'open' | 'lost';

export interface Channel {
  channel: 'tail' | 'streams' | 'status' | 'book' | 'play';
  [parameter: string]: unknown;
}

export interface Subscription {
  pause(): void;
  resume(): void;
  close(): void;
}

interface Entry {
  channel: Channel;
  paused: boolean;
  data: (data: never) => void;
  failed: (error: string) => void;
}

interface Frame {
  frame?: number;
  items?: { id: number; data?: unknown; error?: string }[];
  closing?: string;
}

const BACK_OFF_MIN = 400;
const BACK_OFF_MAX = 15_000;
/** Pages that are not visible paint nothing: then this time passes before a frame is acknowledged, in milliseconds. */
const HIDDEN_PAUSE = 1_000;

/** The wait before the attempt after `attempts` failed ones: doubles, with up to a quarter taken off at random. */
export function backOff(attempts: number, random = Math.random()): number {
  const full = Math.min(BACK_OFF_MAX, BACK_OFF_MIN * 2 ** Math.min(attempts, 10));
  return full * (1 - random / 4);
}

export class Live {
  state = $state<LinkState>('idle');
  /** Why the connection was lost, or what the server said last. */
  notice = $state('');
  frames = 0;

  private socket: WebSocket | null = null;
  private readonly entries = new Map<number, Entry>();
  private next = 1;
  private attempts = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private idle: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly connect: () => WebSocket = openSocket) {
    if (typeof addEventListener === 'function') {
      addEventListener('online', () => this.retry());
    }
  }

  subscribe<T>(channel: Channel, data: (data: T) => void, failed: (error: string) => void = () => {}): Subscription {
    const id = this.next++;
    this.entries.set(id, { channel, paused: false, data: data as (data: never) => void, failed });
    clearTimeout(this.idle);
    if (this.state === 'open') this.send({ op: 'subscribe', id, ...channel });
    else this.open();
    const pauseOrResume = (op: 'pause' | 'resume'): void => {
      const entry = this.entries.get(id);
      if (!entry) return;
      entry.paused = op === 'pause';
      this.send({ op, id });
    };
    return {
      pause: () => pauseOrResume('pause'),
      resume: () => pauseOrResume('resume'),
      close: () => {
        if (!this.entries.delete(id)) return;
        this.send({ op: 'unsubscribe', id });
      },
    };
  }

  /** Tries at once, instead of after the wait. */
  retry(): void {
    if (this.state !== 'lost') return;
    clearTimeout(this.timer);
    this.attempts = 0;
    this.open();
  }

  /** Ends the connection, for example at logout; the next subscription opens it again. */
  close(): void {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    this.state = 'idle';
    socket?.close();
  }

  private send(message: object): void {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(message));
  }

  private open(): void {
    if (this.socket) return;
    clearTimeout(this.timer);
    if (this.state !== 'lost') this.state = 'connecting';
    let socket: WebSocket;
    try {
      socket = this.connect();
    } catch {
      this.lost();
      return;
    }
    this.socket = socket;
    socket.onopen = () => {
      if (this.socket !== socket) return;
      this.state = 'open';
      this.notice = '';
      this.attempts = 0;
      for (const [id, { channel, paused }] of this.entries) {
        this.send({ op: 'subscribe', id, ...channel });
        if (paused) this.send({ op: 'pause', id });
      }
    };
    socket.onmessage = (event) => {
      if (this.socket === socket) void this.receive(socket, String(event.data));
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.lost();
    };
  }

  private lost(): void {
    this.state = 'lost';
    if (this.entries.size === 0) return;
    this.timer = setTimeout(() => this.open(), backOff(this.attempts++));
  }

  private async receive(socket: WebSocket, text: string): Promise<void> {
    let frame: Frame;
    try {
      frame = JSON.parse(text) as Frame;
    } catch {
      return;
    }
    if (frame.closing !== undefined) this.notice = frame.closing;
    for (const { id, data, error } of frame.items ?? []) {
      const entry = this.entries.get(id);
      if (!entry) continue;
      if (error !== undefined) entry.failed(error);
      else entry.data(data as never);
    }
    if (frame.frame === undefined) return;
    this.frames += 1;
    await rendered();
    // Frames of a connection that has ended are not those of the next one.
    if (this.socket === socket) this.send({ op: 'ack', frame: frame.frame });
  }
}

async function rendered(): Promise<void> {
  await tick();
  await new Promise<void>((done) => {
    if (document.hidden) setTimeout(done, HIDDEN_PAUSE);
    else requestAnimationFrame(() => done());
  });
}

function openSocket(): WebSocket {
  const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
  return new WebSocket(`${scheme}//${location.host}/api/ws`);
}

export const live = new Live();
