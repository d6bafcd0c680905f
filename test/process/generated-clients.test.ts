// Clients are generated from the committed document and compiled with the strictest settings, declarations included. What
// the README does with a vault is written against each of them, so that its types are those that a caller needs.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const bin = (path: string): string => `${root}node_modules/${path}`;
const documentPath = `${root}openapi/openapi.json`;

/** Below node_modules: there the compiler finds the packages that clients import. */
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(`${root}node_modules/.generated-clients-`);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const compilerOptions = {
  target: 'es2022',
  module: 'nodenext',
  lib: ['es2023', 'dom', 'dom.iterable'],
  types: [],
  strict: true,
  noEmit: true,
  skipLibCheck: false,
  noUncheckedIndexedAccess: true,
};

/** @returns what a program printed, whether it failed or not. */
const outputOf = async (command: string[], cwd: string, env: Record<string, string> = {}) => {
  const options = { cwd, env: { ...process.env, ...env, REDOCLY_TELEMETRY: 'off' }, maxBuffer: 10 ** 8 };
  try {
    const { stdout, stderr } = await run(process.execPath, command, options);
    return { failed: false, text: stdout + stderr };
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    return { failed: true, text: stdout + stderr };
  }
};

/** Their compiler is that of `typescript-5`; one of them starts a process of its own. */
const withTypescript5 = { NODE_OPTIONS: `--import ${root}test/support/typescript-5.ts` };

type Generator = { name: string; command: string[]; env?: Record<string, string>; use: string };

const generators: Generator[] = [
  {
    name: 'openapi-typescript',
    command: [bin('openapi-typescript/bin/cli.js'), documentPath, '-o', 'client.d.ts'],
    env: withTypescript5,
    use: `import createClient from 'openapi-fetch';
import type { components, paths } from './client.d.ts';

export const walk = async () => {
  const vault = createClient<paths>({ baseUrl: 'http://127.0.0.1:8080', headers: { 'SVC-API-KEY': 'key' } });
  const tokenized = await vault.POST('/tokenize', { body: { name: 'Ada', card: { type: 'card', data: { number: '4' } } } });
  const made = await vault.POST('/tokens', { body: { type: 'card', data: { number: '4242424242424242' } } });
  // @ts-expect-error: a card has a number.
  await vault.POST('/tokens', { body: { type: 'card', data: {} } });
  // @ts-expect-error: there is no such type.
  await vault.POST('/tokens', { body: { type: 'cart', data: 'x' } });
  const id: string = made.data?.id ?? '';
  const read = await vault.GET('/tokens/{id}', { params: { path: { id } } });
  const problems: Record<string, string[]> | undefined = read.error?.errors;
  const page = await vault.POST('/tokens/search', { body: { query: 'type:card' } });
  const first: components['schemas']['Token'] | undefined = page.data?.data[0];
  await vault.PATCH('/tokens/{id}', { params: { path: { id } }, body: { metadata: { order: null } } });
  await vault.POST('/applications', { body: { name: 'Support', permissions: ['token:read'] } });
  await vault.POST('/proxies', { body: { name: 'Shop', destination_url: 'https://api.example.com' } });
  const reactor = await vault.POST('/reactors', { body: { name: 'Digits', formula: { id } } });
  const answer = await vault.POST('/reactors/{id}/react', {
    params: { path: { id: reactor.data?.id ?? '' } },
    body: { args: { card: 'x' } },
  });
  const raw: unknown = answer.data?.raw;
  return [tokenized.data, problems, first, raw];
};
`,
  },
  {
    name: 'hey-api',
    command: [bin('@hey-api/openapi-ts/bin/run.js'), '-i', documentPath, '-o', 'client', '--no-log-file'],
    env: withTypescript5,
    use: `import { createToken, getToken, invokeReactor, searchTokens, tokenize } from './client';
import type { CreateTokenRequest, Token } from './client';

export const walk = async () => {
  const body: CreateTokenRequest = { type: 'card', data: { number: '4242424242424242' } };
  // @ts-expect-error: a card has a number.
  const wrong: CreateTokenRequest = { type: 'card', data: {} };
  const tokenized = await tokenize({ body: ['Ada', body, wrong] });
  const made = await createToken({ body });
  const token: Token | undefined = made.data;
  const read = await getToken({ path: { id: token?.id ?? '' } });
  const errors: Record<string, string[]> | undefined = read.error?.errors;
  const page = await searchTokens({ body: { query: 'type:card' } });
  const answer = await invokeReactor({ path: { id: 'x' }, body: { args: {} } });
  const raw: unknown = answer.data?.raw;
  return [tokenized.data, errors, page.data?.pagination.next, raw];
};
`,
  },
  {
    name: 'orval',
    command: [bin('orval/dist/bin/orval.mjs'), '--input', documentPath, '--output', 'client.ts', '--client', 'fetch'],
    use: `import { createToken, getToken, searchTokens, tokenize } from './client';
import type { Token } from './client';

export const walk = async () => {
  const tokenized = await tokenize({ name: 'Ada' });
  const made = await createToken({ type: 'card', data: { number: '4242424242424242' } });
  // @ts-expect-error: a card has a number.
  await createToken({ type: 'card', data: {} });
  const token: Token | undefined = made.status === 201 ? made.data : undefined;
  const read = await getToken(token?.id ?? '');
  const errors: Record<string, string[]> | undefined = read.status === 400 ? read.data.errors : undefined;
  const page = await searchTokens({ query: 'type:card' });
  return [tokenized.data, errors, page.status === 200 ? page.data.pagination.next : undefined];
};
`,
  },
  {
    name: 'Redocly',
    command: [bin('@redocly/cli/bin/cli.js'), 'generate-client', documentPath, '-o', 'client.ts'],
    use: `import { createToken, getToken, searchTokens, tokenize } from './client.js';
import type { Token } from './client.js';

export const walk = async () => {
  const tokenized = await tokenize({ body: { name: 'Ada' } });
  const token: Token = await createToken({ body: { type: 'card', data: { number: '4242424242424242' } } });
  // @ts-expect-error: a card has a number.
  await createToken({ body: { type: 'card', data: {} } });
  const read: Token = await getToken({ path: { id: token.id } });
  const page = await searchTokens({ body: { query: 'type:card' } });
  return [tokenized, read.metadata?.['order'], page.pagination.next];
};
`,
  },
];

test.each(generators)('a client that $name generates compiles, and does what the README does', async (generator) => {
  const { name, command, env, use } = generator;
  const place = `${folder}/${name}`;
  await mkdir(place);
  const generated = await outputOf(command, place, env);
  expect(generated.failed, generated.text).toBe(false);
  await writeFile(`${place}/use.ts`, use);
  // What generators write imports without endings of files, as bundlers take it.
  const module = name === 'hey-api' || name === 'orval' ? { module: 'esnext', moduleResolution: 'bundler' } : {};
  const options = { ...compilerOptions, ...module };
  await writeFile(`${place}/package.json`, '{"type":"module"}');
  await writeFile(`${place}/tsconfig.json`, JSON.stringify({ compilerOptions: options, include: ['.'] }));
  const compiled = await outputOf([bin('typescript/bin/tsc'), '-p', '.'], place);
  expect(compiled.text).toBe('');
  expect(compiled.failed).toBe(false);
});
