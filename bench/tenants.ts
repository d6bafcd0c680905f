// The figures of many tenants that take turns: runs a second, and responses other than 200, by the number of active tenants.
import { makeReactor } from './react.ts';
import { SMALL_ARGS, TRIVIAL } from './sandbox.ts';
import { remove, startServer } from './servers.ts';
import { headersOf, median, round } from './turns.ts';

const ACTIVE = [1, 12, 50];
const CONNECTIONS = 4;
const TURNS = 3;
const TURN_MS = 4000;

type Tenant = { url: string; headers: Record<string, string> };

/** Closed loop: each connection invokes the reactors of all tenants in turn. */
const runsPerSecond = async (tenants: Tenant[]): Promise<{ perSecond: number; refused: number }> => {
  const body = JSON.stringify({ args: SMALL_ARGS });
  const began = performance.now();
  let next = 0;
  let runs = 0;
  let refused = 0;
  const invoke = async (): Promise<void> => {
    while (performance.now() - began < TURN_MS) {
      const { url, headers } = tenants[(next += 1) % tenants.length] as Tenant;
      const response = await fetch(url, { method: 'POST', headers, body });
      await response.arrayBuffer();
      if (response.status === 200) runs += 1;
      else refused += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, invoke));
  return { perSecond: (runs * 1000) / (performance.now() - began), refused };
};

/** Runs of a millisecond, by tenants that take turns. The first turn of each number starts the executors. */
export const tenants = async () => {
  const server = await startServer();
  try {
    const made: Tenant[] = [];
    const figures: Record<string, unknown> = {};
    for (const active of ACTIVE) {
      while (made.length < active) {
        const { api_key } = server.command(['tenants', 'create', '--name', `Tenant ${made.length}`, '--json']) as {
          api_key: string;
        };
        const url = await makeReactor({ ...server, credentials: { ...server.credentials, api_key } }, TRIVIAL);
        made.push({ url, headers: headersOf(api_key) });
      }
      const turns: { perSecond: number; refused: number }[] = [];
      for (let turn = 0; turn < TURNS; turn += 1) turns.push(await runsPerSecond(made));
      figures[`of_${active}`] = {
        per_second: Math.round(median(turns.map(({ perSecond }) => perSecond))),
        first_per_second: round((turns[0] as { perSecond: number }).perSecond),
        refused: turns.reduce((sum, { refused }) => sum + refused, 0),
      };
    }
    return { ...figures, of_12_at_least: 50, of_50_at_least: 30 };
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};
