// Every resource of the API is created, read, listed, replaced, deleted, logged and repeated in the same way.
import { beforeAll } from 'vitest';
import { acceptInvitation } from '../../src/modules/people/acceptance.ts';
import { invite, PASSWORD } from '../support/people.ts';
import { describeList, describeResource, type Resource } from '../support/resource.ts';
import { type SharedServer, type TestTenant, useServer } from '../support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

const rule = {
  description: 'Support',
  priority: 1,
  container: '/pci/',
  transform: 'reveal',
  permissions: ['token:read'],
};

const code = 'module.exports = async ({ args, configuration }) => ({ raw: { args, configuration } });\n';
const formula = { name: 'Formula', type: 'private', code };
const contract = [
  { name: 'API_KEY', type: 'string' },
  { name: 'LIMIT', type: 'number' },
  { name: 'LIVE', type: 'boolean' },
];
const configuration = { API_KEY: 'sk_live_secret', LIMIT: 12.5, LIVE: false };

const newAddress = (): string => `${crypto.randomUUID()}@example.com`;

const newFormula = async (at: SharedServer, owner: TestTenant, given: object = {}) => {
  const { body } = await at.request('POST', '/reactor-formulas', {
    key: owner.api_key,
    json: { ...formula, ...given },
  });
  return body;
};

const invitation = (tenant_id: string) => {
  const email = newAddress();
  return {
    body: { email },
    shown: { tenant_id, email, role: 'ADMIN', status: 'PENDING' },
  };
};

const resources: Record<string, Resource> = {
  'an application': {
    path: '/applications',
    table: 'applications',
    entity_type: 'application',
    title: 'Application',
    filter: 'id',
    isNamed: true,
    isSearched: true,
    optional: ['rules', 'allowed_hosts'],
    drawn: ['key'],
    shownOnce: ['key'],
    setByServer: { key: 'svc_test_mine' },
    unchanging: ['type', 'tenant_id'],
    least: (_, { tenant_id }) => ({
      body: { name: 'Least', permissions: ['log:read'] },
      shown: { tenant_id, name: 'Least', type: 'private', permissions: ['log:read'], rules: [] },
    }),
    most: (_, { tenant_id }) => {
      const given = { name: 'Most', type: 'management', allowed_hosts: ['a.example', '*.b.example'] };
      return {
        body: { ...given, permissions: ['token:create', 'token:create'], rules: [{ ...rule, container: '/PCI/' }] },
        shown: { ...given, tenant_id, permissions: ['token:create'], rules: [rule] },
      };
    },
    change: () => {
      const shown = { name: 'Changed', permissions: ['token:update'], rules: [] };
      return { body: { name: 'Changed', type: 'management', permissions: ['token:update'] }, shown };
    },
    notice: ({ id }) => `application ${id}`,
  },
  'a formula': {
    path: '/reactor-formulas',
    table: 'reactor_formulas',
    entity_type: 'reactor_formula',
    title: 'Reactor formula',
    isNamed: true,
    isSearched: true,
    mayChooseId: true,
    optional: ['description', 'icon', 'configuration', 'request_parameters'],
    setByServer: { status: 'coming_soon' },
    least: () => ({
      body: formula,
      shown: { ...formula, status: 'verified', configuration: [], request_parameters: [] },
    }),
    most: () => {
      const body = {
        ...formula,
        description: 'Repeats what it is sent',
        configuration: [{ name: 'API_KEY', description: 'Of the shop', type: 'string' }],
        request_parameters: [
          { name: 'card.number', description: 'The card', type: 'string', optional: false },
          { name: 'amount', type: 'number', optional: true },
        ],
      };
      return { body, shown: { ...body, status: 'verified' } };
    },
    change: () => {
      const body = { ...formula, name: 'Changed' };
      return { body, shown: { ...body, status: 'verified', configuration: [], request_parameters: [] } };
    },
  },
  'a reactor': {
    path: '/reactors',
    table: 'reactors',
    entity_type: 'reactor',
    title: 'Reactor',
    filter: 'id',
    isNamed: true,
    isSearched: true,
    optional: ['configuration', 'application'],
    unchanging: ['formula', 'tenant_id'],
    hasSecrets: true,
    least: async (at, owner) => {
      const plain = await newFormula(at, owner);
      return {
        body: { name: 'Least', formula: { id: plain.id } },
        shown: { tenant_id: owner.tenant_id, name: 'Least', formula: plain, configuration: {} },
      };
    },
    most: async (at, owner) => {
      const made_of = await newFormula(at, owner, { configuration: contract });
      const { application_id } = await at.newKey(owner, { permissions: ['token:read'] });
      const { tenant_id } = owner;
      return {
        body: {
          name: 'Most',
          formula: { id: made_of.id.toUpperCase(), name: 'is not looked at' },
          configuration,
          application: { id: application_id.toUpperCase() },
        },
        shown: {
          tenant_id,
          name: 'Most',
          formula: made_of,
          configuration,
          application: { id: application_id, tenant_id, name: 'First application', type: 'private' },
        },
      };
    },
    change: ({ formula: made_of, configuration: before }) => {
      const isFull = Object.keys(before ?? {}).length > 0;
      const renewed = isFull ? { API_KEY: 'sk_other', LIMIT: 0, LIVE: true } : {};
      return {
        body: { name: 'Changed', formula: made_of, configuration: renewed },
        shown: { name: 'Changed', configuration: renewed },
      };
    },
    notice: (_, { tenant_id }) => `runnable ${tenant_id}`,
  },
  'a proxy': {
    path: '/proxies',
    table: 'proxies',
    entity_type: 'proxy',
    title: 'Proxy',
    filter: 'id',
    isNamed: true,
    isSearched: true,
    optional: [
      'request_transform',
      'response_transform',
      'application',
      'configuration',
      'require_auth',
      'expressions',
      'timeout_seconds',
      'allowed_hosts',
      'client_certificate',
    ],
    drawn: ['key'],
    setByServer: { key: 'mine' },
    unchanging: ['key', 'tenant_id'],
    hasSecrets: true,
    least: (_, { tenant_id }) => {
      const body = { name: 'Least', destination_url: 'https://api.example.com/v1' };
      return {
        body,
        shown: { ...body, tenant_id, require_auth: true, expressions: 'on', timeout_seconds: 25, configuration: null },
      };
    },
    most: async (at, owner) => {
      const { application_id } = await at.newKey(owner, { permissions: ['token:read'] });
      const body = {
        name: 'Most',
        destination_url: 'https://api.example.com/v1?live=1',
        request_transform: { code },
        response_transform: { code: `// behind\n${code}` },
        configuration,
        require_auth: false,
        expressions: 'off',
        timeout_seconds: 120,
        allowed_hosts: ['API.example.com', '*.Example.org', 'api.example.com'],
      };
      const allowed_hosts = ['api.example.com', '*.example.org'];
      return {
        body: { ...body, application: { id: application_id.toUpperCase() } },
        shown: { ...body, tenant_id: owner.tenant_id, application_id, allowed_hosts },
      };
    },
    change: () => {
      const body = { name: 'Changed', destination_url: 'https://api.example.com/v2' };
      return {
        body: { ...body, key: 'mine' },
        shown: { ...body, require_auth: true, expressions: 'on', timeout_seconds: 25, configuration: null },
      };
    },
    notice: (_, { tenant_id }) => `runnable ${tenant_id}`,
  },
  'an invitation': {
    path: '/tenants/self/invitations',
    table: 'invitations',
    entity_type: 'tenant_invitation',
    title: 'Tenant invitation',
    drawn: ['expires_at'],
    setByServer: { status: 'EXPIRED', expires_at: '2020-01-01T00:00:00.000Z' },
    least: (_, { tenant_id }) => invitation(tenant_id),
  },
  'a member': {
    path: '/tenants/self/members',
    table: 'members',
    entity_type: 'tenant_member',
    title: 'Tenant member',
    filter: 'user_id',
    isListOnly: true,
    sizeMax: 50,
    notice: ({ id }) => `member ${id}`,
    make: async (at, owner) => {
      const { secret } = await invite(at, newAddress(), owner);
      const accepted = await acceptInvitation(at.ctx, secret, { first_name: 'Ada', last_name: '', password: PASSWORD });
      if (accepted.kind !== 'accepted') throw new Error('no member was made');
      return { id: accepted.member.member_id, user_id: accepted.member.user_id };
    },
  },
};

for (const [name, resource] of Object.entries(resources)) {
  describeResource(name, () => server, resource);
  describeList(name, () => server, resource);
}
