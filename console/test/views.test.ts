// Components in a document without layout: hostile texts stay texts.
import { mount, tick, unmount } from 'svelte';
import { describe, expect, it } from 'vitest';
import './media';
import Ladder from '../src/parts/Ladder.svelte';
import Note from '../src/parts/Note.svelte';
import Value from '../src/parts/Value.svelte';
import { Failure } from '../src/lib/api';
import { CORPUS } from './corpus';

async function render(component: Parameters<typeof mount>[0], props: Record<string, unknown>): Promise<HTMLElement> {
  const target = document.createElement('div');
  const shown = mount(component, { target, props });
  await tick();
  const copy = target.cloneNode(true) as HTMLElement;
  await unmount(shown);
  return copy;
}

const DANGEROUS = 'script, img, iframe, svg, object, embed, [onerror], [onload], [onfocus], [srcdoc], [style]';

describe('hostile texts', () => {
  it('stay texts in values of any shape', async () => {
    for (const text of CORPUS) {
      const values = [text, { [text]: text }, [{ [text]: text }, { [text]: text }], [[text], [{ deep: { [text]: [text] } }]]];
      for (const value of values) {
        const shown = await render(Value as never, { value });
        expect(shown.querySelectorAll(DANGEROUS).length).toBe(0);
        expect(shown.textContent).toContain(text);
      }
    }
  });
  it('stay texts in books and errors', async () => {
    for (const text of CORPUS) {
      const book = { at: '1', books: [{ exchange: text, kind: text, state: text, reason: text, bids: [[text, text, 1]], asks: [['2', '3', null]] }, { exchange: text, kind: '', state: '', bids: [], asks: [] }], best: null };
      const ladder = await render(Ladder as never, { book, depth: 5 });
      expect(ladder.querySelectorAll('script, img, iframe, [onerror], [onload]').length).toBe(0);
      expect(ladder.textContent).toContain(text);
      const note = await render(Note as never, { kind: 'error', error: new Failure(text, 500, text) });
      expect(note.querySelectorAll(DANGEROUS).length).toBe(0);
    }
  });
  it('of any depth do not end the page', async () => {
    let value: unknown = 'x';
    for (let depth = 0; depth < 2_000; depth++) value = { a: value };
    const shown = await render(Value as never, { value });
    expect(shown.textContent).toContain('…');
  });
});
