// Deleting a tenant leaves a signed certificate of what was destroyed, which a writer of the database can neither forge nor change.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  certificateOf,
  certificatePublicKey,
  listCertificates,
  verifyCertificate,
} from '../src/cli/erasure-certificates.ts';
import { DELETED_TENANT_GRACE_MS } from '../src/platform/base/times.ts';
import { signDocument, signingKeyOfSeed } from '../src/platform/crypto/signed-note.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
const directory = mkdtempSync(join(tmpdir(), 'strongroom-certificates-'));
beforeAll(async () => {
  server = await startServer();
});
afterAll(async () => {
  await server.close();
  rmSync(directory, { recursive: true, force: true });
});

const GRACE_MS = DELETED_TENANT_GRACE_MS + 60_000;

const newToken = async (of: TestTenant, request: object): Promise<string> => {
  const answer = await server.request('POST', '/tokens', { json: request, key: of.api_key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

const deleteTenant = async (of: TestTenant): Promise<void> => {
  expect((await server.request('DELETE', '/tenants/self', { key: of.api_key })).status).toBe(204);
};

/** What a person without the vault says about a certificate. */
const verify = (text: string, key = certificatePublicKey(server.ctx)) => {
  const file = join(directory, 'certificate.json');
  writeFileSync(file, text);
  return verifyCertificate(file, key);
};

test('says who destroyed which keys and how many rows, once no row is left', async () => {
  const gone = await server.newTenant();
  const stays = await server.newTenant();
  for (let times = 0; times < 3; times += 1) await newToken(gone, { type: 'token', data: `plain-${times}` });
  const parent = await newToken(gone, { type: 'token', data: 'plain-parent' });
  await server.request('POST', `/tokens/${parent}/children`, { json: { data: 'child' }, key: gone.api_key });
  await newToken(stays, { type: 'token', data: 'kept' });
  const keys = await server.sql('SELECT id::text FROM tenant_keys WHERE tenant_id = $1', [gone.tenant_id]);
  const counted = async (table: string): Promise<number> =>
    (await server.sql(`SELECT count(*)::int AS count FROM ${table} WHERE tenant_id = $1`, [gone.tenant_id]))[0].count;
  const before = {
    tokens: await counted('tokens'),
    applications: await counted('applications'),
    api_keys: await counted('api_keys'),
  };

  await deleteTenant(gone);
  await expect(certificateOf(server.ctx, gone.tenant_id)).rejects.toThrow('still being deleted');
  await sweep(server.ctx);
  server.clock.offsetMs += GRACE_MS;
  await sweep(server.ctx);

  const text = await certificateOf(server.ctx, gone.tenant_id);
  const certificate = JSON.parse(text);
  expect(certificate).toMatchObject({
    type: 'strongroom erasure certificate/1',
    environment: 'test',
    tenant_id: gone.tenant_id,
    deleted_by: { type: 'application', id: gone.application_id },
    rows_deleted: { tenants: 1, tenant_keys: 2, token_associations: 1, ...before },
  });
  expect(before.tokens).toBe(5);
  expect(certificate.keys_destroyed.map(({ id }: { id: string }) => id).toSorted()).toEqual(
    keys.map(({ id }) => id).toSorted(),
  );
  expect(text).not.toContain('plain');
  expect(verify(text)).toMatchObject({ tenant_id: gone.tenant_id });
  const listed = new Map<string, string>();
  await listCertificates(server.ctx, ({ tenant_id, state }) => listed.set(tenant_id, state));
  expect(listed.get(gone.tenant_id)).toBe('issued');
  expect(listed.has(stays.tenant_id)).toBe(false);
});

test('is refused when a part of it was changed, or when another key signed it', async () => {
  const gone = await server.newTenant();
  await newToken(gone, { type: 'token', data: 'x' });
  await deleteTenant(gone);
  server.clock.offsetMs += GRACE_MS;
  await sweep(server.ctx);
  const text = await certificateOf(server.ctx, gone.tenant_id);
  const certificate = JSON.parse(text);
  const changes = [
    { ...certificate, rows_deleted: { ...certificate.rows_deleted, tokens: 0 } },
    { ...certificate, deleted_by: { type: 'operator', id: gone.application_id } },
    { ...certificate, keys_destroyed: [] },
    { ...certificate, added: 'x' },
    { ...certificate, signature: { ...certificate.signature, algorithm: 'none' } },
  ];
  for (const changed of changes) expect(() => verify(JSON.stringify(changed))).toThrow('no certificate of the vault');
  // An attacker signs with a key of their own, which they also name in the document.
  const { signature: _, ...document } = certificate;
  const forged = signDocument(signingKeyOfSeed(Buffer.alloc(32, 9)), { ...document, rows_deleted: {} });
  expect(() => verify(JSON.stringify(forged))).toThrow('no certificate of the vault');
  await server.sql('UPDATE erasure_certificates SET certificate = $2 WHERE tenant_id = $1', [
    gone.tenant_id,
    JSON.stringify(forged),
  ]);
  await expect(certificateOf(server.ctx, gone.tenant_id)).rejects.toThrow('this vault did not sign it');
  expect(() => verify('not json')).toThrow('cannot be read as JSON');
});

test('is not issued for a deletion that was changed or copied in the database', async () => {
  const [one, other] = [await server.newTenant(), await server.newTenant()];
  await deleteTenant(one);
  await deleteTenant(other);
  await server.sql(
    `UPDATE erasure_certificates SET deletion = jsonb_set(deletion, '{deleted_by,id}', '"someone"') WHERE tenant_id = $1`,
    [one.tenant_id],
  );
  await server.sql(
    'UPDATE erasure_certificates SET deletion = (SELECT deletion FROM erasure_certificates WHERE tenant_id <> $1 LIMIT 1) WHERE tenant_id = $1',
    [other.tenant_id],
  );
  server.clock.offsetMs += GRACE_MS;
  await sweep(server.ctx);
  const states = new Map<string, string>();
  await listCertificates(server.ctx, ({ tenant_id, state }) => states.set(tenant_id, state));
  expect([one, other].map(({ tenant_id }) => states.get(tenant_id))).toEqual(['refused', 'refused']);
  for (const { tenant_id } of [one, other])
    await expect(certificateOf(server.ctx, tenant_id)).rejects.toThrow('this vault did not sign it');
});
