// The editor of SQL. It lives in a shadow root: there its styles are adopted style sheets, which the page's policy allows.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type Completion } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { PostgreSQL, SQLDialect, sql, type SQLNamespace } from '@codemirror/lang-sql';
import { HighlightStyle, bracketMatching, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { EditorView, drawSelection, dropCursor, highlightActiveLine, keymap, lineNumbers, placeholder } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { Catalog } from './types';

const words = 'asof match_condition window horizon time_bucket tolerance qualify';
const dialect = SQLDialect.define({
  ...PostgreSQL.spec,
  keywords: `${PostgreSQL.spec.keywords ?? ''} ${words}`,
});

const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], color: 'var(--accent)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--bid)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--warn)' },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], color: 'var(--dim)', fontStyle: 'italic' },
  { tag: [tags.typeName, tags.standard(tags.name)], color: 'var(--accent)' },
]);

const theme = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'transparent', fontSize: '13px' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px', borderRadius: '8px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--text)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--dim)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'transparent' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--accent-soft)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--accent-soft)', color: 'var(--text)' },
  '.cm-placeholder': { color: 'var(--dim)' },
  '.cm-tooltip': { backgroundColor: 'var(--panel)', color: 'var(--text)', border: '1px solid var(--line-strong)', borderRadius: '6px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '12px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent-soft)', color: 'var(--text)' },
  '.cm-completionDetail': { color: 'var(--dim)', fontStyle: 'normal' },
  '.cm-completionMatchedText': { color: 'var(--accent)', textDecoration: 'none', fontWeight: '600' },
});

const PLAIN = /^[a-z_][a-z0-9_]*$/i;
const RESERVED = new Set('all and any as asc between by case cast cross desc distinct else end except exists false from full group having in inner interval intersect into is join left like limit natural not null offset on or order outer over partition right row rows select set table then to true union unique using values when where window with'.split(' '));
/** A name as SQL needs it: in quotes unless it is plain. Plain names are found without regard to case. */
export const quoted = (name: string): string =>
  PLAIN.test(name) && !RESERVED.has(name.toLowerCase()) ? name : `"${name.replaceAll('"', '""')}"`;

export function namespaceOf(catalog: Catalog): SQLNamespace {
  const streams: Record<string, Record<string, Completion[]>> = Object.create(null) as Record<string, Record<string, Completion[]>>;
  for (const { stream, table, columns } of catalog.tables) {
    const name = table.startsWith(`${stream}.`) ? table.slice(stream.length + 1) : table;
    (streams[stream] ??= Object.create(null) as Record<string, Completion[]>)[name] = columns.map((column) => ({
      label: column.name,
      apply: quoted(column.name),
      detail: column.type,
      type: 'property',
    }));
  }
  return streams;
}

/** Chromium keeps the colours of a selection that is typed over with a style attribute, which the page's policy forbids: the
 * editor replaces it by itself. */
function replaceSelected(event: InputEvent, view: EditorView): boolean {
  const { from, to } = view.state.selection.main;
  if (event.inputType !== 'insertText' || !event.data || from === to || view.composing) return false;
  const text = event.data;
  const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: 'input.type', scrollIntoView: true });
  if (!view.state.facet(EditorView.inputHandler).some((handler) => handler(view, from, to, text, insert))) view.dispatch(insert());
  event.preventDefault();
  return true;
}

export interface Editor {
  text(): string;
  /** The selected text, or all of it. */
  chosen(): string;
  setText(text: string): void;
  insert(text: string): void;
  setCatalog(catalog: Catalog): void;
  focus(): void;
  destroy(): void;
}

export function makeEditor(host: HTMLElement, text: string, events: { run: () => void; change: (text: string) => void }): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const language = new Compartment();
  const functions = new Compartment();
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        dropCursor(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        EditorView.lineWrapping,
        autocompletion({ icons: false }),
        syntaxHighlighting(colors),
        theme,
        placeholder('SELECT …'),
        EditorView.contentAttributes.of({ 'aria-label': 'SQL', spellcheck: 'false' }),
        Prec.highest(keymap.of([{ key: 'Mod-Enter', run: () => (events.run(), true) }])),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap]),
        EditorView.domEventHandlers({ beforeinput: replaceSelected }),
        // Escape, then Tab leaves the editor.
        keymap.of([indentWithTab]),
        language.of(sql({ dialect })),
        functions.of([]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) events.change(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    chosen() {
      const { from, to } = view.state.selection.main;
      return from === to ? view.state.doc.toString() : view.state.sliceDoc(from, to);
    },
    setText: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    insert(text) {
      view.dispatch(view.state.replaceSelection(text));
      view.focus();
    },
    setCatalog(catalog) {
      const options: Completion[] = catalog.functions.map(({ name, kind, description }) => ({
        label: name,
        type: 'function',
        detail: kind,
        ...(description ? { info: description } : {}),
        boost: -1,
      }));
      const support = sql({ dialect, schema: namespaceOf(catalog) });
      view.dispatch({
        effects: [
          language.reconfigure(support),
          functions.reconfigure(
            support.language.data.of({
              autocomplete: (context: { matchBefore(expression: RegExp): { from: number; text: string } | null; explicit: boolean }) => {
                const word = context.matchBefore(/\w+/);
                return word || context.explicit ? { from: word?.from ?? view.state.selection.main.head, options, validFor: /^\w*$/ } : null;
              },
            }),
          ),
        ],
      });
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
