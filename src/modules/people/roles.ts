// The roles of members: the permissions of each, how much of a token's value it sees, and the role in a request.
import { z } from 'zod';
import type { AccessRule } from '../access/access-rule.ts';
import { type Permission, permissions } from '../access/permissions.ts';

export const roles = ['OWNER', 'ADMIN', 'DEVELOPER', 'SUPPORT', 'AUDITOR'] as const;

export type Role = (typeof roles)[number];

/** The roles that an invitation and a change of a member may give. The operator names the owner. */
export const givenRoles = ['ADMIN', 'DEVELOPER', 'SUPPORT', 'AUDITOR'] as const satisfies readonly Role[];

export type GivenRole = (typeof givenRoles)[number];

/** Role of an invitation that names none. */
export const DEFAULT_ROLE: GivenRole = 'ADMIN';

type Rights = {
  /** In the document and the console. */
  description: string;
  permissions: readonly Permission[];
  /** How reading and searching show tokens. Undefined: they are refused, as a rule gives the permission too. */
  shows?: AccessRule['transform'];
};

const under = (...areas: string[]): Permission[] =>
  permissions.filter((permission) => areas.some((area) => permission.startsWith(`${area}:`)));

const full = { permissions, shows: 'reveal' } as const;

const rights: Record<Role, Rights> = {
  OWNER: { ...full, description: 'full access; cannot be removed' },
  ADMIN: { ...full, description: 'full access' },
  // Without `token:use` and `token:update`: code and a moved token could show values. Without the change of reactors and proxies:
  // they may be in use, and what they send elsewhere are the values of their callers.
  DEVELOPER: {
    permissions: [
      ...(['token:create', 'token:read', 'token:search', 'log:read', 'tenant:read', 'report:read'] as const),
      ...(['reactor:create', 'reactor:read', 'proxy:create', 'proxy:read', 'tenant:member:read'] as const),
      ...under('session', 'application'),
    ],
    shows: 'redact',
    description:
      'applications within its own permissions, new reactors and proxies, and the log; sees no value of a token. It reads the configurations of reactors and proxies, and the keys of proxies: the key of an open proxy sends values to the destination of that proxy',
  },
  SUPPORT: {
    permissions: ['token:read', 'token:search', 'tenant:read'],
    shows: 'mask',
    description:
      'reads and searches tokens, and sees their masks. An API key with its permission `token:read` may also link tokens; the console does not offer that to this role',
  },
  AUDITOR: {
    permissions: ['log:read', 'access:read'],
    description: 'reads the log, and who may do what with which tokens',
  },
};

export const describeRole = (role: Role): string => rights[role].description;

/** All roles, the one with the most permissions first. */
export const listRoles = (): { name: Role; description: string }[] =>
  roles.map((name) => ({ name, description: describeRole(name) }));

/** The permissions of a role. A role of a later version has none. */
const permissionsOfRole = (role: Role): ReadonlySet<Permission> => new Set(rights[role]?.permissions);

/** Whether a member of the role may invite others. */
export const mayInvite = (role: Role): boolean => permissionsOfRole(role).has('tenant:invitation:create');

/** Whether a member of the role may see values: masked until they ask for one. */
export const mayReveal = (role: Role): boolean => rights[role]?.shows === 'reveal';

/** Without a rule, a permission alone would show the value of a token that has no mask. */
const ruleOf = (transform: AccessRule['transform']): AccessRule => ({
  description: '',
  priority: 1,
  container: '/',
  transform,
  permissions: ['token:read', 'token:search'],
});

/** The rules of a member's pages: they show masks until the member asks for a value. */
const rulesOfRole = (role: Role): readonly AccessRule[] => {
  const shows = rights[role]?.shows;
  return shows === undefined ? [] : [ruleOf(shows === 'reveal' ? 'mask' : shows)];
};

/** The rule under which a member who may see values asks for one. */
export const revealingRules: readonly AccessRule[] = [ruleOf('reveal')];

/** What decides for a member of the role. Its pages show masks. */
export const rightsOfRole = (role: Role) => ({ permissions: permissionsOfRole(role), rules: rulesOfRole(role) });

// The role in a request, and what the document says of roles.

export const ROLES_IN_DOCUMENTS = `${roles.map((role) => `\`${role}\`: ${describeRole(role)}`).join('. ')}.`;

export const givenRoleSchema = z
  .enum(givenRoles, `must be ${givenRoles.slice(0, -1).join(', ')} or ${givenRoles.at(-1)}`)
  .meta({ 'x-extensible-enum': [...givenRoles] });
