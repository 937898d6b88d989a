// node-q against a plant: subscribes, receives, publishes what it can. Arguments: folder of node_modules, port, rows.
const assert = require("assert");
const [modules, port, rows] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const nodeq = require(modules + "/node-q");
const Long = require(modules + "/long");

const connect = () =>
  new Promise((resolve, reject) =>
    nodeq.connect({ host: "127.0.0.1", port, user: "me", password: "secret", long2number: true }, (error, con) =>
      error ? reject(error) : resolve(con)));
const ask = (con, ...words) =>
  new Promise((resolve, reject) => con.k(...words, (error, answer) => (error ? reject(error) : resolve(answer))));
const tell = (con, ...words) =>
  new Promise((resolve, reject) => con.ks(...words, error => (error ? reject(error) : resolve())));
const numbers = (first, count) => Array.from({ length: count }, (_, n) => first + n);

const columns = (first, count) => [
  nodeq.symbols(numbers(first, count).map(n => ["AIG", "BAC"][n % 2])),
  nodeq.floats(numbers(first, count).map(n => n / 4)),
  nodeq.longs(numbers(first, count).map(n => Long.fromNumber(n))),
  nodeq.symbols(numbers(first, count).map(() => "N")),
];

async function run() {
  const [feed, subscriber] = [await connect(), await connect()];
  const sizes = [];
  let came = () => {};
  subscriber.on("upd", (table, update) => {
    assert.strictEqual(table, "trade");
    sizes.push(...update.map(row => row.size));
    came();
  });
  const until = last => new Promise(resolve => {
    came = () => { if (sizes[sizes.length - 1] === last) resolve(); };
    came();
  });
  const [name] = await ask(subscriber, ".u.sub", "trade", "");
  assert.strictEqual(name, "trade");
  assert.strictEqual(await ask(feed, "1+1"), 2);
  const row = n => [nodeq.symbol("AIG"), nodeq.float(1.5), nodeq.long(Long.fromNumber(n)), nodeq.symbol("N")];
  await ask(feed, ".u.upd", "trade", row(0));
  await tell(feed, "upd", nodeq.symbol("trade"), row(1));
  await ask(feed, ".u.upd", "trade", columns(2, 3));
  await until(4);
  for (let first = 5; first < rows; first += 1000) {
    await tell(feed, ".u.upd", "trade", columns(first, Math.min(1000, rows - first)));
  }
  await until(rows - 1);
  assert.deepStrictEqual(sizes, numbers(0, rows));
  assert.strictEqual(await ask(feed, "count trade"), rows);
  const filtered = await ask(await connect(), ".u.sub", "trade", ["BAC", "IBM"]);
  assert.strictEqual(filtered[0], "trade");
  await assert.rejects(ask(feed, ".u.sub", "nosuch", ""), /nosuch/);
  console.log("received", sizes.length);
  process.exit(0);
}

run().catch(error => {
  console.error(error);
  process.exit(1);
});
