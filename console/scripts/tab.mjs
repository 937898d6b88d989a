// A tab without a page: it follows the live tail, acknowledges its frames as the page does, and counts their bytes.
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';

/** A frame of a client: masked, as the protocol demands. */
function masked(text) {
  const body = Buffer.from(text);
  const mask = randomBytes(4);
  const head = body.length < 126 ? Buffer.from([0x81, 0x80 | body.length]) : Buffer.from([0x81, 0xfe, body.length >> 8, body.length & 255]);
  return Buffer.concat([head, mask, body.map((byte, at) => byte ^ mask[at % 4])]);
}

export function openTab(address, stream) {
  const [host, port] = address.split(':');
  const tab = { bytes: 0, frames: 0, messages: 0, skipped: 0, socket: connect(Number(port), host) };
  let buffer = Buffer.alloc(0);
  let upgraded = false;
  tab.socket.write(`GET /api/ws HTTP/1.1\r\nHost: ${address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n\r\n`);
  tab.socket.on('error', (error) => console.error(String(error)));
  tab.socket.on('data', (data) => {
    buffer = Buffer.concat([buffer, data]);
    if (!upgraded) {
      const end = buffer.indexOf('\r\n\r\n');
      if (end < 0) return;
      upgraded = true;
      buffer = buffer.subarray(end + 4);
      tab.socket.write(masked(JSON.stringify({ op: 'subscribe', id: 1, channel: 'tail', stream })));
    }
    for (;;) {
      if (buffer.length < 2) return;
      const short = buffer[1] & 127;
      const head = short === 127 ? 10 : short === 126 ? 4 : 2;
      if (buffer.length < head) return;
      const length = short === 127 ? Number(buffer.readBigUInt64BE(2)) : short === 126 ? buffer.readUInt16BE(2) : short;
      if (buffer.length < head + length) return;
      const opcode = buffer[0] & 15;
      const body = buffer.subarray(head, head + length);
      tab.bytes += head + length;
      buffer = buffer.subarray(head + length);
      if (opcode !== 1) continue;
      const { frame, items } = JSON.parse(body.toString());
      tab.frames += 1;
      for (const { data } of items ?? []) {
        tab.messages += data?.messages?.length ?? 0;
        tab.skipped += data?.skipped ?? 0;
      }
      if (frame) tab.socket.write(masked(JSON.stringify({ op: 'ack', frame })));
    }
  });
  return tab;
}

/** What the server has done so far. */
export async function status(address) {
  const { process, appended, delivery } = await (await fetch(`http://${address}/status`)).json();
  return { cpu: process.cpu_seconds, memory: process.resident_bytes, threads: process.threads, appended: appended.messages, delivery };
}
