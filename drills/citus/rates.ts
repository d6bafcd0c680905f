// Rates and CPU time of writes on Citus beside plain PostgreSQL of the same binaries, in turns.
import { cpuSeconds } from '../../bench/cpu-time.ts';
import { runLoad } from '../../bench/load.ts';
import type { RunningServer } from '../../bench/servers.ts';
import { headersOf, median } from '../../bench/turns.ts';
import type { Node } from './cluster.ts';
import { say } from './commands.ts';

const TURNS = Number(process.env['DRILL_TURNS'] ?? 3);
const SECONDS = Number(process.env['DRILL_SECONDS'] ?? 5);

const CARD = {
  type: 'card',
  data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' },
};
const BATCH = Array.from({ length: 100 }, (_, index) => `value number ${index} of a batch`);

/** A server, and the nodes of its database: the coordinator comes first. */
export type Measured = { server: RunningServer; nodes: Node[] };

type Rate = { perSecond: number; serverUs: number; databaseUs: number[] };

const measure = async ({ server, nodes }: Measured, body: unknown, connections: number): Promise<Rate> => {
  const { base_url, api_key } = server.credentials;
  const pids = [server.child.pid as number, ...nodes.map(({ child }) => child.pid as number)];
  const before = pids.map((pid) => cpuSeconds(pid));
  const load = {
    url: `${base_url}/tokenize`,
    headers: headersOf(api_key),
    body: JSON.stringify(body),
    connections,
    seconds: SECONDS,
  };
  const { requestsPerSecond, errors } = await runLoad(load);
  // On a machine with other work a request may wait for its database too long.
  if (errors > (requestsPerSecond * SECONDS) / 100) throw new Error(`${errors} requests failed`);
  const us = pids.map((pid, index) =>
    Math.round(((cpuSeconds(pid) - (before[index] as number)) * 1e6) / (requestsPerSecond * SECONDS)),
  );
  return { perSecond: requestsPerSecond, serverUs: us[0] as number, databaseUs: us.slice(1) };
};

export const compareRates = async (plain: Measured, citus: Measured): Promise<void> => {
  for (const [name, body, connections, goal] of [
    ['a card a request', CARD, 32, 0.65],
    ['100 strings a request', BATCH, 8, 0.9],
  ] as const) {
    const turns: [Rate, Rate][] = [];
    for (let turn = 0; turn <= TURNS; turn += 1) {
      const both: [Rate, Rate] = [await measure(plain, body, connections), await measure(citus, body, connections)];
      // The first turn warms both.
      if (turn > 0) turns.push(both);
    }
    const ratio = median(turns.map(([one, other]) => other.perSecond / one.perSecond));
    const middle = (side: 0 | 1, of: (rate: Rate) => number) => Math.round(median(turns.map((turn) => of(turn[side]))));
    say(
      JSON.stringify({
        name,
        ratio: Math.round(ratio * 100) / 100,
        goal,
        plain_per_second: middle(0, ({ perSecond }) => perSecond),
        citus_per_second: middle(1, ({ perSecond }) => perSecond),
        plain_us: {
          server: middle(0, (rate) => rate.serverUs),
          postgres: middle(0, (rate) => rate.databaseUs[0] as number),
        },
        citus_us: {
          server: middle(1, (rate) => rate.serverUs),
          coordinator: middle(1, (rate) => rate.databaseUs[0] as number),
          workers: middle(1, (rate) => rate.databaseUs.slice(1).reduce((sum, each) => sum + each, 0)),
        },
      }),
    );
  }
};
