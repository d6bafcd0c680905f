// Webhooks: where events are sent, what became of them, and their secrets, which are shown once.
import type { Command } from 'commander';
import type { Strongroom, Webhook, WebhookDelivery } from '@strongroom/node';
import { collect, define, defineGroup, oneOf, type Scope, wholeNumber } from '../define.ts';
import { usageError } from '../exit-codes.ts';
import { findRecord, readAll } from '../find.ts';
import type { Columns, Io } from '../io.ts';

const SIZE = 100;

type WebhookOptions = { name?: string; url?: string; event?: string[]; container?: string | false; status?: string };

type Filter = NonNullable<Parameters<Strongroom['webhooks']['listDeliveries']>[1]>;

const EVENT = ['--event <type>', 'type of events, or * for all; may be repeated', collect] as const;

const columns: Columns<Webhook> = [
  ['id', ({ id }) => id],
  ['name', ({ name }) => name],
  ['url', ({ url }) => url],
  ['events', ({ events }) => events.join(' ')],
  ['status', ({ status }) => status],
];

const deliveryColumns: Columns<WebhookDelivery> = [
  ['id', ({ id }) => id],
  ['event', ({ type }) => type],
  ['created', ({ created_at }) => created_at],
  ['state', ({ state }) => state],
  ['attempts', ({ attempts }) => attempts],
  ['status', ({ response_status }) => response_status],
  ['error', ({ error }) => error],
  ['next', ({ next_attempt_at }) => next_attempt_at],
];

const find = (vault: Strongroom, given: string): Promise<Webhook> => findRecord(vault.webhooks, 'webhook', given);

/** The secret alone goes to standard output, so that a script can take it. */
const showSecret = (io: Io, webhook: Webhook, sentence: string): void => {
  if (io.json) return io.show(webhook);
  io.print(webhook.secret ?? '');
  io.say(sentence);
};

const showDelivery = (io: Io, delivery: WebhookDelivery): void => {
  if (io.json) io.show(delivery);
  else io.say(`The delivery ${delivery.id} is sent as soon as it has its turn.`);
};

export const addWebhooks = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'webhooks', 'URLs that events of the vault are sent to');
  define(scope, group, {
    signature: 'list',
    summary: 'lists the webhooks',
    run: async ({ io, openVault }) =>
      io.list(await readAll((await openVault()).webhooks.list({ size: SIZE })), columns),
  });
  define<WebhookOptions>(scope, group, {
    signature: 'create <name>',
    summary: 'creates a webhook, and prints its secret, which is shown this once',
    options: [
      ['--url <url>', 'an https URL of a public host'],
      EVENT,
      ['--container <container>', 'only tokens in it, with their masks'],
    ],
    run: async ({ io, args: [name = ''], options: { url, event, container }, openVault }) => {
      if (url === undefined || event === undefined) throw usageError('The options --url and --event are needed.');
      const vault = await openVault();
      const given: any = { name, url, events: event, container };
      const webhook = await vault.webhooks.create(given);
      showSecret(io, webhook, `Created the webhook ${webhook.id}.`);
    },
  });
  define<WebhookOptions>(scope, group, {
    signature: 'update <webhook>',
    summary: 'changes what is given of a webhook: the rest stays',
    options: [
      ['--name <name>', 'new name'],
      ['--url <url>', 'an https URL of a public host'],
      EVENT,
      ['--container <container>', 'only tokens in it, with their masks'],
      ['--no-container', 'tokens of all containers, without masks'],
      ['--status <status>', 'pauses or resumes it', oneOf('enabled', 'paused')],
    ],
    run: async ({ io, args: [given = ''], options: { name, url, event, container, status }, openVault }) => {
      const patch = { name, url, events: event, container: container === false ? null : container, status };
      if (Object.values(patch).every((each) => each === undefined)) throw usageError('Nothing is to be changed.');
      const vault = await openVault();
      const { id } = await find(vault, given);
      io.show(await vault.webhooks.patch(id, patch as Parameters<Strongroom['webhooks']['patch']>[1]));
    },
  });
  define(scope, group, {
    signature: 'delete <webhook>',
    summary: 'deletes a webhook: what waits for it is not sent',
    run: async ({ io, args: [given = ''], openVault }) => {
      const vault = await openVault();
      const { id } = await find(vault, given);
      await vault.webhooks.delete(id);
      if (io.json) io.show({ id, deleted: true });
      else io.say('Deleted. What waited for it is not sent.');
    },
  });
  define(scope, group, {
    signature: 'rotate-secret <webhook>',
    summary: 'makes another secret, and prints it: the replaced one signs beside it for 24 hours',
    run: async ({ io, args: [given = ''], openVault }) => {
      const vault = await openVault();
      const { id } = await find(vault, given);
      const webhook = await vault.webhooks.rotateSecret(id);
      showSecret(io, webhook, `The replaced secret signs until ${webhook.previous_secret_ends_at}.`);
    },
  });
  addDeliveries(scope, group);
};

const addDeliveries = (scope: Scope, group: Command): void => {
  define(scope, group, {
    signature: 'ping <webhook>',
    summary: 'sends a test event',
    run: async ({ io, args: [given = ''], openVault }) => {
      const vault = await openVault();
      const { id } = await find(vault, given);
      showDelivery(io, await vault.webhooks.ping(id));
    },
  });
  define<{ limit?: number; state?: Filter['state'] }>(scope, group, {
    signature: 'deliveries <webhook>',
    summary: 'lists the deliveries of the last 30 days, newest first',
    options: [
      ['--limit <n>', 'how many at most; 20 if not given', wholeNumber(1, 10_000)],
      ['--state <state>', 'only these', oneOf('waiting', 'delivered', 'dead')],
    ],
    run: async ({ io, args: [given = ''], options: { limit = 20, state }, openVault }) => {
      const vault = await openVault();
      const { id } = await find(vault, given);
      const found = vault.webhooks.listDeliveries(id, { state, size: Math.min(limit, SIZE) });
      io.list(await readAll(found, limit), deliveryColumns);
    },
  });
  define(scope, group, {
    signature: 'replay <webhook> <delivery>',
    summary: 'sends a delivery again, by its id: the same body under the same webhook-id',
    run: async ({ io, args: [given = '', delivery = ''], openVault }) => {
      const vault = await openVault();
      const { id } = await find(vault, given);
      showDelivery(io, await vault.webhooks.replayDelivery(id, delivery));
    },
  });
};
