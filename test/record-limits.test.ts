// How many applications, API keys, formulas, reactors and proxies a tenant may have.
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { API_KEYS_OF_TENANT_MAX } from '../src/modules/access/application-keys.ts';
import { APPLICATIONS_MAX } from '../src/modules/access/applications.ts';
import { FORMULAS_MAX } from '../src/modules/code/formulas.ts';
import { PROXIES_MAX } from '../src/modules/proxy/proxies.ts';
import { REACTORS_MAX } from '../src/modules/reactors/reactors.ts';
import { codeOf, makeFormula, makeReactorOf } from './support/reactors.ts';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';
import { changeProxy, makeProxy } from './support/stored-proxies.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

/** Many rows at once. */
const fill = (table: string, columns: string, values: string, { tenant_id }: TestTenant, count: number) =>
  server.sql(
    `INSERT INTO ${table} (tenant_id, created_at, ${columns}) SELECT $1, now(), ${values} FROM generate_series(1, $2::int) AS n`,
    [tenant_id, count],
  );

const statusesOf = async (path: string, tenant: TestTenant, json: object): Promise<number[]> => {
  const answers = await Promise.all(
    [1, 2, 3].map(() => server.request('POST', path, { key: tenant.api_key, json: { ...json } })),
  );
  return answers.map(({ status }) => status).toSorted();
};

const refusalOf = async (path: string, tenant: TestTenant, json: object): Promise<string> => {
  const { status, body } = await server.request('POST', path, { key: tenant.api_key, json });
  expect(status).toBe(409);
  return body.detail;
};

test('applications: of three requests at once for the last place one is served', async () => {
  const tenant = await server.newTenant();
  const path = '/applications';
  const json = { name: 'Last', type: 'private', permissions: ['token:create'] };
  const columns = 'id, name, search_name, type, permissions';
  const values = "gen_random_uuid(), 'Old ' || n, 'old ' || n, 'private', '{token:create}'";
  await fill('applications', columns, values, tenant, APPLICATIONS_MAX - 2);
  expect(await statusesOf(path, tenant, json)).toEqual([201, 409, 409]);
  expect(await refusalOf(path, tenant, json)).toBe(
    `A tenant may have ${APPLICATIONS_MAX} applications: delete some first.`,
  );
  // The command line has the same limit.
  await expect(server.newKey(tenant, {})).rejects.toThrow(`A tenant may have ${APPLICATIONS_MAX} applications`);
  // Those of another tenant do not count.
  expect(await statusesOf(path, server.tenant, json)).toEqual([201, 201, 201]);
  await server.sql(`DELETE FROM applications WHERE tenant_id = $1 AND name = 'Old 1'`, [tenant.tenant_id]);
  expect(await statusesOf(path, tenant, json)).toEqual([201, 409, 409]);
});

test('API keys of all applications of a tenant', async () => {
  const tenant = await server.newTenant();
  const values = `'limit' || n, '${randomUUID()}', decode(md5(n::text), 'hex')`;
  await fill('api_keys', 'public_id, application_id, digest', values, tenant, API_KEYS_OF_TENANT_MAX - 2);
  const path = `/applications/${tenant.application_id}/keys`;
  expect(await statusesOf(path, tenant, {})).toEqual([201, 409, 409]);
  expect(await refusalOf(path, tenant, {})).toContain(`A tenant may have ${API_KEYS_OF_TENANT_MAX} API keys`);
});

test('formulas and reactors', async () => {
  const tenant = await server.newTenant();
  const key = tenant.api_key;
  const formula_id = await makeFormula(server, { code: codeOf('return { raw: {} }'), key });
  const reactor_id = await makeReactorOf(server, formula_id, { key });
  const columns = 'id, name, search_name, sealed';
  const values = "gen_random_uuid(), 'Old ' || n, 'old ' || n, 'x'";
  await fill('reactors', `formula_id, ${columns}`, `'${formula_id}', ${values}`, tenant, REACTORS_MAX - 2);
  const reactor = { name: 'Last', formula: { id: formula_id }, configuration: {} };
  expect(await statusesOf('/reactors', tenant, reactor)).toEqual([201, 409, 409]);
  expect(await refusalOf('/reactors', tenant, reactor)).toContain(`A tenant may have ${REACTORS_MAX} reactors`);
  expect((await server.request('POST', `/reactors/${reactor_id}/react`, { key, json: { args: {} } })).status).toBe(200);

  const contracts = 'configuration, request_parameters';
  await fill('reactor_formulas', `${columns}, ${contracts}`, `${values}, '[]', '[]'`, tenant, FORMULAS_MAX - 2);
  const formula = { name: 'Last', type: 'private', code: codeOf('return { raw: {} }') };
  expect(await statusesOf('/reactor-formulas', tenant, formula)).toEqual([201, 409, 409]);
  expect(await refusalOf('/reactor-formulas', tenant, formula)).toContain(`A tenant may have ${FORMULAS_MAX} formulas`);
});

test('a tenant with more proxies, from before there was a limit, keeps and changes them', async () => {
  const tenant = await server.newTenant();
  const key = tenant.api_key;
  const proxy = await makeProxy(server, { destination_url: 'https://example.com' }, key);
  const columns = 'id, name, search_name, require_auth, allowed_hosts, sealed';
  await fill('proxies', columns, "gen_random_uuid(), 'Old', 'old', true, '{}', 'x'", tenant, PROXIES_MAX);
  const json = { name: 'One more', destination_url: 'https://example.com' };
  expect(await refusalOf('/proxies', tenant, json)).toContain(`A tenant may have ${PROXIES_MAX} proxies`);
  await changeProxy(server, proxy, { name: 'Renamed', destination_url: 'https://example.com' }, key);
  const { body } = await server.request('GET', `/proxies/${proxy.id}`, { key });
  expect(body.name).toBe('Renamed');
});
