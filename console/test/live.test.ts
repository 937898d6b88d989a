import { describe, expect, it, vi } from 'vitest';
import { Live } from '../src/lib/live.svelte';

class Socket {
  static all: Socket[] = [];
  readyState = 0;
  sent: Record<string, unknown>[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  constructor() {
    Socket.all.push(this);
  }
  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }
  close(): void {
    this.readyState = 3;
    this.onclose?.();
  }
  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }
  receive(frame: object | string): void {
    this.onmessage?.({ data: typeof frame === 'string' ? frame : JSON.stringify(frame) });
  }
}

const start = (): { live: Live; socket: () => Socket } => {
  Socket.all = [];
  return { live: new Live(() => new Socket() as unknown as WebSocket), socket: () => Socket.all.at(-1)! };
};

describe('the connection of a tab', () => {
  it('is one for all subscriptions, and each frame is acknowledged after rendering', async () => {
    const { live, socket } = start();
    const [first, second]: [unknown[], unknown[]] = [[], []];
    live.subscribe({ channel: 'streams' }, (data) => first.push(data));
    live.subscribe({ channel: 'tail', stream: 'feed' }, (data) => second.push(data));
    expect(Socket.all.length).toBe(1);
    socket().open();
    expect(socket().sent).toEqual([
      { op: 'subscribe', id: 1, channel: 'streams' },
      { op: 'subscribe', id: 2, channel: 'tail', stream: 'feed' },
    ]);
    socket().receive({ frame: 5, items: [{ id: 2, stream: 'tail', data: { messages: [] } }, { id: 9, data: 0 }] });
    expect(second).toEqual([{ messages: [] }]);
    expect(first).toEqual([]);
    expect(socket().sent.length).toBe(2);
    await vi.waitFor(() => expect(socket().sent.at(-1)).toEqual({ op: 'ack', frame: 5 }));
  });

  it('is opened again with all subscriptions, paused ones too', () => {
    vi.useFakeTimers();
    try {
      const { live, socket } = start();
      const tail = live.subscribe({ channel: 'tail', stream: 'feed' }, () => {});
      const gone = live.subscribe({ channel: 'status' }, () => {});
      socket().open();
      tail.pause();
      gone.close();
      expect(socket().sent.slice(2)).toEqual([{ op: 'pause', id: 1 }, { op: 'unsubscribe', id: 2 }]);
      socket().receive({ closing: 'the server is shutting down' });
      socket().close();
      expect(live.state).toBe('lost');
      expect(live.notice).toBe('the server is shutting down');
      vi.advanceTimersByTime(500);
      expect(Socket.all.length).toBe(2);
      socket().open();
      expect(live.state).toBe('open');
      expect(socket().sent).toEqual([{ op: 'subscribe', id: 1, channel: 'tail', stream: 'feed' }, { op: 'pause', id: 1 }]);
    } finally {
      vi.useRealTimers();
    }
  });

  it('acknowledges no frame of a connection that has ended', async () => {
    const { live, socket } = start();
    live.subscribe({ channel: 'status' }, () => {});
    socket().open();
    socket().receive({ frame: 8, items: [{ id: 1, data: {} }] });
    socket().close();
    await vi.waitFor(() => expect(Socket.all.length).toBe(2));
    socket().open();
    await new Promise((done) => setTimeout(done, 50));
    expect(socket().sent).toEqual([{ op: 'subscribe', id: 1, channel: 'status' }]);
  });

  it('takes errors of one subscription, and frames that are no JSON', () => {
    const { live, socket } = start();
    const failed: string[] = [];
    live.subscribe({ channel: 'book' }, () => {}, (text) => failed.push(text));
    socket().open();
    socket().receive('{');
    socket().receive({ frame: 1, items: [{ id: 1, error: 'no right' }] });
    expect(failed).toEqual(['no right']);
  });

  it('stays closed after a logout', () => {
    const { live, socket } = start();
    live.subscribe({ channel: 'status' }, () => {});
    socket().open();
    live.close();
    expect(live.state).toBe('idle');
    expect(Socket.all.length).toBe(1);
  });
});
