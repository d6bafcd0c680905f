// The law of the house: doors, rules, hands. Reads the imports and fails with the offending line.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const src = fileURLToPath(new URL('../../src/', import.meta.url));

type Import = { file: string; line: number; text: string; from: string; isType: boolean };

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && !file.startsWith('generated/'),
);

/** Every import statement, also those over several lines, and dynamic ones. */
const importsOf = (file: string): Import[] => {
  const code = readFileSync(join(src, file), 'utf8');
  const found: Import[] = [];
  for (const match of code.matchAll(
    /^(?:import|export)\s+(type\s+)?[^;]*?from\s+'([^']+)'|^import\s+'([^']+)'|\bimport\('([^']+)'\)/gm,
  )) {
    const [text = '', type, from, bare, dynamic] = match;
    const line = code.slice(0, match.index).split('\n').length;
    found.push({
      file,
      line,
      text: text.replace(/\s+/g, ' '),
      from: from ?? bare ?? dynamic ?? '',
      isType: type !== undefined,
    });
  }
  return found;
};

const imports = files.flatMap(importsOf);

/** Where an import of ours leads, as a path under src; undefined for packages. */
const target = ({ file, from }: Import): string | undefined =>
  from.startsWith('.') ? relative(src, join(src, dirname(file), from)) : undefined;

const roomOf = (path: string): string => (path.includes('/') ? (path.split('/')[0] as string) : path);

const hands = new Set(['crypto', 'db', 'sandbox', 'egress', 'mail']);
const rules = new Set(['vault', 'access', 'audit', 'runtime', 'proxy', 'people']);
const floor = new Set([
  'errors.ts',
  'config.ts',
  'log.ts',
  'version.ts',
  'node-24.ts',
  'paging.ts',
  'bag.ts',
  'brief-memory.ts',
  'piece-queue.ts',
  'json-shape.ts',
  'markup.ts',
  'unknown-names.ts',
  'host-names.ts',
]);
const doors = new Set([
  'main.ts',
  'server.ts',
  'watchdog.ts',
  'app.ts',
  'start-block.ts',
  'dev-credentials.ts',
  'http',
  'features',
  'cli',
]);

const offences = (isOffence: (imported: Import, to: string | undefined) => boolean): string[] =>
  imports
    .filter((imported) => isOffence(imported, target(imported)))
    .map(({ file, line, text }) => `src/${file}:${line}  ${text}`);

test('every file stands in a known room', () => {
  const known = new Set([...hands, ...rules, ...floor, ...doors, 'context.ts']);
  expect(files.filter((file) => !known.has(roomOf(file)))).toEqual([]);
});

test('a feature imports no other feature', () => {
  const featureOf = (path: string) => path.split('/').slice(0, 2).join('/');
  expect(
    offences(
      ({ file }, to) =>
        roomOf(file) === 'features' &&
        to !== undefined &&
        roomOf(to) === 'features' &&
        featureOf(file) !== featureOf(to),
    ),
  ).toEqual([]);
});

test('a feature imports rules, http, the floor and the type of the context; no hand', () => {
  expect(
    offences(({ file, isType }, to) => {
      if (roomOf(file) !== 'features' || to === undefined) return false;
      const room = roomOf(to);
      return (
        hands.has(room) ||
        (room === 'context.ts' && !isType) ||
        ['main.ts', 'server.ts', 'app.ts', 'cli'].includes(room)
      );
    }),
  ).toEqual([]);
});

test('a rule imports no door, and of the context only its type', () => {
  expect(
    offences(
      ({ file, isType }, to) =>
        rules.has(roomOf(file)) &&
        to !== undefined &&
        (doors.has(roomOf(to)) || (roomOf(to) === 'context.ts' && !isType)),
    ),
  ).toEqual([]);
});

test('a rule takes the database by type only: it reaches rows through the context', () => {
  expect(
    offences(({ file, isType }, to) => rules.has(roomOf(file)) && to !== undefined && roomOf(to) === 'db' && !isType),
  ).toEqual([]);
});

test('a hand imports the floor, itself, and no other hand', () => {
  expect(
    offences(({ file }, to) => {
      if (!hands.has(roomOf(file)) || to === undefined) return false;
      return !(roomOf(to) === roomOf(file) || (floor.has(to) && to !== 'config.ts') || roomOf(to) === 'generated');
    }),
  ).toEqual([]);
});

test('each outside package has one home', () => {
  const homes: [RegExp, string[]][] = [
    [/^fastify$|^@fastify\/|^fastify-type-provider-zod$/, ['http', 'features', 'app.ts']],
    [/^@prisma\//, ['db']],
    [/^pg$/, ['db']],
    [/^pino$/, ['log.ts']],
    // The executor's bridge lives with the executor: another process, with none of our keys.
    [/^node:crypto$/, ['crypto', 'sandbox']],
    [/^isolated-vm$/, ['sandbox']],
    [/^close-with-grace$/, ['server.ts']],
    [/^undici$/, ['egress']],
    [/^ipaddr\.js$/, ['egress', 'people']],
    [/^argon2$/, ['crypto']],
    [/^nodemailer/, ['mail']],
    [/^cookie$/, ['http']],
    [/^@zxcvbn-ts\//, ['people']],
  ];
  // A type says nothing at run time; context.ts names the shapes of what it hands over.
  expect(
    offences(({ file, from, isType }) =>
      homes.some(([name, rooms]) => name.test(from) && !rooms.includes(roomOf(file)) && !isType),
    ),
  ).toEqual([]);
});

test('a door that finds the right Node imports nothing beside that: what stands beside it is evaluated too', () => {
  const found = imports.filter(({ file, text }) => /^(cli\/)?main\.ts$/.test(file) && !text.startsWith('import('));
  expect(found.map(({ file, from }) => [file, from]).toSorted()).toEqual([
    ['cli/main.ts', '../node-24.ts'],
    ['main.ts', './node-24.ts'],
  ]);
});

test('only config.ts reads the environment', () => {
  const readers = files.filter(
    (file) => file !== 'config.ts' && /process\.env|process\['env'\]/.test(readFileSync(join(src, file), 'utf8')),
  );
  expect(readers).toEqual([]);
});

test('only context.ts constructs hands, and the list of places that reveal a sensitive value stays under ten', () => {
  const code = new Map(files.map((file) => [file, readFileSync(join(src, file), 'utf8')]));
  const constructors =
    /\b(createDatabase|createKeyring|localKeyProvider|startEmbeddedPostgres|createEgress|createSandbox|createMailer)\(/;
  const makers = [...code]
    .filter(([file, text]) => !hands.has(roomOf(file)) && constructors.test(text))
    .map(([file]) => file);
  expect(makers).toEqual(['context.ts']);
  const reveals = [...code]
    .flatMap(([file, text]) => [...text.matchAll(/\.reveal\(\)/g)].map(() => file))
    .filter((file) => file !== 'crypto/sensitive.ts');
  expect(reveals.length).toBeLessThan(10);
});

test('no file is one of those names that say nothing, none has a default export or an enum', () => {
  expect(
    files.filter((file) => /(^|\/)(utils?|helpers?|common|shared|manager|base|impl|index)(\.ts|\/)/.test(file)),
  ).toEqual([]);
  const codes = files.map((file) => [file, readFileSync(join(src, file), 'utf8')] as const);
  expect(
    codes.filter(([, text]) => /^export default|^(export )?(const )?enum /m.test(text)).map(([file]) => file),
  ).toEqual([]);
});

test('every file opens by saying what it promises', () => {
  expect(files.filter((file) => !readFileSync(join(src, file), 'utf8').startsWith('// '))).toEqual([]);
});
