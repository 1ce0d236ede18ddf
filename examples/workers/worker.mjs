#!/usr/bin/env node
// A worker in Node without packages: several jobs at a time, their leases renewed in one request.
//   QUEUE_URL=http://127.0.0.1:8000 QUEUE_TOKEN=… QUEUE_KINDS=example.work node worker.mjs
import { setTimeout as sleep } from "node:timers/promises";

const { QUEUE_URL = "http://127.0.0.1:8000", QUEUE_TOKEN, QUEUE_KINDS = "example.work" } = process.env;
const lease = Number(process.env.QUEUE_LEASE ?? 60), slots = Number(process.env.QUEUE_SLOTS ?? 4);
const running = new Map(); // by token: the job, and what stops its work
let stopping = false;

// The work of one job: returns the result, throws the error. Put yours here; heed the signal.
async function run(job, signal) {
  await sleep((job.payload.seconds ?? 0) * 1000, undefined, { signal });
  if (job.payload.fail) throw new Error(job.payload.fail);
  return { echo: job.payload.echo ?? null };
}

// The answer's items; null: ask again later. With 409 every one of them is lost.
async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (QUEUE_TOKEN) headers.Authorization = `Bearer ${QUEUE_TOKEN}`;
  const request = { method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(40_000) };
  const answer = await fetch(`${QUEUE_URL}/api/leases${path}`, request).catch(() => null);
  if (answer === null || answer.status === 429 || answer.status >= 500) return null;
  const told = await answer.json().catch(() => null);
  if (told === null || answer.ok || answer.status === 409) return told?.items ?? null;
  console.error("refused:", told); // a mistake in the request stays one
  process.exit(1);
}

// Say how the job ended until it has been heard. Sending it twice does no harm.
async function settle({ id, token }, end) {
  for (;;) {
    const items = await post("/settle", { items: [{ id, token, ...end }] });
    if (items?.[0].outcome === "lost") console.error(`job ${id}: lost, somebody else has it`);
    if (items && items[0].outcome !== "busy") return;
    await sleep(1000);
  }
}

async function work(job) {
  const stop = new AbortController();
  running.set(job.token, { job, stop });
  const end = await run(job, stop.signal).then(
    (result) => ({ verb: "succeed", result }),
    (error) => ({ verb: "fail", error_class: error.name, error_message: error.message, traceback: error.stack }),
  );
  // Stopped: what is lost or over is nobody's business any more; everything else is given back.
  if (!stop.signal.aborted) await settle(job, end);
  else if (stop.signal.reason !== "lost") await settle(job, { verb: "release" });
  running.delete(job.token);
}

async function renew() {
  const items = [...running.values()].map(({ job: { id, token } }) => ({ id, token }));
  const told = (items.length && (await post("/renew", { items, lease }))) || [];
  told.forEach(({ outcome }, place) => {
    const held = running.get(items[place].token);
    if (outcome === "lost" || outcome === "timeout") held?.stop.abort("lost");
    if (outcome === "cancel") held?.stop.abort("cancel");
  });
}

for (const signal of ["SIGTERM", "SIGINT"])
  process.on(signal, () => { stopping = true; running.forEach(({ stop }) => stop.abort("stopping")); });
setInterval(renew, (lease * 1000) / 3);
while (!stopping) {
  const max = slots - running.size;
  const jobs = max && (await post("", { kinds: QUEUE_KINDS.split(","), max, lease, wait: running.size ? 1 : 20 }));
  for (const job of jobs || []) work(job);
  if (stopping) running.forEach(({ stop }) => stop.abort("stopping"));
  if (!jobs) await sleep(jobs === null ? 1000 : 200);
}
while (running.size) await sleep(50);
process.exit(0);
