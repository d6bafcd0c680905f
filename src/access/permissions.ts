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

const describePermission = (permission: Permission): string => descriptions[permission];

export const isPermission = (text: unknown): text is Permission =>
  typeof text === 'string' && Object.hasOwn(descriptions, text);

/** What an application is meant for. A label with defaults, not a wall: a key holds what its creator may grant (decisions.md section 3). */
export const applicationTypes = ['private', 'public', 'management'] as const;

export type ApplicationType = (typeof applicationTypes)[number];

/** What a key in an app or a browser has use for. */
const publicPermissions: readonly Permission[] = ['token:create', 'token:update'];

/** The types of application that a permission is usual for. */
const applicationTypesOf = (permission: Permission): ApplicationType[] => {
  if (!permission.startsWith('token:')) return ['management'];
  return publicPermissions.includes(permission) ? ['private', 'public'] : ['private'];
};

export type PermissionRecord = { type: Permission; description: string; application_types: ApplicationType[] };

/** Every permission with its sentence. @param application_type only those that are usual for it; undefined for all. */
export const listPermissions = (application_type?: ApplicationType): PermissionRecord[] =>
  permissions
    .map((type) => ({ type, description: describePermission(type), application_types: applicationTypesOf(type) }))
    .filter(({ application_types }) => application_type === undefined || application_types.includes(application_type));
