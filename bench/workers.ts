// CPU time of a request with one and with two workers, on filled tables: what serving on two cores costs.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONNECTIONS, type Cost, costOf, send, type Work, worksOf } from './cpu.ts';
import { childrenOf, cpuSeconds } from './cpu-time.ts';
import { fillVault } from './filled.ts';
import { HOST, startDestination } from './proxy.ts';
import { remove, type RunningServer, startServer } from './servers.ts';
import { median, round } from './turns.ts';

/** Share of the usual numbers of `fillVault`: 10,000 cards for each of the two servers. */
const FILL_SHARE = 0.1;
const ROUNDS = 3;
const WARM_SECONDS = 6;
const MEASURED = ['store', 'read-masked', 'proxy-pass'];
/** Both serve, if each has this share of the CPU time of the two at least. */
const SHARE_LEAST = 0.25;

type Side = { server: RunningServer; databasePid: number; works: Record<string, Work> };

const startSide = async (
  destination: { url: string; port: number; caPath: string },
  WORKERS: string,
): Promise<Side> => {
  const server = await startServer(undefined, {
    WORKERS,
    EGRESS_PRIVATE_HOSTS: `${HOST}:${destination.port}`,
    NODE_EXTRA_CA_CERTS: destination.caPath,
  });
  const works = await worksOf(server, await fillVault(server, FILL_SHARE), destination.url);
  const databasePid = Number.parseInt(readFileSync(join(server.dataDir, 'pg/postmaster.pid'), 'utf8'), 10);
  return { server, databasePid, works };
};

/** CPU seconds of each worker so far. */
const workerSeconds = ({ server, databasePid }: Side): number[] =>
  childrenOf(server.child.pid as number)
    .filter((pid) => pid !== databasePid)
    .map((pid) => cpuSeconds(pid));

/** Each worker has as many connections as one alone: fewer would make smaller batches, which cost more for each request. */
const forTwo = (work: Work): Work => ({ ...work, connections: 2 * (work.connections ?? CONNECTIONS) });

/** The two in turns, so that a busy machine slows both. */
export const workers = async () => {
  const destination = await startDestination();
  const sides: Side[] = [];
  try {
    sides.push(await startSide(destination, '1'), await startSide(destination, '2'));
    const [one, two] = sides as [Side, Side];
    for (const { server, works } of sides)
      for (const name of MEASURED) await send(server.credentials.base_url, works[name] as Work, WARM_SECONDS);
    const before = workerSeconds(two);
    const same: Record<string, number[]> = {};
    const costs = Object.fromEntries(MEASURED.map((name) => [name, { one: [] as Cost[], two: [] as Cost[] }]));
    for (let turn = 0; turn < ROUNDS; turn += 1)
      for (const name of MEASURED) {
        costs[name]?.one.push(await costOf(one.server, one.databasePid, one.works[name] as Work));
        costs[name]?.two.push(await costOf(two.server, two.databasePid, forTwo(two.works[name] as Work)));
        // The load of one, divided among two.
        (same[name] ??= []).push((await costOf(two.server, two.databasePid, two.works[name] as Work)).server_us);
      }
    const used = workerSeconds(two).map((seconds, index) => seconds - (before[index] as number));
    const share = Math.min(...used) / used.reduce((sum, seconds) => sum + seconds, 0);
    const figures = Object.entries(costs).map(([name, { one, two }]) => {
      const server = (of: Cost[]): number => median(of.map(({ server_us }) => server_us));
      const total = (of: Cost[]): number => median(of.map(({ server_us, database_us }) => server_us + database_us));
      const failed = [...one, ...two].reduce((sum, cost) => sum + cost.failed, 0);
      return [
        name,
        {
          server_us: [server(one), server(two)],
          server_ratio: round(server(two) / server(one)),
          with_database_us: [total(one), total(two)],
          with_database_ratio: round(total(two) / total(one)),
          at_most: 1.15,
          same_connections_ratio: round(median(same[name] as number[]) / server(one)),
          failed,
        },
      ];
    });
    return { ...Object.fromEntries(figures), least_share: round(share), at_least: SHARE_LEAST };
  } finally {
    for (const { server } of sides) {
      await server.stop();
      remove(server.dataDir);
    }
    await destination.stop();
  }
};
