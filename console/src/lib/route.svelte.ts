// What the page shows is in its address: a link shares it. No secret is ever written there.

export type View = 'streams' | 'stream' | 'messages' | 'market' | 'sql' | 'operations';

export interface Route {
  view: View;
  /** The stream, where the view has one. */
  stream: string | null;
  query: Record<string, string>;
}

const VIEWS: readonly View[] = ['streams', 'messages', 'market', 'sql', 'operations'];

export function parseRoute(path: string, search: string): Route {
  const [first = '', ...rest] = path.split('/').filter(Boolean);
  const query = Object.fromEntries(new URLSearchParams(search));
  const view = VIEWS.find((view) => view === first) ?? 'streams';
  const stream = rest.length ? decode(rest.join('/')) : null;
  return { view: view === 'streams' && stream ? 'stream' : view, stream, query };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function href(view: View, stream: string | null = null, query: Record<string, string | null | undefined> = {}): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) parts.set(name, value);
  const place = view === 'stream' ? 'streams' : view;
  const text = parts.toString();
  return `/${place}${stream ? `/${encodeURIComponent(stream)}` : ''}${text ? `?${text}` : ''}`;
}

class Router {
  current = $state<Route>(parseRoute(location.pathname, location.search));

  constructor() {
    addEventListener('popstate', () => {
      this.current = parseRoute(location.pathname, location.search);
    });
  }

  go(target: string, replace = false): void {
    if (target === location.pathname + location.search) return;
    if (replace) history.replaceState(null, '', target);
    else history.pushState(null, '', target);
    this.current = parseRoute(location.pathname, location.search);
  }

  /** Changes parameters of the address, without a new entry in the history unless `push`. */
  set(change: Record<string, string | null | undefined>, push = false): void {
    const { view, stream, query } = this.current;
    this.go(href(view, stream, { ...query, ...change }), !push);
  }

  get(name: string): string {
    return this.current.query[name] ?? '';
  }
}

export const router = new Router();

/** Links within the page change the view, unless the reader asks for another tab. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
  if (link.pathname.startsWith('/api/')) return;
  event.preventDefault();
  router.go(link.pathname + link.search);
}
