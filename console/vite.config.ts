import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [svelte()],
  resolve: process.env.VITEST ? { conditions: ['browser'] } : {},
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: true,
    reportCompressedSize: false,
    sourcemap: false,
    chunkSizeWarningLimit: 1000,
  },
  server: { proxy: { '/api': { target: 'http://127.0.0.1:7848', ws: true } } },
  test: { environment: 'jsdom', include: ['test/*.test.ts'] },
});
