#!/usr/bin/env node
// A producer in Node without packages: creates a job and waits for its end, creates one and cancels it.
//   QUEUE_URL=http://127.0.0.1:8000 QUEUE_TOKEN=… node producer.mjs
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const { QUEUE_URL = "http://127.0.0.1:8000", QUEUE_TOKEN } = process.env;
const FINAL = ["succeeded", "failed", "cancelled"];
const TRIES = 10;

// A refusal that stays one: `problem` has its code, and the place of what is wrong.
class Refused extends Error {
  constructor(problem) {
    super(`${problem.code}: ${problem.detail} ${JSON.stringify(problem.errors ?? [])}`);
    this.problem = problem;
  }
}

// Send a request until it is answered; all of those below may be repeated.
async function ask(method, path, body, headers = {}) {
  if (body) headers = { ...headers, "Content-Type": "application/json" };
  if (QUEUE_TOKEN) headers = { ...headers, Authorization: `Bearer ${QUEUE_TOKEN}` };
  for (let tries = 1; ; tries++) {
    const request = { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(30_000) };
    const answer = await fetch(QUEUE_URL + path, request).catch((error) => error);
    const told = answer instanceof Response ? await answer.json().catch(() => null) : null;
    if (told && answer.ok) return told;
    const again = !told || answer.status === 429 || answer.status === 503;
    if (!again) throw new Refused(told);
    if (tries === TRIES) throw new Error(`${method} ${path}: no answer after ${tries} tries`, { cause: told ?? answer });
    await sleep(1000 * (Number(told && answer.headers.get("Retry-After")) || 1));
  }
}

// Create a job. The key makes it safe to ask again; one of your own ("order-4711") even after a restart.
export const create = (job, key = randomUUID(), wait = 0) =>
  ask("POST", `/api/jobs?wait=${wait}`, job, { "Idempotency-Key": key });

// Create a job and wait for its end: the same request again is the same job.
export async function run(job, key = randomUUID()) {
  for (;;) {
    const now = await create(job, key, 20);
    if (FINAL.includes(now.status)) return now;
  }
}

// Cancel a job. One that is over stays as it is; one that runs is asked to stop, and ends a little later.
export async function cancel(id) {
  return ask("POST", `/api/jobs/${id}/cancel`).catch((error) => {
    if (error.problem?.code === "illegal_move") return ask("GET", `/api/jobs/${id}`);
    throw error;
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const done = await run({ kind: "demo.sleep", payload: { seconds: 1 } });
  console.log(`job ${done.id}: ${done.status}`, done.result);
  const later = await create({ kind: "demo.echo", payload: { message: "not today" }, delay: 3600 });
  console.log(`job ${later.id}: ${later.status}, due ${later.available_at}`);
  console.log(`job ${later.id}: ${(await cancel(later.id)).status}`);
}
