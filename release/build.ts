// Builds where something has changed since the last build; two runs at once build once.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const cache = join(root, 'node_modules/.cache');
/** Holds the process id of the build that runs. */
const lock = join(cache, 'strongroom-build.lock');
/** Holds the state of the files that the last build read. */
const stamp = join(cache, 'strongroom-build.state');
const LOOK_MS = 100;

const inputs = [
  'src',
  'openapi',
  'packages',
  'prisma',
  'release',
  'sdk',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
];
/** What a build writes. */
const outputs = new Set([
  'src/generated',
  'packages/cli/dist',
  'packages/cli/src/generated',
  'packages/fields/dist',
  'packages/fields-react/dist',
  'packages/node/dist',
  'packages/node/src/generated',
  'packages/testing/dist',
  'sdk/python/strongroom/_generated.py',
]);

const readState = (): string => {
  const hash = createHash('sha256');
  const visit = (path: string): void => {
    if (outputs.has(path)) return;
    const found = statSync(join(root, path));
    if (found.isDirectory()) for (const name of readdirSync(join(root, path)).toSorted()) visit(join(path, name));
    else hash.update(`${path} ${found.mtimeMs} ${found.size}\n`);
  };
  for (const path of inputs) visit(path);
  return hash.digest('hex');
};

const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`);

/** @returns whether this process got the lock. */
const tryLock = (): boolean => {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch {
    const holder = existsSync(lock) ? Number(readFileSync(lock, 'utf8')) : process.pid;
    // A build that was killed leaves its lock.
    if (holder !== 0 && !isAlive(holder)) rmSync(lock, { force: true });
    return false;
  }
};

const isBuilt = (): boolean =>
  ['dist/main.js', 'src/generated/sandbox'].every((path) => existsSync(join(root, path))) &&
  existsSync(stamp) &&
  readFileSync(stamp, 'utf8') === readState();

mkdirSync(cache, { recursive: true });
while (!isBuilt()) {
  if (!tryLock()) {
    await sleep(LOOK_MS);
    continue;
  }
  try {
    // Read before the build: a file that changes meanwhile is built again the next time.
    const state = readState();
    execFileSync('npm', ['run', '-s', 'build'], { cwd: root, stdio: 'inherit' });
    writeFileSync(stamp, state);
  } finally {
    rmSync(lock, { force: true });
  }
}
