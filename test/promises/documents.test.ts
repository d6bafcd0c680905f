// The documents agree with the repository: links and named files exist, generated tables are current, examples are valid.
// Commands of the documents run in test/process/readme.test.ts.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { generatedPages, withGenerated } from '../../src/cli/docs-tables.ts';
import { EXIT_TEXTS } from '../../packages/cli/src/exit-codes.ts';
import { hasCommand } from '../../packages/cli/src/main.ts';
import { findCommand, unknownOptions } from '../../src/cli/command-table.ts';
import { filterNames, isAliasFilter } from '../../src/modules/tokens/expressions/filters.ts';
import { logQuery } from '../../src/modules/logs/logs.schema.ts';
import { cursorQuery } from '../../src/platform/http/schemas.ts';
import { readGuide, readGuides, unlistedFiles } from '../../src/modules/docs/guide-files.ts';
import { renderMarkdown } from '../../src/modules/docs/markdown.ts';
import { environmentSchema, fileVariables } from '../../src/platform/config/config.ts';
import { moduleNames } from '../../src/platform/sandbox/protocol/module-names.ts';
import { findTokenType } from '../../src/modules/tokens/token-types.ts';
import { blocksOf, pagesWithCommands } from '../support/pages.ts';
import { root } from '../support/process.ts';

/** Where references to documents are checked. Add 'src' when its comments are clean. */
const checkedForReferences = [
  'src',
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CHANGELOG.md',
  'docker-compose.yml',
  'docs',
  'bench',
  'drills',
  'formulas',
  'recipes',
  'bin',
  'deploy',
  'test',
];

/** Scripts of other packages, by the page that names them. */
const otherScripts = new Set<string>([]);

/** Patterns of names, a file that a reader writes, and one that a decision has removed. */
const otherFiles = new Set([
  'NAME.routes.ts',
  'NAME.schema.ts',
  'vault-VERSION.sql',
  'server.mjs',
  'passing.ts',
  'first.mjs',
]);

/** Folders whose paths must exist where a document names them. */
const checkedPaths = ['bench', 'bin', 'deploy', 'docs', 'drills', 'formulas', 'openapi', 'prisma', 'src', 'test'];

const repositoryUrl = 'https://github.com/strongroom/strongroom/blob/main/';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const exists = (path: string): boolean => existsSync(join(root, path));

const filesBelow = (path: string): string[] =>
  statSync(join(root, path)).isDirectory()
    ? readdirSync(join(root, path), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(join(root, '/').length))
    : [path];

const isMarkdown = (path: string): boolean => path.endsWith('.md');
const pages = [...readdirSync(root).filter(isMarkdown), 'docs', 'bench', 'formulas', 'recipes', 'test/fixtures']
  .flatMap(filesBelow)
  .filter(isMarkdown);

/** The anchor that GitHub makes of a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

test('every relative link of a page leads to an existing file and heading', () => {
  const broken: string[] = [];
  for (const page of pages)
    for (const [, target = ''] of read(page).matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)) {
      const [path = '', anchor] = target.split('#');
      const to = path === '' ? page : join(dirname(page), path);
      const headings = () => [...read(to).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => anchorOf(heading as string));
      if (!exists(to) || (anchor !== undefined && !headings().includes(anchor))) broken.push(`${page}: ${target}`);
    }
  expect(broken).toEqual([]);
});

/** True for a document beside the file that names it, or from the root. A number of a decision is enough. */
const isDocument = (file: string, name: string): boolean =>
  [join(dirname(file), name), name].some(
    (path) =>
      exists(path) ||
      (/\/\d{4}$/.test(path) &&
        exists(dirname(path)) &&
        readdirSync(join(root, dirname(path))).some((entry) => entry.startsWith(`${basename(path)}-`))),
  );

test('every document that a file names exists', () => {
  const missing: string[] = [];
  for (const file of checkedForReferences.filter(exists).flatMap(filesBelow)) {
    if (file.startsWith('src/generated/') || !/\.(md|ts|cjs|mjs|js|sh|sql|py|go|java|yml)$/.test(file)) continue;
    const text = read(file)
      .replaceAll(repositoryUrl, '')
      .replaceAll(/[a-z]+:\/\/[^\s)]+/g, '');
    for (const [name] of text.matchAll(
      /(?<![\w./-])(?:(?:[\w.-]+\/)*[\w-][\w.-]*\.md\b|docs\/[\w/-]+(?:\.(?:png|svg))?)/g,
    ))
      if (!isDocument(file, name)) missing.push(`${file}: ${name}`);
  }
  expect(missing).toEqual([]);
});

test('every page of docs/ is in the list of the guides once', () => {
  const guides = readGuides();
  const listed = guides.byRole.flatMap((role) => role.guides);
  expect(unlistedFiles(guides), 'add each page to its role in src/modules/docs/guide-list.ts').toEqual([]);
  expect(listed.length).toBeGreaterThan(40);
  expect(new Set(listed).size).toBe(listed.length);
  for (const { title, summary, file } of listed) {
    expect([file, title.length > 0, title.length < 80]).toEqual([file, true, true]);
    expect(summary.length, `${file} begins with a sentence that says what it is for`).toBeGreaterThan(30);
  }
});

test('the vault can show every page: raw HTML and unknown parts of Markdown are refused', () => {
  const targets = { link: (href: string) => href, picture: (href: string) => href };
  for (const guide of readGuides().all)
    expect(() => renderMarkdown(readGuide(guide), targets), guide.file).not.toThrow();
});

test('every path in backticks of a page exists', () => {
  const path = new RegExp(`\`((?:${checkedPaths.join('|')})/[\\w./-]+)\``, 'g');
  const missing = pages.flatMap((page) =>
    [...read(page).matchAll(path)].filter(([, to]) => !exists(to as string)).map(([, to]) => `${page}: ${to}`),
  );
  expect(missing).toEqual([]);
});

/** Every file that a person reads to learn what to do. */
const guidance = pages.filter(
  (page) => !page.startsWith('docs/decisions/') && !['CHANGELOG.md'].includes(page) && !page.startsWith('test/'),
);

const ownNames = (page: string, pattern: RegExp): string[] => [
  ...new Set([...read(page).matchAll(pattern)].map(([, name]) => name as string)),
];

/** Names of variables that belong to other programs, or that a guide sets in the reader's shell. */
const otherVariables = new Set([
  // Of etcd, capabilities(7) and sched(7).
  'ETCD_CLIENT_CERT_AUTH',
  'CAP_SYS_NICE',
  'SCHED_BATCH',
]);

test('every environment variable that a page names exists', () => {
  const source = [
    'src',
    'bin',
    'test',
    'bench',
    'drills',
    'demo',
    'release',
    'deploy',
    'vitest.config.ts',
    'docker-compose.yml',
    'Dockerfile',
  ]
    .filter(exists)
    .flatMap(filesBelow)
    .filter((file) => !file.endsWith('.md') && !file.startsWith('src/generated/'))
    .map(read)
    .join('\n');
  const used = new Set(source.match(/\b[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b/g));
  for (const name of fileVariables) used.add(`${name}_FILE`);
  const unknown = guidance.flatMap((page) =>
    ownNames(page, /`([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])(?:=[^`]*)?`/g)
      .filter((name) => !used.has(name) && !otherVariables.has(name))
      .map((name) => `${page}: ${name}`),
  );
  expect(unknown).toEqual([]);
});

test('the settings that a page sets for npm start are variables of the configuration', () => {
  const known = new Set([...Object.keys(environmentSchema.shape), ...fileVariables.map((name) => `${name}_FILE`)]);
  const unknown = guidance.flatMap((page) =>
    [...read(page).matchAll(/^(?:[A-Z_]+=\S+ )+npm (?:start|run)/gm)]
      .flatMap(([line]) => line.match(/[A-Z_]+(?==)/g) ?? [])
      .filter((name) => !known.has(name) && name !== 'NODE_EXTRA_CA_CERTS' && !otherVariables.has(name))
      .map((name) => `${page}: ${name}`),
  );
  expect(unknown).toEqual([]);
});

test('the commands of the guides need curl and what every system has', () => {
  const needed = pagesWithCommands.flatMap((page) =>
    blocksOf(page)
      .filter(({ language }) => language === 'sh')
      .flatMap(({ code }) => code.match(/\b(?:node|npx|jq|python3?|perl|ruby)\b.*/g) ?? [])
      .map((words) => `${page}: ${words}`),
  );
  expect(needed).toEqual([]);
});

test('the guide to the command line has its exit codes', () => {
  const rows = EXIT_TEXTS.map(([code, text]) => `| ${code} | ${text} |`).join('\n');
  expect(read('docs/guides/command-line.md')).toContain(rows);
});

test('every npm script that a page names exists', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  const unknown = guidance.flatMap((page) =>
    ownNames(page, /\bnpm run (?:-s )?([\w:-]+)/g)
      .filter((name) => !Object.hasOwn(scripts, name) && !otherScripts.has(`${page}: ${name}`))
      .map((name) => `${page}: ${name}`),
  );
  expect(unknown).toEqual([]);
});

test('every command of strongroom that a page gives exists, with its options', () => {
  const problems = guidance.flatMap((page) =>
    [
      ...read(page)
        .replaceAll('\\\n', ' ')
        .matchAll(/(?:strongroom --|npx strongroom|run --rm(?: -T)? api) ([a-z][^`|\n)>]*)/g),
    ]
      .map(([, line = '']) => line.split(/\s+/).filter(Boolean))
      .filter((words) => {
        if (hasCommand(words) || words[1] === 'COMMAND') return false;
        const found = findCommand(words[0] === 'admin' ? words.slice(1) : words);
        const used = words.flatMap((word) => /^--([a-z-]+)/.exec(word)?.[1] ?? []);
        return !found || (used.length > 0 && unknownOptions(found.name, used).length > 0);
      })
      .map((words) => `${page}: ${words.join(' ')}`),
  );
  expect(problems).toEqual([]);
});

test('each filter of tests in CONTRIBUTING.md finds a file', () => {
  const files = ['src', 'test', 'packages'].flatMap(filesBelow).filter((file) => file.endsWith('.test.ts'));
  const isDrill = (file: string): boolean => file.startsWith('test/process/');
  const commands = [...read('CONTRIBUTING.md').matchAll(/`npm (test|run drill:process) -- ([^`]+)`/g)];
  const filters = commands.flatMap(([, command, words = '']) => words.split(' ').map((word) => ({ command, word })));
  expect(filters.length).toBeGreaterThan(20);
  const useless = filters.filter(
    ({ command, word }) => !files.some((file) => file.includes(word) && isDrill(file) === (command !== 'test')),
  );
  expect(useless).toEqual([]);
});

test('every file of the source that a page names in backticks, without its folder, exists', () => {
  const all = new Set(
    [
      'src',
      'test',
      'bench',
      'drills',
      'packages',
      'sdk',
      'bin',
      'prisma',
      'demo',
      'deploy',
      'release',
      'formulas',
      'recipes',
    ]
      .filter(exists)
      .flatMap(filesBelow)
      .map((file) => basename(file)),
  );
  const missing = pages
    .filter((page) => page !== 'CHANGELOG.md')
    .flatMap((page) =>
      ownNames(page, /`(?:[\w./-]*\/)?([\w-]+(?:\.[\w-]+)*\.(?:ts|cjs|mjs|sql))`/g)
        .filter((name) => !all.has(name) && !exists(name) && !otherFiles.has(name))
        .map((name) => `${page}: ${name}`),
    );
  expect(missing).toEqual([]);
});

test('every decision has a date, a status and a line in the table', () => {
  const decisions = filesBelow('docs/decisions').filter(isMarkdown);
  const table = read('docs/decisions/0001-decisions-have-pages.md');
  const incomplete = decisions.filter(
    (page) =>
      !/^Status: (accepted|superseded by \[.*\))\. Date: \d{4}-\d\d-\d\d\.?/m.test(read(page)) ||
      (!page.includes('/0001-') && !table.includes(`(${basename(page)})`)),
  );
  expect(incomplete).toEqual([]);
});

test.each(generatedPages.map((generated) => [generated.page, generated] as const))(
  'the generated table of %s is current',
  (page, generated) => {
    const text = read(page);
    expect(text).toContain(`<!-- ${generated.mark} -->`);
    expect(withGenerated(text, generated)).toBe(text);
  },
);

test('every field of a log line is in the table of log lines', () => {
  const table = read('docs/operations/log-lines.md');
  const documented = new Set(
    [...table.matchAll(/^\| ((?:`\w+`(?:, )?)+) \|/gm)].flatMap(([, names = '']) => names.match(/\w+/g) ?? []),
  );
  const fieldsOf = (file: string): string[] =>
    [...read(file).matchAll(/\blog\.(?:info|warn|error|fatal)\(\s*\{([^{}]*)\}/g)].flatMap(([, fields = '']) =>
      fields.split(',').flatMap((field) => /^\s*(\w+)/.exec(field)?.[1] ?? []),
    );
  const logged = filesBelow('src')
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap(fieldsOf);
  expect(new Set(logged).size).toBeGreaterThan(20);
  expect(logged.filter((field) => !documented.has(field))).toEqual([]);
});

test('the modules that code may require are those of the sandbox, and on the page of reactors', () => {
  const surface = read('src/platform/sandbox/node-surface/require.cjs');
  const between = (from: string, to: string): string => surface.slice(surface.indexOf(from), surface.indexOf(to));
  const built = [...between('const modules = {', 'const withoutPrefix').matchAll(/^ {2}(?:'([^']+)'|(\w+)): \(\)/gm)];
  const listed = [...between('const packages = [', 'const notFound').matchAll(/'([^']+)'/g)];
  const names = [...built.map(([, quoted, plain]) => quoted ?? plain), ...listed.map(([, name]) => name)];
  expect([...moduleNames].sort()).toEqual(names.sort());
  const page = read('docs/reactors-rules.md');
  expect(moduleNames.filter((name) => !name.startsWith('@basis') && !page.includes(name))).toEqual([]);
});

/** The names in backticks of a part of a page, without what follows a name. */
const namesBetween = (file: string, from: string, to: string): string[] => {
  const page = read(file);
  const begin = page.indexOf(from);
  const part = page.slice(begin, page.indexOf(to, begin));
  return [...part.matchAll(/`(\w+)[^`]*`/g)].map(([, name]) => name as string);
};

test('the filters that the page of the proxy lists are those of expressions', () => {
  const listed = namesBetween('docs/proxy.md', 'Further filters may follow', 'The client needs');
  const inExpressions = filterNames.filter((name) => name !== 'json' && !isAliasFilter(name));
  expect(listed.toSorted()).toEqual(inExpressions.toSorted());
});

test('the filters that the guide lists are those of GET /logs', () => {
  const listed = namesBetween('docs/guides/search-and-logs.md', 'filters by', 'With\n').filter(
    (name) => !/=/.test(name),
  );
  const known = Object.keys(logQuery.shape).filter((name) => !Object.hasOwn(cursorQuery(''), name));
  expect([...new Set(listed)].toSorted()).toEqual(known.toSorted());
});

test('the test values of the guide pass the checks', () => {
  const guide = read('docs/guides/tokenize.md');
  const valuesOf = (heading: string) => {
    const table = guide.slice(guide.indexOf(heading)).split('\n\n')[0] as string;
    return [...table.matchAll(/^\| `(\d+)`/gm)].map(([, value]) => value as string);
  };
  const cards = valuesOf('| `card`, `card_number` |');
  const banks = valuesOf('| `bank`, `us_bank_routing_number` |');
  expect([cards.length, banks.length].every((count) => count >= 3)).toBe(true);
  for (const card of cards) expect(findTokenType('card_number')?.data.safeParse(card).success, card).toBe(true);
  for (const bank of banks)
    expect(findTokenType('us_bank_routing_number')?.data.safeParse(bank).success, bank).toBe(true);
});

const drawings = readdirSync(join(root, 'docs/pictures')).filter((name) => name.endsWith('.svg'));

test('there are drawings of what readers have to picture', () => {
  expect(drawings.toSorted()).toEqual(['fields.svg', 'keys.svg', 'proxy.svg', 'reactor.svg', 'tokenize.svg']);
});

test.each(drawings)('the drawing %s is well-formed, has a title, is dark in the dark and loads nothing', (name) => {
  const drawing = read(`docs/pictures/${name}`);
  const open: string[] = [];
  for (const [, isEnd, element = '', isEmpty] of drawing.matchAll(/<(\/?)([a-z]+)(?:\s[\w-]+="[^"<]*")*(\/?)>/gi)) {
    if (isEnd) expect(open.pop()).toBe(element);
    else if (!isEmpty) open.push(element);
  }
  expect(open).toEqual([]);
  // Each `<` began an element, and each `&` is written as an entity.
  expect(drawing.match(/</g)).toHaveLength(drawing.match(/<\/?[a-z]+(?:\s[\w-]+="[^"<]*")*\/?>/gi)?.length ?? 0);
  expect(drawing).not.toMatch(/&(?!(?:amp|lt|gt|quot|#\d+);)/);
  expect(drawing).toMatch(
    /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox=[^>]+ role="img" aria-labelledby="t d">\n<title id="t">[^<]+<\/title>\n<desc id="d">[^<]+<\/desc>/,
  );
  expect(drawing).toContain('@media (prefers-color-scheme:dark)');
  expect(drawing.replace('xmlns="http://www.w3.org/2000/svg"', '')).not.toMatch(
    /href|url\(|@import|https?:|script|foreignObject|<image|\son\w+=/i,
  );
});

test('each picture stands in a page, with a text in its place', () => {
  const shown = pages.flatMap((page) =>
    [...read(page).matchAll(/!\[([^\]]*)\]\(([^)]+)\)/g)].map(([, text = '', path = '']) => ({
      text,
      file: join(dirname(page), path),
    })),
  );
  for (const name of readdirSync(join(root, 'docs/pictures'))) {
    const places = shown.filter(({ file }) => file === `docs/pictures/${name}`);
    expect(places.length, name).toBeGreaterThan(0);
    for (const { text } of places) expect(text.length, name).toBeGreaterThan(20);
  }
});

test('commands that readers copy have no sed, grep, cut or jq: strongroom json reads an answer', () => {
  const pages = [
    ...pagesWithCommands,
    ...readdirSync(join(root, 'recipes')).map((name) => `recipes/${name}/README.md`),
  ];
  const plumbing = /\b(?:sed|awk|grep|cut|jq|tr) +-|\bnode -[pe]\b|\b(?:sed|grep|awk) ['"]/;
  const found = pages
    .filter((page) => existsSync(join(root, page)))
    .flatMap((page) =>
      blocksOf(page)
        .filter(({ language, code }) => language === 'sh' && plumbing.test(code))
        .map(({ code }) => `${page}: ${plumbing.exec(code)?.[0]}`),
    );
  expect(found).toEqual([]);
});
