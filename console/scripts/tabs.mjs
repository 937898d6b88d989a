// What tabs cost a server that serves a fast stream: node scripts/tabs.mjs ADDRESS STREAM [TABS] [SECONDS]
//
// The server's processor time is that of its status page, with and without the tabs.
import { setTimeout as sleep } from 'node:timers/promises';
import { openTab, status } from './tab.mjs';

const [address = '127.0.0.1:7848', stream = 'feed', tabs = '10', seconds = '10'] = process.argv.slice(2);

async function during(name, work) {
  const before = await status(address);
  const began = performance.now();
  await work();
  const passed = (performance.now() - began) / 1000;
  const after = await status(address);
  const row = { what: name, seconds: passed, core_percent: (100 * (after.cpu - before.cpu)) / passed, appended_per_second: (after.appended - before.appended) / passed, threads: after.threads, resident_bytes: after.memory };
  return row;
}

const wait = () => sleep(1000 * Number(seconds));
console.log(JSON.stringify(await during('no tab', wait)));
const opened = Array.from({ length: Number(tabs) }, () => openTab(address, stream));
await sleep(2000);
for (const tab of opened) [tab.bytes, tab.frames, tab.messages, tab.skipped] = [0, 0, 0, 0];
const row = await during(`${tabs} tabs`, wait);
const each = (key) => opened.reduce((sum, tab) => sum + tab[key], 0) / opened.length / row.seconds;
console.log(JSON.stringify({ ...row, tab_bytes_per_second: each('bytes'), tab_frames_per_second: each('frames'), tab_messages_per_second: each('messages'), tab_skipped_per_second: each('skipped') }));
for (const tab of opened) tab.socket.destroy();
