// Graphile Worker: its defaults, or the settings of its own benchmark (it deletes finished jobs).
import { Logger, makeWorkerUtils, run as runWorker } from 'graphile-worker';
import { CONCURRENCY, DSN, FAST, PAD, chunks, hit, run } from './harness.mjs';

const opened = async () => {
  const utils = await makeWorkerUtils({ connectionString: DSN });
  await utils.migrate();
  return utils;
};

const taskList = { noop: async (payload) => { hit(payload.n); } };

const fast = {
  connectionString: DSN,
  concurrentJobs: CONCURRENCY,
  maxPoolSize: CONCURRENCY + 1,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
  logger: new Logger(() => () => {}),
};

await run({
  setup: opened,
  opened,
  lone: (utils, n) => utils.addJob('noop', { n, pad: PAD }),
  bulk: async (utils, count) => {
    for (const numbers of chunks(count)) {
      await utils.addJobs(numbers.map((n) => ({ identifier: 'noop', payload: { n, pad: PAD } })));
    }
  },
  worker: async () => {
    if (FAST) await runWorker({ taskList, preset: { worker: fast } });
    else await runWorker({ connectionString: DSN, concurrency: CONCURRENCY, taskList });
  },
});
