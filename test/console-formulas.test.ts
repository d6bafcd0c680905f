// The pages of formulas: official ones and the tenant's own, from which reactors are made; and a page for each resource of the API.
import { beforeAll, describe, expect, test } from 'vitest';
import { type Browser, type SharedConsole, textOf, useConsole } from './support/console.ts';
import { document } from './support/document.ts';

let server: SharedConsole;
let member: Browser;
beforeAll(async () => {
  server = await useConsole();
  member = await server.signIn();
});

const makeFormula = async (more: object = {}): Promise<string> => {
  const json = { name: 'Own <b>', type: 'private', code: 'module.exports = () => ({ raw: "<i>" });', ...more };
  const { status, body, text } = await server.request('POST', '/reactor-formulas', { json });
  expect(status, text).toBe(201);
  return body.id;
};

const become = async (role: string): Promise<Browser> => {
  const other = await server.signIn();
  const path = `/tenants/self/members/${other.member_id}`;
  expect((await server.request('PUT', path, { json: { role } })).status).toBe(200);
  return other;
};

describe('Formulas', () => {
  test('are listed by name, and a reactor is made from one', async () => {
    const id = await makeFormula({ configuration: [{ name: 'KEY', type: 'string' }] });
    const list = await member.get('/console/formulas?name=Own*');
    expect(textOf(list.text)).toContain('Own <b>');
    expect(list.text).toContain(`href="/console/reactors?from=${id}#new"`);
    const page = await member.get(`/console/formulas/${id}`);
    expect(page.text).toContain('&quot;&lt;i&gt;&quot;');
    const form = await member.get(`/console/reactors?from=${id}`);
    expect(textOf(form.text)).toContain('It runs the private formula Own <b>.');
    expect(form.text).toContain('name="configuration.KEY"');
    const made = await member.post('/console/reactors', { from: id, name: 'From it', 'configuration.KEY': 'k' });
    const [, rest = ''] = /^\/console([^?]+)/.exec(made.headers.get('location') ?? '') ?? [];
    const { body } = await server.request('GET', rest);
    expect(body.formula.id).toBe(id);
    await member.get(`/console/formulas/${id}`);
    const refused = await member.post(`/console/formulas/${id}/delete`);
    expect([refused.status, textOf(refused.text).includes('The formula was not deleted.')]).toEqual([409, true]);
  });

  test('have their contracts changed by fields; code and icon stay', async () => {
    const icon =
      'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mPQyp8OAAH3ATEjw1BhAAAAAElFTkSuQmCC';
    const id = await makeFormula({ icon, configuration: [{ name: 'OLD', type: 'string' }] });
    const path = `/console/formulas/${id}`;
    const read = async () => (await server.request('GET', `/reactor-formulas/${id}`)).body;
    const before = await read();
    const page = await member.get(`${path}/edit`);
    expect(page.text).toContain('name="configuration.0.name" value="OLD"');
    const [, seen = ''] = /name="seen" value="([^"]+)"/.exec(page.text) ?? [];
    const fields = {
      seen,
      name: 'Charge',
      description: 'Charges a card',
      'configuration.0.name': '',
      'configuration.1.name': 'LIMIT',
      'configuration.1.type': 'number',
      'configuration.1.description': 'Of a day',
      'request_parameters.0.name': 'card.number',
      'request_parameters.0.type': 'string',
      'request_parameters.1.name': 'note',
      'request_parameters.1.type': 'string',
      'request_parameters.1.optional': 'yes',
    };
    const wrong = await member.post(`${path}/edit`, { ...fields, 'request_parameters.1.name': '-note' });
    expect([wrong.status, textOf(wrong.text).includes('The formula was not saved.')]).toEqual([400, true]);
    expect(wrong.text).toMatch(/name="request_parameters\.1\.name" value="-note"[^>]* aria-invalid="true"/);
    await member.get(path);
    expect((await member.post(`${path}/edit`, fields)).headers.get('location')).toBe(`${path}?done=saved`);
    const { modified_at, modified_by, ...after } = await read();
    expect([typeof modified_at, typeof modified_by]).toEqual(['string', 'string']);
    expect(after).toEqual({
      ...before,
      name: 'Charge',
      description: 'Charges a card',
      configuration: [{ name: 'LIMIT', type: 'number', description: 'Of a day' }],
      request_parameters: [
        { name: 'card.number', type: 'string', optional: false },
        { name: 'note', type: 'string', optional: true },
      ],
    });
    await member.get(path);
    const outdated = await member.post(`${path}/edit`, fields);
    expect([outdated.status, textOf(outdated.text).includes('was changed since the page was opened')]).toEqual([
      409,
      true,
    ]);
    const developer = await become('DEVELOPER');
    expect((await developer.get(`${path}/edit`)).status).toBe(403);
  });

  test('are deleted and restored by forms, of the tenant and for roles that may', async () => {
    const id = await makeFormula();
    const json = { name: 'Own', type: 'private', code: 'module.exports = () => ({ raw: 2 });' };
    expect((await server.request('PUT', `/reactor-formulas/${id}`, { json })).status).toBe(200);
    const path = `/console/formulas/${id}`;
    const developer = await become('DEVELOPER');
    const { text } = await developer.get(path);
    for (const form of ['/delete"', '/restore"']) expect(text).not.toContain(path + form);
    expect((await developer.post(`${path}/delete`)).status).toBe(403);
    const anonymous = await server.signIn({ tenant: await server.newTenant() });
    expect((await anonymous.get(path)).status).toBe(404);
    await anonymous.get('/console/formulas');
    expect((await anonymous.post(`${path}/delete`)).status).toBe(404);
    expect((await anonymous.get(`/console/reactors?from=${id}`)).text).not.toContain('Own');
    await member.get(path);
    const restored = await member.follow(await member.post(`${path}/restore`, { number: '1' }));
    expect(textOf(restored.text)).toContain('Version 1 was restored. It runs now as version 3.');
    const gone = await member.follow(await member.post(`${path}/delete`));
    expect(textOf(gone.text)).toContain('The formula was deleted.');
    expect((await member.get(path)).status).toBe(404);
  });
});

/** The form of the console that does an operation of the API. */
const FORMS: Record<string, string> = {
  attestReview: '/console/access/review',
  createApplication: '/console/applications/new',
  updateApplication: '/console/applications/:id',
  deleteApplication: '/console/applications/:id/delete',
  regenerateApplicationKey: '/console/applications/:id/key',
  createApiKey: '/console/applications/:id/keys',
  updateApiKey: '/console/applications/:id/keys/:key_id',
  deleteApiKey: '/console/applications/:id/keys/:key_id/revoke',
  createProxy: '/console/proxies/new',
  updateProxy: '/console/proxies/:id/edit',
  deleteProxy: '/console/proxies/:id/delete',
  rotateProxyKey: '/console/proxies/:id/key',
  restoreProxyVersion: '/console/proxies/:id/restore',
  createReactorFormula: '/console/reactors',
  updateReactorFormula: '/console/reactors/:id',
  deleteReactorFormula: '/console/formulas/:id/delete',
  restoreReactorFormulaVersion: '/console/formulas/:id/restore',
  createReactor: '/console/reactors',
  updateReactor: '/console/reactors/:id',
  patchReactor: '/console/reactors/:id',
  deleteReactor: '/console/reactors/:id/delete',
  invokeReactor: '/console/reactors/:id',
  testReactor: '/console/reactors/:id',
  restoreReactorVersion: '/console/reactors/:id/restore',
  updateTenant: '/console/settings',
  deleteTenant: '/console/settings/delete',
  createInvitation: '/console/people/invitations',
  deleteInvitation: '/console/people/invitations/:id/delete',
  resendInvitation: '/console/people/invitations/:id/resend',
  updateMember: '/console/people/members/:id/role',
  deleteMember: '/console/people/members/:id/remove',
  deleteTokensBySearch: '/console/tokens/search/delete',
  searchTokens: '/console/tokens/search',
  updateToken: '/console/tokens/:id/edit',
  deleteToken: '/console/tokens/:id/delete',
  createTokenAssociation: '/console/tokens/:id/link',
  deleteTokenAssociation: '/console/tokens/:id/unlink',
  createWebhook: '/console/webhooks/new',
  updateWebhook: '/console/webhooks/:id/edit',
  patchWebhook: '/console/webhooks/:id/pause',
  deleteWebhook: '/console/webhooks/:id/delete',
  pingWebhook: '/console/webhooks/:id/ping',
  replayWebhookDelivery: '/console/webhooks/:id/replay',
  replayForward: '/console/forwards/:id/replay',
  rotateWebhookSecret: '/console/webhooks/:id/secret',
};

const TYPED = 'values are not typed into the console';
const DRAFTS = 'the page tests what is typed, and keeps no draft';
const PAGES = 'for pages that collect data, with a key of their own';
const WHOLE = 'the form that replaces the whole does it';

/** Operations without a form, each with its reason. */
const WITHOUT: Record<string, string> = {
  explainAccess: 'a page that is read: /console/access',
  simulateAccess: 'on the page of an application, beside Save',
  createToken: TYPED,
  tokenize: TYPED,
  createChildToken: TYPED,
  createTokenIntent: TYPED,
  deleteTokenIntent: TYPED,
  detokenize: 'the page of a token reveals one value at a time',
  searchTokensByCursor: 'searchTokens, with cursors',
  createSession: PAGES,
  collectSecurityCode: PAGES,
  patchProxy: WHOLE,
  saveProxyDraft: DRAFTS,
  deleteProxyDraft: DRAFTS,
  saveReactorDraft: DRAFTS,
  deleteReactorDraft: DRAFTS,
  saveReactorFormulaDraft: DRAFTS,
  deleteReactorFormulaDraft: DRAFTS,
};

/** `/proxy` takes every method: the console has one form for all. */
const isForwarded = (id: string): boolean => id.startsWith('invokeProxy');

test('each operation of the API that changes something has a form, or a reason here', async () => {
  const { paths } = document as unknown as { paths: Record<string, Record<string, { operationId?: string }>> };
  const changing = Object.values(paths).flatMap((path) =>
    Object.entries(path).flatMap(([method, { operationId }]) =>
      method !== 'get' && operationId !== undefined && !isForwarded(operationId) ? [operationId] : [],
    ),
  );
  expect(changing.length).toBeGreaterThan(50);
  expect(Object.keys({ ...FORMS, ...WITHOUT }).toSorted()).toEqual(changing.toSorted());
  expect(Object.keys(FORMS).filter((id) => Object.hasOwn(WITHOUT, id))).toEqual([]);
  const forms = new Set(server.routes.flatMap(({ method, url }) => ([method].flat().includes('POST') ? [url] : [])));
  expect([...Object.values(FORMS), '/console/proxies/:id'].filter((url) => !forms.has(url))).toEqual([]);
});
