// The list of permissions, with a description of each.
import { nearestName } from '../../platform/base/unknown-names.ts';

const descriptions = {
  'token:create': 'Create tokens and tokenize',
  'token:read': 'Read tokens',
  'token:update': 'Update tokens',
  'token:delete': 'Delete tokens',
  'token:search': 'Search tokens',
  'token:use': 'Use tokens in reactors and the proxy',
  'delegation:create': 'Create tokens by delegated payments, within an allowance',
  'session:create': 'Create sessions for browsers',
  'session:read': 'Read sessions for browsers',
  'application:create': 'Create applications',
  'application:read': 'Read applications',
  'application:update': 'Update applications',
  'application:delete': 'Delete applications',
  'access:read': 'Read who may do what, and attest reviews of it',
  'log:read': 'Read logs',
  'forward:read': 'Read forwarded requests that have an idempotency key',
  'forward:replay': 'Send forwarded requests again',
  'reactor:create': 'Create reactors and reactor formulas',
  'reactor:read': 'Read reactors and reactor formulas',
  'reactor:update': 'Update reactors and reactor formulas',
  'reactor:delete': 'Delete reactors and reactor formulas',
  'proxy:create': 'Create proxies',
  'proxy:read': 'Read proxies',
  'proxy:update': 'Update proxies',
  'proxy:delete': 'Delete proxies',
  'webhook:create': 'Create webhooks',
  'webhook:read': 'Read webhooks and their deliveries',
  'webhook:update': 'Update webhooks, and send deliveries again',
  'webhook:delete': 'Delete webhooks',
  'tenant:read': 'Read the tenant',
  'tenant:update': 'Update the tenant',
  'tenant:delete': 'Delete the tenant',
  'tenant:member:read': 'Read members of the tenant',
  'tenant:member:update': 'Update members of the tenant',
  'tenant:member:delete': 'Remove members of the tenant',
  'tenant:invitation:create': 'Invite to the tenant',
  'tenant:invitation:read': 'Read invitations to the tenant',
  'tenant:invitation:update': 'Resend invitations to the tenant',
  'tenant:invitation:delete': 'Delete invitations to the tenant',
  'report:read': 'Read usage reports',
} as const;

export type Permission = keyof typeof descriptions;

export const permissions = Object.keys(descriptions) as Permission[];

const describePermission = (permission: Permission): string => descriptions[permission];

/** The error for a text that is none of some permissions, with the nearest one. */
export const notPermission = (what: string, given: unknown, known: readonly string[]): string => {
  const nearest = typeof given === 'string' ? nearestName(given, known) : undefined;
  return `must be ${what}${nearest === undefined ? '' : `; did you mean \`${nearest}\`?`}`;
};

export const isPermission = (text: unknown): text is Permission =>
  typeof text === 'string' && Object.hasOwn(descriptions, text);

/**
 * What a member with a second factor does in the console only a few minutes after giving it: using and deleting values, and changing
 * grants, people, code and settings. A reading of values that reveals them is added where its rules are known, and a search about values
 * where its query is. A test lists the others.
 */
export const sensitivePermissions: ReadonlySet<Permission> = new Set([
  'token:update',
  'token:delete',
  'token:use',
  'session:create',
  'application:create',
  'application:update',
  'application:delete',
  'reactor:create',
  'reactor:update',
  'reactor:delete',
  'proxy:create',
  'proxy:update',
  'proxy:delete',
  'webhook:create',
  'webhook:update',
  'webhook:delete',
  'forward:replay',
  'tenant:update',
  'tenant:delete',
  'tenant:member:update',
  'tenant:member:delete',
  'tenant:invitation:create',
  'tenant:invitation:update',
  'tenant:invitation:delete',
]);

/**
 * What an application is meant for. `public`: its key is in browsers and apps, and it may hold `token:create` only. The others are
 * labels.
 */
export const applicationTypes = ['private', 'public', 'management'] as const;

export type ApplicationType = (typeof applicationTypes)[number];

/** All that a public application may hold. */
export const publicPermissions: readonly Permission[] = ['token:create'];

/** The types of application that usually hold a permission. */
const applicationTypesOf = (permission: Permission): ApplicationType[] => {
  if (!permission.startsWith('token:')) return ['management'];
  return publicPermissions.includes(permission) ? ['private', 'public'] : ['private'];
};

export type PermissionRecord = { type: Permission; description: string; application_types: ApplicationType[] };

/** @param application_type only those that it usually holds; undefined for all. */
export const listPermissions = (application_type?: ApplicationType): PermissionRecord[] =>
  permissions
    .map((type) => ({ type, description: describePermission(type), application_types: applicationTypesOf(type) }))
    .filter(({ application_types }) => application_type === undefined || application_types.includes(application_type));
