// State of the whole page: the session, short notices, the dialog of keys.

import { Failure, get, onLoginNeeded, send, textOf } from './api';
import { live } from './live.svelte';
import type { Session } from './types';

class App {
  session = $state<Session | null>(null);
  /** Why there is no session; the page then shows this. */
  failure = $state('');
  needLogin = $state(false);
  help = $state(false);
  notice = $state<{ text: string; bad: boolean } | null>(null);
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    onLoginNeeded(() => {
      this.needLogin = true;
      live.close();
    });
  }

  async start(): Promise<void> {
    try {
      this.session = await get<Session>('session');
      this.failure = '';
      this.needLogin = this.session.user === null;
    } catch (error) {
      this.failure = textOf(error);
      if (error instanceof Failure && error.gone) setTimeout(() => void this.start(), 3_000);
    }
  }

  /** After the connection was lost: the session may have ended too. */
  async check(): Promise<void> {
    try {
      const session = await get<Session>('session');
      this.session = session;
      if (session.user !== null) return;
      this.needLogin = true;
      live.close();
    } catch {
      // The server is gone; the connection is tried again.
    }
  }

  async login(body: { user: string; password: string } | { token: string }): Promise<void> {
    await send('POST', 'login', body);
    await this.start();
  }

  async logout(): Promise<void> {
    live.close();
    await send('POST', 'logout').catch(() => null);
    await this.start();
  }

  say(text: string, bad = false): void {
    clearTimeout(this.timer);
    this.notice = { text, bad };
    this.timer = setTimeout(() => (this.notice = null), bad ? 8_000 : 2_500);
  }
}

export const app = new App();
