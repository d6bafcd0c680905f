// CPU time of small requests against another checkout, in turns within one run: what the changes between them cost. BENCH_OTHER is
// the folder of the other one, with its packages and built. On a shared machine the ratio says more than either figure.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type * as CpuBench from './cpu.ts';
import type * as Filled from './filled.ts';
import type * as ProxyBench from './proxy.ts';
import type * as Servers from './servers.ts';
import { costOf, send } from './cpu.ts';
import { median, round } from './turns.ts';

const WORKS = ['store', 'read-masked', 'read-raw', 'read-100', 'proxy-header', 'run-number'];
const ROUNDS = 5;
/** Share of the usual 100,000 cards. */
const SHARE = 0.1;
const WARM_SECONDS = 4;
/** The tenants that filled the vault are no neighbours any more after this: the heavy worker would take requests beside them. */
const REST_MS = 12_000;

/** A server of a checkout, with what its own benches ask of it. */
const startSide = async (folder: string) => {
  const load = (name: string): Promise<unknown> => import(join(folder, 'bench', name));
  const { worksOf } = (await load('cpu.ts')) as typeof CpuBench;
  const { fillVault } = (await load('filled.ts')) as typeof Filled;
  const { HOST, startDestination } = (await load('proxy.ts')) as typeof ProxyBench;
  const { remove, startServer } = (await load('servers.ts')) as typeof Servers;
  const destination = await startDestination();
  const server = await startServer(undefined, {
    EGRESS_PRIVATE_HOSTS: `${HOST}:${destination.port}`,
    NODE_EXTRA_CA_CERTS: destination.caPath,
  });
  const works = await worksOf(server, await fillVault(server, SHARE), destination.url);
  const databasePid = Number.parseInt(readFileSync(join(server.dataDir, 'pg/postmaster.pid'), 'utf8'), 10);
  const stop = async (): Promise<void> => {
    await server.stop();
    remove(server.dataDir);
    await destination.stop();
  };
  return { server, works, databasePid, stop, costs: {} as Record<string, number[]> };
};

/** @returns for each work the microseconds of server and database a request, here and there, and their ratio. */
export const against = async () => {
  const other = process.env['BENCH_OTHER'];
  if (!other) return { left_out: 'BENCH_OTHER must be the folder of another checkout, which is built' };
  const sides = [await startSide(dirname(import.meta.dirname)), await startSide(other)] as const;
  try {
    await pause(REST_MS);
    for (const name of WORKS)
      for (const { server, works } of sides)
        await send(server.credentials.base_url, works[name] as CpuBench.Work, WARM_SECONDS);
    for (let turn = 0; turn < ROUNDS; turn += 1)
      for (const name of WORKS)
        // The one that is first may have the colder processor.
        for (const { server, works, databasePid, costs } of turn % 2 === 0 ? sides : sides.toReversed()) {
          const cost = await costOf(server, databasePid, works[name] as CpuBench.Work);
          if (cost.failed > 0) throw new Error(`${name}: ${cost.failed} requests failed`);
          (costs[name] ??= []).push(cost.server_us + cost.database_us);
        }
    return Object.fromEntries(
      WORKS.map((name) => {
        const [cpu_us, other_us] = sides.map(({ costs }) => median(costs[name] as number[])) as [number, number];
        return [name, { ratio: round(cpu_us / other_us), at_most: 1.1, cpu_us, other_us }];
      }),
    );
  } finally {
    await Promise.all(sides.map(({ stop }) => stop()));
  }
};
