// What a new key is for: each job stands for permissions and rules. And a first request that a key may make.
import { z } from 'zod';
import { accessRuleSchema } from '../access/access-rule.ts';
import { parseContainer } from '../access/containers.ts';
import { isPermission, type Permission, permissions } from '../access/permissions.ts';
import type { Rights } from '../access/rights-summary.ts';
import type { ApiCall } from './copy.ts';

export const jobs = [
  ['charge', 'Charge stored cards', 'Uses tokens in reactors and through proxies. Reads none.'],
  ['collect', 'Collect in a browser', 'Public: stores tokens, and nothing else.'],
  ['store', 'Store from a server', 'Stores tokens, and reads their masks.'],
  ['read', 'Read raw values', 'Reads the values of tokens.'],
  ['code', 'Deploy code', 'Changes reactors and proxies, and reads what happened to runs.'],
  ['custom', 'Custom', 'Permissions and rules, one by one.'],
] as const;

type Job = (typeof jobs)[number][0];

export const CUSTOM: Job = 'custom';

export const isJob = (text: string): text is Job => jobs.some(([job]) => job === text);

/** The part of an application's body that a job stands for. */
type JobBody = { type: string; permissions: readonly Permission[]; rules: object[]; containers: string[] | undefined };

const ofCode = permissions.filter((permission) => /^(?:reactor|proxy):|^log:read$/.test(permission));

/** @param container as typed; empty for all tokens. Undefined for a job that is no preset. */
export const bodyOfJob = (job: string, container: string): JobBody | undefined => {
  const given = container === '' ? undefined : [container];
  const rule = (transform: 'mask' | 'reveal', ...held: Permission[]): JobBody => ({
    type: 'private',
    permissions: [],
    rules: [{ priority: 1, container: container === '' ? '/' : container, transform, permissions: held }],
    containers: undefined,
  });
  switch (job) {
    case 'charge':
      return rule('reveal', 'token:use');
    case 'store':
      return rule('mask', 'token:create', 'token:read');
    case 'read':
      return rule('reveal', 'token:read');
    case 'collect':
      return { type: 'public', permissions: ['token:create'], rules: [], containers: given };
    case 'code':
      return { type: 'management', permissions: ofCode, rules: [], containers: given };
    default:
      return undefined;
  }
};

const texts = z.array(z.string()).optional();

const rightsSchema = z.object({
  type: z.string(),
  permissions: z.array(z.string().refine(isPermission)),
  rules: z.array(accessRuleSchema),
  allowed_hosts: texts,
  allowed_origins: texts,
  containers: z.array(z.string().refine((text) => parseContainer(text) !== undefined)).optional(),
  daily_reveals: z.number().optional(),
  daily_uses: z.number().optional(),
});

/** The rights in the body of an application, or in an application that the API shows. Undefined for a body that it would refuse. */
export const rightsIn = (body: object): Rights | undefined => {
  const { data } = rightsSchema.safeParse(body);
  return data && { ...data, container: data.containers?.[0] };
};

/** Lists that a permission reads. */
const lists: readonly [Permission, string][] = [
  ['reactor:read', '/reactors'],
  ['proxy:read', '/proxies'],
  ['application:read', '/applications'],
  ['log:read', '/logs'],
  ['tenant:read', '/tenants/self'],
  ['tenant:member:read', '/tenants/self/members'],
  ['tenant:invitation:read', '/tenants/self/invitations'],
];

/** A card number for tests, which no bank has issued. Cards are stored in CARD_CONTAINER, unless a request says otherwise. */
export const SAMPLE_CARD = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 };
const CARD_CONTAINER = '/pci/high/';

/** What stands for the id of a token in a request. */
export const TOKEN_PLACEHOLDER = 'TOKEN_ID';

const storing = ({ type, permissions: held, rules }: Rights): ApiCall => {
  const isFree = type === 'public' || held.includes('token:create');
  const container = rules.find((rule) => rule.permissions.includes('token:create'))?.container ?? '/';
  const isUsual = isFree || CARD_CONTAINER.startsWith(container);
  return { path: '/tokens', json: { type: 'card', data: SAMPLE_CARD, ...(!isUsual && { containers: [container] }) } };
};

/** Through the proxy to an allowed host, or to one of documentation. */
const sending = ({ allowed_hosts: [host = 'api.example.com'] = [] }: Rights): ApiCall => ({
  path: '/proxy',
  headers: { 'SVC-PROXY-URL': `https://${host.replace(/^\*\./, 'www.')}/` },
  json: { card: `{{ ${TOKEN_PLACEHOLDER} }}` },
});

/** A request that the key may make. Undefined where none is short enough to be an example. */
export const firstCall = (rights: Rights): ApiCall | undefined => {
  const holds = (permission: Permission): boolean =>
    rights.permissions.includes(permission) || rights.rules.some((rule) => rule.permissions.includes(permission));
  if (holds('token:create')) return storing(rights);
  if (holds('token:read')) return { path: '/tokens?size=1' };
  if (holds('token:use')) return sending(rights);
  const [, path] = lists.find(([permission]) => holds(permission)) ?? [];
  return path === undefined ? undefined : { path };
};
