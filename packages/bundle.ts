// Bundles the npm packages: this version of the fields library, with the scripts that the server serves, the client for Node, the
// command line, and the package for tests. Writes what clients have from the OpenAPI document.
// Runs when the project is built.
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type BuildOptions } from 'esbuild';
import { writePythonApi } from '../sdk/python/generate.ts';
import { writeNodeApi } from './node-api.ts';
import { writeFileSchemas } from './operations.ts';

const packages = dirname(fileURLToPath(import.meta.url));
const here = join(packages, 'fields');
const { version } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8')) as { version: string };
/** Files of earlier versions, which pages may have pinned: they are served for good, byte for byte. */
const releases = join(here, 'releases');
const served = join(packages, '../src/generated/fields');

const common: BuildOptions = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  charset: 'utf8',
  // The browsers of the last four years or so: constructed style sheets are the newest thing that the frames need.
  target: ['chrome110', 'firefox115', 'safari16.4'],
  define: { FIELDS_VERSION: JSON.stringify(version) },
  legalComments: 'none',
};

rmSync(served, { recursive: true, force: true });
// The names of its chunks change with their text.
rmSync(join(packages, 'cli/dist'), { recursive: true, force: true });
mkdirSync(served, { recursive: true });
const to = (name: string): string => join(served, version, name);
const document = JSON.parse(readFileSync(join(packages, '../openapi/openapi.json'), 'utf8'));
mkdirSync(join(packages, 'node/src/generated'), { recursive: true });
writeFileSync(join(packages, 'node/src/generated/api.ts'), writeNodeApi(document));
mkdirSync(join(packages, 'cli/src/generated'), { recursive: true });
writeFileSync(join(packages, 'cli/src/generated/schemas.json'), writeFileSchemas(document));
writeFileSync(join(packages, '../sdk/python/strongroom/_generated.py'), writePythonApi(document));
/** For Node 20 and later, as the server's own entry points. */
const forNode: BuildOptions = { bundle: true, platform: 'node', target: 'node20' };
const node: BuildOptions = { ...forNode, absWorkingDir: join(packages, 'node'), entryPoints: ['src/strongroom.ts'] };
/** Its packages are installed beside it, where scanners see them. */
const cli: BuildOptions = { ...forNode, absWorkingDir: join(packages, 'cli'), packages: 'external', splitting: true };
const testing: BuildOptions = { ...forNode, absWorkingDir: join(packages, 'testing') };
const isCommonJs = '{ "type": "commonjs" }\n';
mkdirSync(join(packages, 'node/dist/cjs'), { recursive: true });
writeFileSync(join(packages, 'node/dist/cjs/package.json'), isCommonJs);
await Promise.all([
  build({ ...node, format: 'esm', outfile: 'dist/strongroom.js' }),
  build({ ...node, format: 'cjs', outfile: 'dist/cjs/strongroom.js' }),
  build({ ...cli, entryPoints: ['src/bin.ts', 'src/main.ts'], format: 'esm', outdir: 'dist' }),
  build({ ...testing, entryPoints: ['src/testing.ts', 'src/guard.ts'], format: 'esm', outdir: 'dist' }),
  // Jest loads CommonJS.
  build({
    ...testing,
    entryPoints: ['src/testing.ts'],
    format: 'cjs',
    outfile: 'dist/testing.cjs',
    define: { 'import.meta.url': 'fileUrl' },
    banner: { js: "const fileUrl = require('node:url').pathToFileURL(__filename).href;" },
  }),
  build({ ...common, entryPoints: ['src/fields.ts'], format: 'esm', outfile: 'dist/fields.js' }),
  build({
    ...common,
    entryPoints: ['src/fields.ts'],
    format: 'iife',
    globalName: 'StrongroomFields',
    outfile: to('fields.js'),
  }),
  build({ ...common, entryPoints: ['frame/frame.ts'], format: 'iife', outfile: to('frame.js') }),
  build({ ...common, entryPoints: ['frame/frame.css'], outfile: to('frame.css') }),
]);

const digestsOf = (directory: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(directory)
      .toSorted()
      .map((name) => {
        const digest = createHash('sha384')
          .update(readFileSync(join(directory, name)))
          .digest('base64');
        return [name, `sha384-${digest}`];
      }),
  );

const versions: Record<string, Record<string, string>> = { [version]: digestsOf(join(served, version)) };
for (const released of existsSync(releases) ? readdirSync(releases) : []) {
  const digests = digestsOf(join(releases, released));
  if (released === version && JSON.stringify(digests) !== JSON.stringify(versions[version]))
    throw new Error(`Version ${version} is released, and its sources have changed since: raise the version.`);
  versions[released] = digests;
  cpSync(join(releases, released), join(served, released), { recursive: true });
}
writeFileSync(join(served, 'integrity.json'), `${JSON.stringify({ current: version, versions }, null, 2)}\n`);
