import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { environment: 'node', include: ['test/browser/*.test.ts'], testTimeout: 90_000, hookTimeout: 60_000, fileParallelism: false },
});
