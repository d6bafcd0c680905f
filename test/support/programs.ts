// Which optional programs the machine has, and which tests need them.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

type OptionalProgram = {
  /** Names of its executable files; all are needed. */
  files: string[];
  /** A module of Python that the program must find. */
  module?: string;
  /** Other names under which one of them may be installed. */
  otherFiles?: string[];
  /** What a run leaves out without it. */
  tests: string;
};

/** Programs that no npm package brings. Each test that needs one asks `isInstalled`, so that this list is whole. */
const programs = {
  bubblewrap: { files: ['bwrap'], tests: 'isolation of executors by bubblewrap' },
  chromium: {
    files: ['chromium'],
    otherFiles: ['chromium-browser', 'google-chrome'],
    tests: 'the console, the fields library, passkeys and the demo in a browser',
  },
  prometheus: { files: ['prometheus', 'promtool'], tests: 'a scrape by Prometheus, and the alert rules' },
  softhsm2: { files: ['softhsm2-util', 'pkcs11-tool'], tests: 'root keys in a PKCS #11 token' },
  kustomize: { files: ['kustomize'], tests: 'the Kubernetes example as kustomize renders it' },
  helm: { files: ['helm'], tests: 'the Helm chart as helm renders it' },
  systemd: { files: ['systemd-analyze'], tests: 'the systemd units as systemd-analyze reads them' },
  'sample programs': { files: ['curl', 'python3'], tests: 'the samples of requests, as a shell and Python run them' },
  'python3-httpx': { files: ['python3'], module: 'httpx', tests: 'the client for Python' },
  'python3-mypy': { files: ['python3'], module: 'mypy, httpx', tests: 'the types of the client for Python' },
  'python3-standardwebhooks': {
    files: ['python3'],
    module: 'standardwebhooks',
    tests: 'messages of webhooks by the verifier of PyPI',
  },
  psql: { files: ['psql'], tests: 'the database roles, by their SQL file' },
} satisfies Record<string, OptionalProgram>;

export type ProgramName = keyof typeof programs;

/** Debian keeps the programs of PostgreSQL outside PATH, in a directory for each version. */
const POSTGRESQL_OF_DEBIAN = '/usr/lib/postgresql';

const directories = [
  ...(process.env['PATH'] ?? '').split(':'),
  ...(existsSync(POSTGRESQL_OF_DEBIAN) ? readdirSync(POSTGRESQL_OF_DEBIAN) : []).map((version) =>
    join(POSTGRESQL_OF_DEBIAN, version, 'bin'),
  ),
];

const findFile = (name: string, module?: string): string | undefined =>
  directories
    .map((directory) => join(directory, name))
    .find((path) => existsSync(path) && (module === undefined || hasModule(path, module)));

const hasModule = (python: string, module: string): boolean =>
  spawnSync(python, ['-c', `import ${module}`], { stdio: 'ignore' }).status === 0;

/** Where a program is; undefined where the machine lacks it. `CHROMIUM` may name a browser. */
export const findProgram = (name: ProgramName): string | undefined => {
  const { files, otherFiles = [], module }: OptionalProgram = programs[name];
  const named = name === 'chromium' ? process.env['CHROMIUM'] : undefined;
  if (named !== undefined && existsSync(named)) return named;
  const found = files.map((file) => findFile(file, module));
  if (found.every((path) => path !== undefined)) return found[0];
  return otherFiles.map((file) => findFile(file)).find((path) => path !== undefined);
};

export const isInstalled = (name: ProgramName): boolean => findProgram(name) !== undefined;

/** The programs that the machine lacks, with the tests that need them. */
export const findMissingPrograms = (): { program: string; tests: string }[] =>
  Object.entries(programs)
    .filter(([name]) => !isInstalled(name as ProgramName))
    .map(([program, { tests }]) => ({ program, tests }));
