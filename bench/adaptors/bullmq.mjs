// BullMQ: ten jobs at a time, completed ones kept. The bench empties Redis itself.
import { Queue, Worker } from 'bullmq';
import { CONCURRENCY, PAD, REDIS_PORT, chunks, hit, run } from './harness.mjs';

const connection = { host: '127.0.0.1', port: REDIS_PORT, maxRetriesPerRequest: null };
const job = (n) => ({ name: 'noop', data: { n, pad: PAD } });

await run({
  setup: async () => {},
  opened: async () => new Queue('q', { connection }),
  lone: (queue, n) => queue.add('noop', { n, pad: PAD }),
  bulk: async (queue, count) => {
    for (const numbers of chunks(count)) await queue.addBulk(numbers.map(job));
  },
  worker: async () => {
    const handle = async (taken) => { hit(taken.data.n); };
    const worker = new Worker('q', handle, { connection, concurrency: CONCURRENCY });
    process.on('SIGTERM', async () => {
      await worker.close();
      process.exit(0);
    });
  },
});
