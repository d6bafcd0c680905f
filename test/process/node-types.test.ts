// The client for Node as it is built: its types in ES modules and CommonJS, and what is generated follows the document.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeNodeApi } from '../../packages/node-api.ts';
import { writePythonApi } from '../../sdk/python/generate.ts';
import { blocksOf, pagesWithCommands } from '../support/pages.ts';
import { root } from '../support/process.ts';

/** Below node_modules: there the compiler finds the package. */
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(root, 'node_modules/.node-types-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const use = `
const vault = new Strongroom({ apiKey: 'key', baseUrl: 'http://127.0.0.1:8080' });
export const walk = async () => {
  const card: Token = await vault.tokens.create({ type: 'card', data: { number: '4242424242424242' } });
  // @ts-expect-error: a card has a number.
  await vault.tokens.create({ type: 'card', data: {} });
  // @ts-expect-error: an id is needed.
  await vault.tokens.get();
  // @ts-expect-error: there is no such option.
  await vault.tokens.get('id', { retry: 1 });
  const { pagination } = await vault.tokens.list({ type: ['card'], 'metadata.order': '4711' }, { traceId: 'order-1' });
  await vault.tokens.list({ type: 'card' });
  // @ts-expect-error: there is no such filter.
  await vault.tokens.list({ metadat: '4711' });
  for await (const token of vault.tokens.search({ query: 'type:card' })) {
    const id: string = token.id;
    console.log(id, pagination.next);
  }
  const { errors_total } = await vault.tokens.tokenize(['a'], { partial: true });
  const response: Response = await vault.proxy.fetch('https://api.example.com', { json: { number: ref(card).path('number') } });
  const { raw } = await vault.reactors.react('id', { args: { card: ref(card) } });
  await vault.tokens.linkChild('parent', 'child', { idempotencyKey: 'order-1' });
  try {
    await vault.reactors.getVersion('id', 3);
  } catch (error) {
    if (error instanceof StrongroomError) console.log(error.codes['data.number']?.[0], error.traceId, raw, errors_total, response.ok);
  }
};
`;

/** Nothing where the compilers find no error. */
const checkTypes = async (files: string[], more: object = {}): Promise<void> => {
  const compilerOptions = {
    target: 'es2022',
    module: 'node16',
    lib: ['es2023'],
    types: ['node'],
    strict: true,
    noEmit: true,
    skipLibCheck: false,
    ...more,
  };
  writeFileSync(join(folder, 'package.json'), '{}');
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
  for (const compiler of ['typescript', 'typescript-5']) {
    const args = [join(root, 'node_modules', compiler, 'bin/tsc'), '-p', '.'];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder }).catch((error) => error);
    expect(stdout, compiler).toBe('');
  }
};

test('its types are those that a caller needs, in ES modules and CommonJS', async () => {
  const names = 'ref, Strongroom, StrongroomError';
  writeFileSync(join(folder, 'module.mts'), `import { ${names}, type Token } from '@strongroom/node';\n${use}`);
  writeFileSync(
    join(folder, 'common.cts'),
    `import sdk = require('@strongroom/node');\nconst { ${names} } = sdk;\ntype Token = sdk.Token;\n${use}`,
  );
  await checkTypes(['module.mts', 'common.cts'], { noUncheckedIndexedAccess: true });
});

test('the programs of the guides are TypeScript too', async () => {
  const programs = pagesWithCommands.flatMap((page) =>
    blocksOf(page)
      .filter(({ language }) => language === 'js')
      .map(({ code }, at) => ({ name: `${page.replaceAll(/\W/g, '_')}_${at}.mts`, code })),
  );
  expect(programs.length).toBeGreaterThanOrEqual(10);
  for (const { name, code } of programs) writeFileSync(join(folder, name), code);
  await checkTypes(programs.map(({ name }) => name));
});

test('what a build generated for the clients follows the document', () => {
  const read = (path: string): string => readFileSync(join(root, path), 'utf8');
  const document = JSON.parse(read('openapi/openapi.json'));
  expect(read('packages/node/src/generated/api.ts') === writeNodeApi(document)).toBe(true);
  expect(read('sdk/python/strongroom/_generated.py') === writePythonApi(document)).toBe(true);
});
