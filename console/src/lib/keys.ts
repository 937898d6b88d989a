// Keys of the page. Views add theirs while they are shown.

export interface Key {
  /** As shown, for example `g s`: keys in turn. */
  keys: string;
  text: string;
  group: string;
  run: () => void;
}

const map = new Map<string, Key>();
let before = '';
let timer: ReturnType<typeof setTimeout> | undefined;

/** Adds keys; the function that is returned takes them away. */
export function addKeys(keys: Key[]): () => void {
  for (const key of keys) map.set(key.keys, key);
  return () => {
    for (const key of keys) if (map.get(key.keys) === key) map.delete(key.keys);
  };
}

export const allKeys = (): Key[] => [...map.values()];

function writes(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function press(event: KeyboardEvent): void {
  const target = event.composedPath()[0] ?? event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || writes(target)) return;
  if (document.querySelector('dialog[open]')) return;
  const name = event.key === ' ' ? 'space' : event.key;
  const key = map.get(before ? `${before} ${name}` : name);
  const begins = !before && [...map.keys()].some((keys) => keys.startsWith(`${name} `));
  // A button that has the focus takes these itself.
  if (name === 'space' && target instanceof HTMLElement && /^(BUTTON|A|SUMMARY)$/.test(target.tagName)) return;
  before = '';
  clearTimeout(timer);
  if (key) {
    event.preventDefault();
    key.run();
  } else if (begins) {
    before = name;
    timer = setTimeout(() => (before = ''), 1_200);
  }
}
