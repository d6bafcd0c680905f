// The one rule of the layout: a folder of the platform imports only folders above it in PLATFORM, platform imports no module, and
// a module imports only modules above it in MODULES. Imports of types count, and no file may import itself through others.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findCircles, type Import, listSources, readImports, resolveImport, root } from '../support/source-graph.ts';

const src = join(root, 'src');

/** The folders of the platform in order: each may import those before it. */
const PLATFORM = [
  'json',
  'base',
  'crypto',
  'dev-postgres',
  'sandbox',
  'config',
  'metrics',
  'tracing',
  'db',
  'egress',
  'mail',
  'maintenance',
  'services',
  'keys',
  'http',
  'audit',
];

/** The modules in order, each on the platform and on the modules before it. */
const MODULES = [
  'access',
  'logs',
  'runs',
  'tokens',
  'sessions',
  'fields',
  'code',
  'reactors',
  'proxy',
  'people',
  'answers',
  'webhooks',
  'testing',
  'console',
  'health',
  'docs',
];

/** Files that put the parts together, and the command line: they import everything, and no part imports them. */
const COMPOSITION = [
  'main.ts',
  'server.ts',
  'first-tenant.ts',
  'serve.ts',
  'supervise.ts',
  'serve-alone.ts',
  'heavy-worker.ts',
  'worker-process.ts',
  'sealable-server.ts',
  'unseal-socket.ts',
  'worker-messages.ts',
  'worker-metrics.ts',
  'app.ts',
  'modules.ts',
  'context.ts',
];

const files = listSources('src');

const textOf = (file: string): string => readFileSync(join(src, file), 'utf8');

const importsOf = (file: string): Import[] => readImports('src', file);

const imports = files.flatMap(importsOf);

/** The file that an import names, as a path under src; undefined for packages. */
const target = resolveImport;

/** Every place in the order of imports: what puts the parts together comes last. */
const ORDER = [
  'generated',
  ...PLATFORM.map((name) => `platform/${name}`),
  ...MODULES.map((name) => `modules/${name}`),
  'composition',
];

/** The rank of a file's place; undefined for a file in no known place. */
const rankOf = (path: string): number | undefined => {
  const [top = '', second = ''] = path.split('/');
  const place = top === 'cli' || COMPOSITION.includes(path) ? 'composition' : `${top}/${second}`;
  const rank = ORDER.indexOf(top === 'generated' ? top : place);
  return rank === -1 ? undefined : rank;
};

const show = ({ file, line, text }: Import): string => `src/${file}:${line}  ${text}`;

const isIn = (file: string, places: string[]): boolean =>
  places.some((place) => file === place || file.startsWith(`${place}/`));

test('every file stands in the platform, in a known module, or puts them together', () => {
  expect(files.filter((file) => rankOf(file) === undefined)).toEqual([]);
});

test('platform imports no module, and each folder imports only folders above it', () => {
  const rank = (path: string) => rankOf(path) as number;
  const offences = imports.filter((each) => {
    const to = target(each);
    return to !== undefined && rankOf(to) !== undefined && rank(to) > rank(each.file);
  });
  expect(offences.map(show)).toEqual([]);
});

test('no files import each other in a circle', () => {
  const edges = new Map(
    files.map((file) => [
      file,
      importsOf(file)
        .flatMap((each) => target(each) ?? [])
        .filter((to) => files.includes(to)),
    ]),
  );
  expect(
    findCircles(edges)
      .map((circle) => circle.join(' '))
      .join('\n'),
  ).toBe('');
});

test('each outside package has one home', () => {
  const homes: [RegExp, string[]][] = [
    [/^@prisma\//, ['platform/db']],
    [/^pg$/, ['platform/db', 'platform/dev-postgres', 'platform/maintenance/migrate.ts']],
    [/^pg-copy-streams$/, ['platform/db/backup']],
    [/^age-encryption$/, ['platform/crypto']],
    [/^@aws-sdk\//, ['platform/crypto']],
    [/^prom-client$/, ['platform/metrics']],
    [/^@opentelemetry\//, ['platform/tracing']],
    [/^pino$/, ['platform/base/log.ts']],
    // The executor's bridge lives with the executor: another process, without the server's keys.
    [/^node:crypto$/, ['platform/crypto', 'platform/sandbox']],
    [/^isolated-vm$/, ['platform/sandbox/executor']],
    [/^close-with-grace$/, ['server.ts']],
    [/^undici$/, ['platform/egress']],
    [/^ipaddr\.js$/, ['platform/egress', 'platform/base/ip-networks.ts', 'platform/base/ip-place.ts']],
    [/^argon2$/, ['platform/crypto']],
    [/^otpauth$/, ['platform/crypto']],
    [/^@simplewebauthn\//, ['platform/crypto']],
    [/^uqr$/, ['platform/http']],
    [/^marked$/, ['modules/docs']],
    [/^koffi$/, ['platform/crypto/pkcs11']],
    [/^nodemailer/, ['platform/mail']],
    [/^cookie$/, ['platform/http']],
    [/^openid-client$/, ['modules/people/sso']],
    [/^@zxcvbn-ts\//, ['modules/people']],
  ];
  const offences = imports.filter(
    ({ file, from, isType }) => !isType && homes.some(([name, places]) => name.test(from) && !isIn(file, places)),
  );
  expect(offences.map(show)).toEqual([]);
});

test('packages that the built server imports are installed for production', () => {
  const { dependencies, optionalDependencies } = JSON.parse(
    readFileSync(join(src, '../package.json'), 'utf8'),
  ) as Record<'dependencies' | 'optionalDependencies', Record<string, string>>;
  const installed = { ...dependencies, ...optionalDependencies };
  // Bundled by the build: what runs in an isolate, and Prisma's generated client.
  const built = imports.filter(
    ({ file, isType }) => file.endsWith('.ts') && !file.includes('node-surface/') && !isType,
  );
  const offences = built.filter(({ from }) => {
    const name = /^(@[^/]+\/)?[^/]+/.exec(from)?.[0] ?? '';
    return !from.startsWith('.') && !from.startsWith('node:') && !(name in installed);
  });
  expect(offences.map(show)).toEqual([]);
});

test('in a module, only files that end in .routes.ts, .schema.ts or .page.ts know Fastify', () => {
  const offences = imports.filter(
    ({ file, from, isType }) =>
      /^fastify$|^@fastify\/|^fastify-type-provider-zod$/.test(from) &&
      !isType &&
      file.startsWith('modules/') &&
      !/routes\.ts$|\.schema\.ts$/.test(file),
  );
  expect(offences.map(show)).toEqual([]);
});

test('an entry point that finds the right Node imports nothing else, which would run too early', () => {
  const found = imports.filter(({ file, text }) => /^(cli\/)?main\.ts$/.test(file) && !text.startsWith('import('));
  expect(found.map(({ file, from }) => [file, from]).toSorted()).toEqual([
    ['cli/main.ts', '../platform/base/node-24.ts'],
    ['main.ts', './platform/base/node-24.ts'],
  ]);
});

test('only config.ts reads the environment, and program.ts the words of advice', () => {
  const readers = files.filter((file) => /process\.env|process\['env'\]/.test(textOf(file)));
  expect(readers.toSorted()).toEqual(['platform/base/program.ts', 'platform/config/config.ts']);
  const program = textOf('platform/base/program.ts');
  expect(program.match(/process\.env\S*/g)).toEqual(["process.env['STRONGROOM_COMMAND']"]);
});

test('only context.ts, and inspection without a vault, construct platform services', () => {
  const constructors =
    /(?<!const )\b(createDatabase|createKeyring|localKeyProvider|startEmbeddedPostgres|createEgress|createSandbox|createMailer)\(/;
  const makers = files.filter((file) => !file.startsWith('platform/') && constructors.test(textOf(file)));
  expect(makers.toSorted()).toEqual(['cli/inspection.ts', 'context.ts']);
});

test('fewer than ten places reveal a sensitive value', () => {
  const reveals = files.flatMap((file) => [...textOf(file).matchAll(/\.reveal\(\)/g)].map(() => file));
  expect(reveals.filter((file) => file !== 'platform/crypto/sensitive.ts').length).toBeLessThan(10);
});

test('no file has a name that says nothing, a default export or an enum', () => {
  const vague = /(^|\/)(utils?|helpers?|common|shared|manager|base|impl|index)(\.ts|\/)/;
  // Everything of the platform that needs no other folder but json/ is in its base/.
  expect(files.filter((file) => vague.test(file.replace(/^platform\/base\//, '')))).toEqual([]);
  expect(files.filter((file) => /^export default|^(export )?(const )?enum /m.test(textOf(file)))).toEqual([]);
});

test('every file begins with a comment that says what it does', () => {
  expect(files.filter((file) => !textOf(file).startsWith('// '))).toEqual([]);
});

test('advice takes the words before a command from program.ts, since an image has no npm', () => {
  const fixed = files.filter(
    (file) =>
      file !== 'platform/base/program.ts' && /npm run (?:-s strongroom|migrate)|npx strongroom/.test(textOf(file)),
  );
  expect(fixed).toEqual([]);
});
