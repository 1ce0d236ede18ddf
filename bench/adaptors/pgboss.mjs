// pg-boss: a job for each of ten workers every two seconds, or batches in bursts with LISTEN.
import { PgBoss } from 'pg-boss';
import { CONCURRENCY, DSN, FAST, PAD, chunks, hit, run } from './harness.mjs';

const made = async (more = {}) => {
  const fast = FAST ? { max: 12, useListenNotify: true } : {};
  const boss = new PgBoss({ connectionString: DSN, ...fast, ...more });
  boss.on('error', (error) => console.error(error));
  await boss.start();
  return boss;
};

const how = FAST
  ? { batchSize: 100, localConcurrency: 2, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true }
  : { localConcurrency: CONCURRENCY };

await run({
  setup: async () => {
    const boss = await made();
    await boss.createQueue('q', FAST ? { notify: true } : {});
  },
  opened: () => made({ supervise: false, schedule: false }),
  lone: (boss, n) => boss.send('q', { n, pad: PAD }),
  bulk: async (boss, count) => {
    for (const numbers of chunks(count)) {
      await boss.insert('q', numbers.map((n) => ({ data: { n, pad: PAD } })));
    }
  },
  worker: async () => {
    const boss = await made();
    await boss.work('q', how, async (jobs) => { for (const job of jobs) hit(job.data.n); });
    process.on('SIGTERM', async () => {
      await boss.stop({ graceful: true, timeout: 5000 });
      process.exit(0);
    });
  },
});
