import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

// `tree` makes elements one by one: no markup is ever parsed from a string, so the page runs under `trusted-types 'none'`.
export default {
  preprocess: vitePreprocess({ script: false, style: false }),
  compilerOptions: { fragments: 'tree', runes: true },
};
