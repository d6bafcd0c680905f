// Counts the files of ours in which one warm request of each flow calls a function, by V8's coverage of the main process.
// BENCH_FILES prints their names.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { send, worksOf } from './cpu.ts';
import { fillVault } from './filled.ts';
import { HOST, startDestination } from './proxy.ts';
import { remove, startServer } from './servers.ts';

const FLOWS = { store: 30, 'read-masked': 30, 'read-raw': 30, 'read-100': 30, 'proxy-header': 50, 'run-number': 50 };
/** Share of the usual 100,000 cards. */
const SHARE = 0.01;
const WARM_SECONDS = 2;
/** What follows an answer, such as the end of a run, is over by then. */
const QUIET_MS = 1500;
const OURS = '/dist/';

/** @returns for each flow the number of files. */
export const files = async () => {
  const destination = await startDestination();
  const report = join(import.meta.dirname, '..', `coverage-${process.pid}.json`);
  const server = await startServer(undefined, {
    BENCH_COVERAGE: report,
    EGRESS_PRIVATE_HOSTS: `${HOST}:${destination.port}`,
    NODE_EXTRA_CA_CERTS: destination.caPath,
    NODE_OPTIONS: `--require ${join(import.meta.dirname, 'coverage.cjs')}`,
  });
  const takeVisited = async (): Promise<Set<string>> => {
    rmSync(report, { force: true });
    writeFileSync(`${report}.ask`, '');
    while (!existsSync(report)) await pause(20);
    const urls = JSON.parse(readFileSync(report, 'utf8')) as string[];
    return new Set(urls.flatMap((url) => (url.includes(OURS) ? [url.slice(url.indexOf(OURS) + OURS.length)] : [])));
  };
  try {
    const works = await worksOf(server, await fillVault(server, SHARE), destination.url);
    const counts: Record<string, unknown> = {};
    for (const [name, at_most] of Object.entries(FLOWS)) {
      const work = works[name];
      if (!work) throw new Error(`there is no work ${name}`);
      await send(server.credentials.base_url, work, WARM_SECONDS);
      const ask = async (): Promise<void> => {
        const { method = 'POST', path, headers, body } = work.next();
        const response = await fetch(server.credentials.base_url + path, { method, headers, body: body ?? null });
        if (!response.ok) throw new Error(`${name}: ${response.status}`);
        await response.arrayBuffer();
      };
      // Opens the connection of the request that counts.
      await ask();
      await pause(QUIET_MS);
      await takeVisited();
      await ask();
      const visited = await takeVisited();
      counts[name] = { files: visited.size, at_most };
      if (process.env['BENCH_FILES']) console.error(name, [...visited].toSorted().join('\n  '));
    }
    return counts;
  } finally {
    await server.stop();
    remove(server.dataDir);
    await destination.stop();
    rmSync(report, { force: true });
  }
};
