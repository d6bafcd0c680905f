// Says in sentences what a key can do and what it cannot, from its permissions, access rules, hosts and limits. Pure.
import type { AskedRule, RuleCondition, Transform } from './access-rule.ts';
import type { Bound, StoredBound } from './bounds.ts';
import { describeBound } from './bound-words.ts';
import { containerCovers } from './containers.ts';
import type { Permission } from './permissions.ts';
import { byPriority, type Decider, type DecidingRights, findDecider } from './rule-walk.ts';

export type Rights = {
  type: string;
  permissions: readonly Permission[];
  rules: readonly AskedRule[];
  /** Undefined for any. */
  allowed_hosts?: readonly string[] | undefined;
  /** Origins of a public application. */
  allowed_origins?: readonly string[] | undefined;
  /** The container of the tokens of a public one. */
  container?: string | undefined;
  daily_reveals?: number | undefined;
  daily_uses?: number | undefined;
};

export type RightsSummary = { can: string[]; cannot: string[] };

const conditionWords = ({ attribute, operator, value }: RuleCondition): string =>
  `${attribute} ${operator === 'equals' ? 'is' : 'begins with'} ${value}`;

/** What a rule says of the tokens that it decides about. */
type Scope = Pick<Decider, 'container' | 'conditions'>;

const isEverything = ({ container, conditions }: Scope): boolean => conditions === undefined && container === '/';

/** Whether an earlier rule decides about all tokens of a later one. Conditions are compared as little as their words need. */
const hides = (earlier: Scope, later: Scope): boolean =>
  earlier.conditions === undefined &&
  (isEverything(earlier) ||
    (later.conditions === undefined && containerCovers(earlier.container ?? '/', later.container ?? '/')));

/** The tokens of a rule, in words. @param isRest whether earlier rules decide about some of them. */
const tokensOf = (rule: Scope, isRest: boolean): string => {
  const tokens = isRest ? 'other tokens' : 'tokens';
  if (rule.conditions) return `${tokens} whose ${rule.conditions.map(conditionWords).join(' and whose ')}`;
  return isEverything(rule) ? `all ${tokens}` : `${tokens} below ${rule.container}`;
};

type Grant = { tokens: string; transform: Transform; bound_to: Bound | undefined };

/** The tokens that a permission reaches, and how much it shows of them, in the order in which rules decide. */
export const describeGrants = <B extends Bound = StoredBound>(
  rights: DecidingRights<B>,
  permission: Permission,
): Grant[] => {
  const grants: Grant[] = [];
  const earlier: Decider<B>[] = [];
  findDecider<B>(rights, permission, (rule) => {
    const { transform, bound_to } = rule;
    if (!earlier.some((each) => hides(each, rule)))
      grants.push({ tokens: tokensOf(rule, earlier.length > 0), transform, bound_to });
    earlier.push(rule);
    return false;
  });
  return grants;
};

const readWords: Record<Transform, (tokens: string) => string> = {
  reveal: (tokens) => `read the values of ${tokens}`,
  mask: (tokens) => `read the masks of ${tokens}`,
  redact: (tokens) => `see ${tokens} without value and mask`,
  default: (tokens) => `read the masks of ${tokens}, and the values of those without a mask`,
};

/** A search answers with the tokens that it finds, as its own grant shows them. */
const searchWords: Record<Transform, (tokens: string) => string> = {
  reveal: (tokens) => `search ${tokens}, and read the values of those found`,
  mask: (tokens) => `search ${tokens}, and read the masks of those found`,
  redact: (tokens) => `search ${tokens}, without value and mask`,
  default: (tokens) => `search ${tokens}, and read the masks of those found, and the values of those without a mask`,
};

const useWords: Record<Transform, (tokens: string) => string> = {
  reveal: (tokens) => `use the values of ${tokens} in reactors and through proxies`,
  mask: (tokens) => `use the masks of ${tokens} in reactors and through proxies`,
  redact: (tokens) => `name ${tokens} in reactors and through proxies, without value and mask`,
  default: (tokens) => `use the values of ${tokens} in reactors and through proxies`,
};

/** What each permission on tokens allows, in words. */
const ofTokens: readonly [Permission, (grant: Grant) => string][] = [
  ['token:create', ({ tokens }) => `store ${tokens}`],
  ['token:read', ({ tokens, transform }) => readWords[transform](tokens)],
  ['token:search', ({ tokens, transform }) => searchWords[transform](tokens)],
  [
    'token:use',
    ({ tokens, transform, bound_to }) => [useWords[transform](tokens), ...describeBound(bound_to)].join(', '),
  ],
  ['token:update', ({ tokens }) => `change ${tokens}`],
  ['token:delete', ({ tokens }) => `delete ${tokens}`],
];

/** What permissions on other records are about. */
const areas: readonly [prefix: string, noun: string][] = [
  ['session', 'sessions for browsers'],
  ['application', 'applications and their keys'],
  ['reactor', 'reactors and their code'],
  ['proxy', 'proxies with their keys and code'],
  ['access', 'who may do what'],
  ['webhook', 'webhooks and their deliveries'],
  ['delegation', 'cards that agents hand over'],
  ['forward', 'forwarded requests that have an idempotency key'],
  ['log', 'the log'],
  ['report', 'usage reports'],
  ['tenant:member', 'people'],
  ['tenant:invitation', 'invitations'],
  ['tenant', 'the tenant and its settings'],
];

const verbs: Record<string, string> = {
  create: 'create',
  read: 'read',
  update: 'change',
  delete: 'delete',
  replay: 'send again',
};

const joined = (words: readonly string[], last: 'and' | 'or'): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} ${last} ${words.at(-1)}`;

const verbsIn = ({ permissions }: Rights, prefix: string): string[] =>
  permissions
    .filter((permission) => permission.slice(0, permission.lastIndexOf(':')) === prefix)
    .map((permission) => verbs[permission.slice(permission.lastIndexOf(':') + 1)] ?? permission);

const storingInPublic = ({ allowed_origins = [], container }: Rights): string[] => [
  container === undefined ? 'store tokens, in the container of their type' : `store tokens in ${container}`,
  allowed_origins.length === 0
    ? 'be used by apps, and by no page'
    : `be used by apps, and by pages of ${joined(allowed_origins, 'and')}`,
];

const limitsIn = ({ daily_reveals, daily_uses }: Rights): string[] => [
  ...(daily_reveals === undefined ? [] : [`get at most ${daily_reveals.toLocaleString('en')} values a day`]),
  ...(daily_uses === undefined ? [] : [`use at most ${daily_uses.toLocaleString('en')} tokens a day`]),
];

const namesDestination = ({ bound_to = {} }: Grant): boolean =>
  [bound_to.hosts, bound_to.proxies, bound_to.reactors].some((names) => names !== undefined);

/** Nothing where each grant names its destinations: its own sentence says them. @param uses the grants of `token:use`. */
const sendingIn = ({ allowed_hosts = [] }: Rights, uses: readonly Grant[]): string[] => {
  if (uses.length > 0 && allowed_hosts.length > 0) return [`send them to ${joined(allowed_hosts, 'and')} only`];
  return uses.every(namesDestination) ? [] : ['send them to any host, also to one that returns their values'];
};

const CODE_RIGHTS: readonly Permission[] = ['reactor:update', 'proxy:update'];

const cannotOf = (rights: Rights, grants: ReadonlyMap<Permission, Grant[]>): string[] => {
  const isMissing = (permission: Permission): boolean => grants.get(permission)?.length === 0;
  const reads = [...(grants.get('token:read') ?? []), ...(grants.get('token:search') ?? [])];
  const changes = (
    [
      ['token:create', 'store'],
      ['token:update', 'change'],
      ['token:delete', 'delete'],
      ['token:search', 'search'],
    ] as const
  ).filter(([permission]) => isMissing(permission));
  const others = areas.filter(([prefix]) => verbsIn(rights, prefix).length === 0).map(([, noun]) => noun);
  return [
    ...(reads.length === 0 ? ['read a token, by value or by mask'] : []),
    ...(reads.length > 0 && reads.every(({ transform }) => transform === 'mask' || transform === 'redact')
      ? ['read the value of a token']
      : []),
    ...(isMissing('token:use') ? ['use tokens in reactors or through proxies'] : []),
    ...(changes.length === 0
      ? []
      : [
          `${joined(
            changes.map(([, verb]) => verb),
            'or',
          )} tokens`,
        ]),
    ...(others.length === 0 ? [] : [`read or change ${joined(others, 'or')}`]),
  ];
};

/** @param rights validated. A public application has what its type leaves it. */
export const summarizeRights = (rights: Rights): RightsSummary => {
  const isPublic = rights.type === 'public';
  const deciding = { permissions: new Set(rights.permissions), rules: byPriority(rights.rules) };
  const grants = new Map(ofTokens.map(([permission]) => [permission, describeGrants<Bound>(deciding, permission)]));
  const onTokens = ofTokens.flatMap(([permission, words]) => (grants.get(permission) ?? []).map(words));
  const others = areas.flatMap(([prefix, noun]) => {
    const found = verbsIn(rights, prefix);
    return found.length === 0 ? [] : [`${joined(found, 'and')} ${noun}`];
  });
  return {
    can: [
      ...(isPublic && onTokens.length > 0 ? storingInPublic(rights) : onTokens),
      ...sendingIn(rights, grants.get('token:use') ?? []),
      ...others,
      ...(rights.permissions.some((each) => CODE_RIGHTS.includes(each))
        ? ['decide what code does with the values of its callers']
        : []),
      ...limitsIn(rights),
    ],
    cannot: cannotOf(rights, grants),
  };
};
