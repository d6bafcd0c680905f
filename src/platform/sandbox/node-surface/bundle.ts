// Bundles what runs inside an isolate: the prelude as one classic script, and each package that authors may require as
// the body of a function of (require, module, exports). Beside them it writes the licences of all that came along.
// Runs when the project is built, and never in the server.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { STATUS_CODES } from 'node:http';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, transform, type BuildOptions, type Metafile, type Plugin } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../../../..');
const target = join(root, 'src/generated/sandbox');
const find = createRequire(import.meta.url).resolve;

/** Modules that nearly every run needs are in the prelude's text; a context loads any other one when it is first required. */
const PRELUDE = new Set([
  'blob.cjs',
  'brands.cjs',
  'buffer.cjs',
  'bytes.cjs',
  'calls.cjs',
  'console.cjs',
  'crypto-bridge.cjs',
  'crypto-objects.cjs',
  'crypto.cjs',
  'dom-exception.cjs',
  'errors.cjs',
  'fetch.cjs',
  'globals.cjs',
  'headers.cjs',
  'host.cjs',
  'library/buffer',
  'primordials.cjs',
  'process.cjs',
  'report.cjs',
  'require.cjs',
  'run.cjs',
  'sdk.cjs',
  'svc.cjs',
  'ticks.cjs',
  'timers.cjs',
  'url.cjs',
]);

/** Name by which our modules require a library -> what makes its exports. With a slash it is the package, not Node's module. */
const LIBRARIES: Record<string, string> = {
  'library/assert': `
    exports.assert = require('assert/build/assert.js');
    exports.isDeepStrictEqual = require('assert/build/internal/util/comparisons.js').isDeepStrictEqual;`,
  'library/buffer': "module.exports = require('buffer/');",
  'library/encoding': "module.exports = require('@exodus/bytes/encoding-lite.js');",
  'library/event-target': "module.exports = require('event-target-shim');",
  'library/events': "module.exports = require('events/');",
  'library/inspect': "module.exports = require('node-inspect-extracted');",
  'library/string-decoder': "module.exports = require('string_decoder/');",
  'library/path': `
    const posix = require('path-browserify');
    module.exports = Object.assign(posix, { posix, toNamespacedPath: (path) => path });`,
  // The codes are those of the Node that bundles.
  'library/status-codes': `module.exports = ${JSON.stringify(STATUS_CODES)};`,
  // The package's main file re-exports Node's own stream where there is one.
  'library/stream': "module.exports = require('readable-stream/lib/ours/browser.js');",
};

/** The package does not export this file. */
const READABLE_STREAM = join(dirname(find('readable-stream/package.json')), 'lib/ours/browser.js');

/** The libraries get our modules for these names. */
const OWN: Record<string, string> = {
  'abort-controller': './event-target.cjs',
  buffer: './buffer.cjs',
  events: './events.cjs',
  process: './process.cjs',
  string_decoder: 'library/string-decoder',
  util: './util.cjs',
};

/** What the language has today, in the place of packages that bring it to old engines. */
const POLYFILLS: Record<string, string> = {
  'call-bind/callBound': 'module.exports = () => Function.prototype.call.bind(RegExp.prototype.test);',
  'is-nan': 'module.exports = Number.isNaN;',
  'object-is': 'module.exports = Object.is;',
  'object-is/polyfill': 'module.exports = () => Object.is;',
  'object.assign/polyfill': 'module.exports = () => Object.assign;',
};

const ownModules: Plugin = {
  name: 'own-modules',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[a-z]/ }, ({ path, importer }) => {
      if (POLYFILLS[path] !== undefined) return { path, namespace: 'polyfill' };
      if (path === 'readable-stream/lib/ours/browser.js') return { path: READABLE_STREAM };
      const own = importer.includes('node_modules') ? OWN[path.replace(/\/$/, '')] : undefined;
      return own === undefined ? undefined : { path: own, external: true };
    });
    onLoad({ filter: /.*/, namespace: 'polyfill' }, ({ path }) => ({ contents: POLYFILLS[path] ?? '' }));
  },
};

/** What is not in the sandbox, though node-fetch loads it; it uses none of it where there is nothing to decompress. */
const STAND_INS: Record<string, string> = {
  encoding: 'module.exports = {};',
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

/** `inputs`: the files that it was made of, for their licences. */
type Bundle = { path: string; text: string; inputs: string[] };

const inputsOf = ({ inputs }: Metafile): string[] => Object.keys(inputs);

/** Strict, so that no foreign function on the stack can read its callers' arguments. */
const wrap = (text: string): string => `function(require,module,exports){'use strict';${text}\n}`;

/** Requires modules by name: from the prelude's text, or else from the host. One that throws is tried again by the next call. */
const LOADER = `
const loaded={__proto__:null};
const require=(name)=>{
  if(loaded[name]!==undefined)return loaded[name].exports;
  const module={exports:{}};
  loaded[name]=module;
  try{(modules[name]??require('./host.cjs').loadPart(name))(require,module,module.exports)}catch(error){delete loaded[name];throw error}
  return module.exports;
};
return require('./run.cjs')`;

type Module = { name: string; text: string; inputs: string[] };

const ownModule = async (file: string): Promise<Module> => {
  const { legalComments, minifyWhitespace, minifySyntax, target: language } = shared;
  const { code } = await transform(readFileSync(join(here, file), 'utf8'), {
    legalComments,
    minifyWhitespace,
    minifySyntax,
    target: language,
  });
  return { name: file, text: code, inputs: [] };
};

const libraryModule = async ([name, contents]: [string, string]): Promise<Module> => {
  const { outputFiles, metafile } = await build({
    ...shared,
    stdin: { contents, resolveDir: here, sourcefile: `${basename(name)}-library.cjs` },
    format: 'cjs',
    platform: 'neutral',
    mainFields: ['main'],
    plugins: [ownModules],
  });
  return { name, text: outputFiles[0]?.text ?? '', inputs: inputsOf(metafile) };
};

/** A module that is required late would be missed only when code needs it. */
const checkRequires = (modules: Module[]): void => {
  const names = new Set(modules.map(({ name }) => name));
  for (const { name, text } of modules)
    for (const [, required = ''] of text.matchAll(/require\("(?:\.\/)?([\w-]+\.cjs|library\/[\w-]+)"\)/g))
      if (!names.has(required)) throw new Error(`${name} requires ${required}, which there is not`);
};

const bundlePrelude = async (): Promise<Bundle[]> => {
  const modules = await Promise.all([
    ...readdirSync(here)
      .filter((file) => file.endsWith('.cjs'))
      .map(ownModule),
    ...Object.entries(LIBRARIES).map(libraryModule),
  ]);
  checkRequires(modules);
  const inside = modules.filter(({ name }) => PRELUDE.has(name));
  const entries = inside.map(({ name, text }) => `'${name.endsWith('.cjs') ? './' : ''}${name}':${wrap(text)}`);
  const prelude = {
    path: 'prelude.js',
    text: `'use strict';(()=>{const modules={__proto__:null,${entries.join(',')}};${LOADER}})()\n`,
    inputs: inside.flatMap(({ inputs }) => inputs),
  };
  const parts = modules
    .filter(({ name }) => !PRELUDE.has(name))
    .map(({ name, text, inputs }) => ({
      path: `parts/${basename(name)}.js`,
      text: `(${wrap(text)})\n//# sourceURL=prelude.js\n`,
      inputs,
    }));
  return [prelude, ...parts];
};

const bundlePackage = async (name: string, contents: string): Promise<Bundle> => {
  const { outputFiles, metafile } = await build({
    ...shared,
    stdin: { contents, resolveDir: here, sourcefile: `${name}-entry.cjs` },
    alias: { 'axios-source': join(dirname(find('axios/package.json')), 'index.js') },
    format: 'cjs',
    // Axios is built as for a browser: it sends by fetch.
    platform: name === 'axios' ? 'browser' : 'neutral',
    mainFields: ['main'],
    conditions: ['node'],
    external: MODULES,
    plugins: [standIns],
  });
  const path = `packages/${name.replaceAll('/', '__')}.js`;
  return { path, text: outputFiles[0]?.text ?? '', inputs: inputsOf(metafile) };
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
    .flatMap(({ inputs }) => inputs)
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
 * In place and file by file: a sandbox that starts meanwhile finds the old file or the new one, never none. One that starts
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
