// The page on generated data, without a database: npm run build && npm run mock -- [PORT]
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));
const { module } = await runnerImport(`${root}test/mock.ts`);
const mock = await module.startMock(`${root}dist`, {}, Number(process.argv[2] ?? 7848));
console.log(mock.url);
