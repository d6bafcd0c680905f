// Requests through the proxy that have an idempotency key: what became of them, and how one is sent once more.
import type { Command } from 'commander';
import type { Forward, Strongroom } from '@strongroom/node';
import { define, defineGroup, oneOf, type Scope, wholeNumber } from '../define.ts';
import { readAll } from '../find.ts';
import type { Columns } from '../io.ts';

const SIZE = 100;

type Filter = NonNullable<Parameters<Strongroom['forwards']['list']>[0]>;

const columns: Columns<Forward> = [
  ['id', ({ id }) => id],
  ['began', ({ begun_at }) => begun_at],
  ['state', ({ state }) => state],
  ['method', ({ method }) => method],
  ['destination', ({ destination_host }) => destination_host],
  ['status', ({ status }) => status],
  ['attempts', ({ attempts }) => attempts],
  ['replay of', ({ replay_of }) => replay_of],
];

type ReplayOptions = { proxy?: string; acceptRisk?: boolean; idempotencyKey?: string };

export const addForwards = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'forwards', 'requests through the proxy that have an idempotency key');
  define<{ limit?: number; state?: Filter['state']; proxy?: string }>(scope, group, {
    signature: 'list',
    summary: 'lists their records, newest first',
    options: [
      ['--limit <n>', 'how many at most; 20 if not given', wholeNumber(1, 10_000)],
      ['--state <state>', 'only these', oneOf('begun', 'sent', 'answered', 'unknown', 'failed')],
      ['--proxy <id>', 'only through this stored proxy'],
    ],
    run: async ({ io, options: { limit = 20, state, proxy }, openVault }) => {
      const vault = await openVault();
      const query = { state, proxy_id: proxy, size: Math.min(limit, SIZE) };
      io.list(await readAll(vault.forwards.list(query), limit), columns);
    },
  });
  define<{ bodies?: boolean }>(scope, group, {
    signature: 'show <id>',
    summary: 'prints one record',
    options: [['--bodies', 'the request and the kept response as well']],
    run: async ({ io, args: [id = ''], options: { bodies }, openVault }) => {
      const vault = await openVault();
      io.show(await vault.forwards.get(id, bodies === true ? { include: 'bodies' } : {}));
    },
  });
  define<ReplayOptions>(scope, group, {
    signature: 'replay <id>',
    summary: 'sends a request once more, and prints the record of the new one',
    options: [
      ['--proxy <id>', 'through another stored proxy, without the headers of the first client'],
      ['--accept-risk', 'also where the outcome is unknown: the destination may do it a second time'],
      ['--idempotency-key <key>', 'with the same key it is sent once'],
    ],
    run: async ({ io, args: [id = ''], options: { proxy, acceptRisk, idempotencyKey }, openVault }) => {
      const vault = await openVault();
      const asked = { proxy_id: proxy, accept_risk: acceptRisk };
      io.show(await vault.forwards.replay(id, asked, { idempotencyKey }));
    },
  });
};
