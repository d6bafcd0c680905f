// Bundles what runs inside an isolate: the prelude as one classic script, and each package that authors may require as
// the body of a function of (require, module, exports). Beside them it writes the licences of all that came along.
// Runs when the project is built, and never in the server.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type BuildOptions, type Metafile, type Plugin } from 'esbuild';
import { linkPrelude } from './link.ts';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../../..');
const target = join(root, 'src/generated/sandbox');
const isPackage = /[\\/]node_modules[\\/]/;
const find = createRequire(import.meta.url).resolve;

/** What packages mean by these names is ours; our own files mean the package that they amend. */
const OWN: Record<string, string> = {
  'abort-controller': 'abort.cjs',
  buffer: 'buffer.cjs',
  events: 'events.cjs',
  process: 'process.cjs',
  string_decoder: 'string-decoder.cjs',
};

/** `buffer/` with its slash is the package, as `buffer` alone would be Node's. */
const PACKAGES: Record<string, string> = {
  buffer: 'buffer/',
  events: 'events/',
  'path-browserify': 'path-browserify',
};

/** Its main file is Node's own stream wherever there is one. The package lets nobody name this one. */
const READABLE_STREAM = join(dirname(find('readable-stream/package.json')), 'lib/ours/browser.js');

const ownModules: Plugin = {
  name: 'own-modules',
  setup({ onResolve }) {
    onResolve({ filter: /^readable-stream-all$/ }, () => ({ path: READABLE_STREAM }));
    onResolve({ filter: /^[a-z]/ }, ({ path, importer }) => {
      const name = path.replace(/\/$/, '');
      if (!isPackage.test(importer)) return PACKAGES[name] === undefined ? undefined : { path: find(PACKAGES[name]) };
      return OWN[name] === undefined ? undefined : { path: join(here, OWN[name]) };
    });
  },
};

/** What is not in the sandbox, though packages load it; they ask for none of it where there is nothing to decompress. */
const STAND_INS: Record<string, string> = {
  debug: 'module.exports = () => () => {};',
  encoding: 'module.exports = {};',
  http2: 'module.exports = { constants: {} };',
  'https-proxy-agent': 'module.exports = class {};',
  'proxy-from-env': "exports.getProxyForUrl = () => '';",
  'whatwg-url': "module.exports = require('url');",
  zlib: 'module.exports = { constants: {} };',
};

const standIns: Plugin = {
  name: 'stand-ins',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[a-z]/ }, ({ path }) =>
      Object.hasOwn(STAND_INS, path) ? { path, namespace: 'stand-in' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'stand-in' }, ({ path }) => ({ contents: STAND_INS[path] ?? '' }));
    onLoad({ filter: /axios\/lib\/platform\/node\/classes\/FormData\.js$/ }, () => ({
      contents: 'export default FormData;',
    }));
  },
};

/** What the sandbox's own `require` answers. */
const MODULES = ['assert', 'buffer', 'crypto', 'events', 'http', 'https', 'path', 'stream', 'url', 'util', 'node:*'];

/** Name for authors -> what makes its exports. The files named are those that a server would load, not a browser. */
const CURATED: Record<string, string> = {
  axios: "module.exports = require('axios-source').default; module.exports.default = module.exports;",
  'crypto-js': "module.exports = require('crypto-js');",
  'csv-parse': "module.exports = require('csv-parse');",
  'csv-parse/sync': "module.exports = require('csv-parse/sync');",
  'fast-xml-parser': "module.exports = require('fast-xml-parser');",
  jsonpath: "module.exports = require('jsonpath/jsonpath.js');",
  'node-fetch': "module.exports = require('node-fetch/lib/index.js');",
  uuid: "module.exports = require('uuid');",
  yup: "module.exports = require('yup');",
};

/** Parts of the prelude that few runs touch, each by the module that opens it: a context loads them when it first does. */
const PARTS: Record<string, string> = {
  assert: 'assert.cjs',
  http: 'http.cjs',
  stream: 'stream.cjs',
};

/** Names stay, so that an author's error names what it names in Node. */
const shared = {
  absWorkingDir: here,
  bundle: true,
  write: false,
  metafile: true,
  legalComments: 'none',
  minifyWhitespace: true,
  minifySyntax: true,
  target: 'es2022',
  logLevel: 'warning',
} satisfies BuildOptions;

type Bundle = { path: string; text: string; metafile: Metafile };

const bundlePrelude = async (): Promise<Bundle[]> => {
  const { outputFiles, metafile } = await build({
    ...shared,
    entryPoints: [join(here, 'entry.cjs')],
    format: 'iife',
    platform: 'neutral',
    mainFields: ['main'],
    plugins: [ownModules],
  });
  const { prelude, parts } = linkPrelude(outputFiles[0]?.text ?? '', PARTS, 'host.cjs');
  return [
    { path: 'prelude.js', text: prelude, metafile },
    ...[...parts].map(([name, text]) => ({ path: `parts/${name}.js`, text, metafile })),
  ];
};

const bundlePackage = async (name: string, contents: string): Promise<Bundle> => {
  const { outputFiles, metafile } = await build({
    ...shared,
    stdin: { contents, resolveDir: here, sourcefile: `${name}-entry.cjs` },
    alias: { 'axios-source': join(dirname(find('axios/package.json')), 'index.js') },
    format: 'cjs',
    platform: 'neutral',
    mainFields: ['main'],
    conditions: ['node'],
    external: MODULES,
    plugins: [standIns],
  });
  const path = `packages/${name.replaceAll('/', '__')}.js`;
  return { path, text: outputFiles[0]?.text ?? '', metafile };
};

/** Files of these are bundles already, with what the packages depend on inside. */
const PREBUILT = new Set(['fast-xml-parser', 'jsonpath']);

type Manifest = {
  name: string;
  version: string;
  license?: string;
  licenses?: { type: string }[];
  dependencies?: Record<string, string>;
};

const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;

/** Node's own way to a dependency: the nearest node_modules that has it. */
const folderOf = (name: string, from: string): string => {
  const folder = join(from, 'node_modules', name);
  return existsSync(join(folder, 'package.json')) || dirname(from) === from ? folder : folderOf(name, dirname(from));
};

const withDependencies = (folder: string, found = new Set<string>()): Set<string> => {
  if (found.has(folder)) return found;
  found.add(folder);
  for (const name of Object.keys(manifestOf(folder).dependencies ?? {}))
    withDependencies(folderOf(name, folder), found);
  return found;
};

/** Folders of packages that anything of the bundles came from. */
const packagesOf = (bundles: Bundle[]): string[] => {
  const folders = bundles
    .flatMap(({ metafile }) => Object.keys(metafile.inputs))
    .map((input) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0])
    .filter((folder) => folder !== undefined)
    .map((folder) => join(here, folder))
    .flatMap((folder) => (PREBUILT.has(manifestOf(folder).name) ? [...withDependencies(folder)] : [folder]));
  return [...new Set(folders)].sort();
};

/** The licence's text; a package that has no file of it may have it at the end of its README. */
const licenceText = (folder: string): string => {
  const files = readdirSync(folder).sort();
  const licence = files.find((file) => /^licen[cs]e/i.test(file));
  if (licence !== undefined) return readFileSync(join(folder, licence), 'utf8').trim();
  const readme = files.find((file) => /^readme/i.test(file));
  const text = readme === undefined ? '' : readFileSync(join(folder, readme), 'utf8');
  return /^#+ licen[cs]e\s*$([^]*)/im.exec(text)?.[1]?.trim() ?? '';
};

const licences = (bundles: Bundle[]): string =>
  packagesOf(bundles)
    .map((folder) => {
      const { name, version, licenses, license = licenses?.[0]?.type } = manifestOf(folder);
      return [`${name} ${version} (${license})`, licenceText(folder)].filter((text) => text !== '').join('\n\n');
    })
    .join(`\n\n${'-'.repeat(80)}\n\n`);

/**
 * In place and file by file: whoever runs the sandbox meanwhile finds the old one or the new, never none. One that starts
 * between two files may have a prelude and parts that do not fit; a server runs from `dist`, which is not written to.
 */
const write = (files: Map<string, string>): void => {
  for (const path of files.keys()) mkdirSync(dirname(join(target, path)), { recursive: true });
  for (const [path, text] of files) {
    writeFileSync(join(target, `${path}.new`), text);
    renameSync(join(target, `${path}.new`), join(target, path));
  }
  for (const entry of readdirSync(target, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && !files.has(relative(target, path))) unlinkSync(path);
  }
};

const bundles = (
  await Promise.all([
    bundlePrelude(),
    ...Object.entries(CURATED).map(async ([name, contents]) => [await bundlePackage(name, contents)]),
  ])
).flat();
write(new Map([...bundles.map(({ path, text }) => [path, text] as const), ['LICENSES.txt', `${licences(bundles)}\n`]]));
