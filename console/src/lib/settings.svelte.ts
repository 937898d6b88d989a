// What the reader prefers, kept in this browser.

export type Theme = 'system' | 'dark' | 'light';

export function load<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(`tapedb.${name}`);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

export function store(name: string, value: unknown): void {
  try {
    localStorage.setItem(`tapedb.${name}`, JSON.stringify(value));
  } catch {
    // Without storage a choice lasts as long as the page.
  }
}

function isZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}

class Settings {
  theme = $state<Theme>('system');
  zone = $state('UTC');

  constructor() {
    const theme = load<string>('theme', 'system');
    this.theme = theme === 'dark' || theme === 'light' ? theme : 'system';
    const zone = new URLSearchParams(location.search).get('zone') ?? load('zone', 'UTC');
    this.zone = typeof zone === 'string' && isZone(zone) ? zone : 'UTC';
    this.apply();
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    store('theme', theme);
    this.apply();
  }

  setZone(zone: string): void {
    if (!isZone(zone)) return;
    this.zone = zone;
    store('zone', zone);
  }

  private apply(): void {
    const root = document.documentElement;
    if (this.theme === 'system') delete root.dataset.theme;
    else root.dataset.theme = this.theme;
    for (const listener of this.listeners) listener();
  }

  /** Canvases paint again when colours change. */
  readonly listeners = new Set<() => void>();
}

export const settings = new Settings();

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const listener of settings.listeners) listener();
});

/** A colour of the theme, as canvases need it. */
export const color = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const COMMON = [
  'UTC',
  'America/New_York',
  'America/Chicago',
  'Europe/London',
  'Europe/Berlin',
  'Asia/Tokyo',
  'Asia/Hong_Kong',
  'Asia/Singapore',
  'Australia/Sydney',
];

export function zones(): string[] {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return [...new Set(['UTC', settings.zone, own, ...COMMON])].filter(isZone);
}
