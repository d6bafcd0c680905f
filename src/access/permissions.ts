// The closed list of permissions, with the sentence that explains each. Knows no caller and no route.

const descriptions = {
  'token:create': 'Create tokens and tokenize',
  'token:read': 'Read tokens',
  'token:update': 'Update tokens',
  'token:delete': 'Delete tokens',
  'token:search': 'Search tokens',
  'token:use': 'Use tokens in reactors and the proxy',
  'application:create': 'Create applications',
  'application:read': 'Read applications',
  'application:update': 'Update applications',
  'application:delete': 'Delete applications',
  'log:read': 'Read logs',
  'reactor:create': 'Create reactors and reactor formulas',
  'reactor:read': 'Read reactors and reactor formulas',
  'reactor:update': 'Update reactors and reactor formulas',
  'reactor:delete': 'Delete reactors and reactor formulas',
  'proxy:create': 'Create proxies',
  'proxy:read': 'Read proxies',
  'proxy:update': 'Update proxies',
  'proxy:delete': 'Delete proxies',
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

export const describePermission = (permission: Permission): string => descriptions[permission];

export const isPermission = (text: unknown): text is Permission =>
  typeof text === 'string' && Object.hasOwn(descriptions, text);
