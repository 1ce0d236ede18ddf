// What the Node adaptors share; the same commands and the same file of runs as harness.py.
import fs from 'node:fs';

export const DSN = process.env.BENCH_DSN;
export const REDIS_PORT = Number(process.env.BENCH_REDIS_PORT || 0);
export const FAST = process.env.BENCH_VARIANT === 'fast';
export const CONCURRENCY = Number(process.env.BENCH_CONCURRENCY || 10);
export const PAD = 'x'.repeat(80);

const CAPACITY = 1500000;
const pairs = new Float64Array(2 * (CAPACITY + 1));
let file = null;
let lowest = Infinity;
let highest = 0;

const now = () => (performance.timeOrigin + performance.now()) / 1000;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const say = (answer) => console.log(JSON.stringify(answer));

function write(from, to) {
  const length = (to - from + 1) * 16;
  fs.writeSync(file, new Uint8Array(pairs.buffer, from * 16, length), 0, length, from * 16);
}

function flush() {
  if (highest === 0) return;
  const [from, to] = [lowest, highest];
  lowest = Infinity;
  highest = 0;
  write(from, to);
  write(0, 0); // the head last: what it counts is written
}

function open() {
  file = fs.openSync(`${process.env.BENCH_RECORDS}/${process.pid}.runs`, 'w+');
  fs.ftruncateSync(file, pairs.byteLength);
  setInterval(flush, 20);
  process.on('exit', flush);
}

function count(place, at) {
  if (pairs[2 * place]++ === 0) pairs[2 * place + 1] = at;
}

export function hit(job) {
  const place = job + 1;
  if (place < lowest) lowest = place;
  if (place > highest) highest = place;
  const at = now();
  count(place, at);
  count(0, at);
}

export function* chunks(total) {
  for (let first = 0; first < total; first += 1000) {
    const length = Math.min(1000, total - first);
    yield Array.from({ length }, (_, i) => first + i);
  }
}

async function timed(n, work) {
  const began = now();
  await work();
  say({ n, secs: now() - began });
}

async function paced(n, rate, handle, lone) {
  const at = [];
  await lone(handle, n); // wakes both sides
  await sleep(1000);
  for (let job = 0; job < n; job++) {
    await sleep((Math.random() * 2000) / rate);
    await lone(handle, job);
    at.push(now());
  }
  say({ at });
}

export async function run({ setup, opened, lone, bulk, worker }) {
  const [command, ...numbers] = process.argv.slice(2);
  const [n, rate] = numbers.map(Number);
  if (command === 'worker') {
    open();
    await worker();
    return;
  }
  if (command === 'setup') {
    await setup();
    process.exit(0);
  }
  const handle = await opened();
  if (command === 'lone') {
    await lone(handle, n); // connects
    await timed(n, async () => {
      for (let job = 0; job < n; job++) await lone(handle, job);
    });
  }
  if (command === 'bulk') await timed(n, () => bulk(handle, n));
  if (command === 'paced') await paced(n, rate, handle, lone);
  process.exit(0);
}
