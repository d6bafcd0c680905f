// Imports many cards by the command line beside a server, then exports them: rows a second, and the peak of memory.
// Usage: ROWS=100000 npm run drill:import
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { startServer } from '../bench/servers.ts';
import { asCards, cardNumber } from '../test/support/card-numbers.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const ROWS = Number(process.env['ROWS'] ?? 100_000);
const POLL_MS = 100;

/** What `npm run strongroom` passes to Node. */
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  scripts: { strongroom: string };
};
const nodeFlags = scripts.strongroom.match(/--[\w=-]+/g) ?? [];

const directory = mkdtempSync(join(tmpdir(), 'strongroom-import-'));
const server = await startServer(join(directory, 'data'));

/** Runs a command. @returns its exit code, the seconds it took, and the peak of its resident memory. */
const measure = async (args: string[]) => {
  const began = performance.now();
  const child = spawn(process.execPath, [...nodeFlags, 'bin/strongroom.cjs', ...args], {
    cwd: root,
    env: { PATH: process.env['PATH'], DATA_DIR: server.dataDir },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  let peakMb = 0;
  const timer = setInterval(() => {
    try {
      const [, kilobytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? [];
      peakMb = Math.max(peakMb, Math.round(Number(kilobytes ?? 0) / 1024));
    } catch {
      // The process has ended.
    }
  }, POLL_MS);
  const [code] = (await once(child, 'exit')) as [number];
  clearInterval(timer);
  const seconds = (performance.now() - began) / 1000;
  return { code, seconds: Math.round(seconds * 10) / 10, rows_per_second: Math.round(ROWS / seconds), peakMb };
};

try {
  const file = join(directory, 'cards.csv');
  const output = createWriteStream(file);
  output.write('card_id,pan,month,year\n');
  for (let n = 1; n <= ROWS; n += 1)
    if (!output.write(`drill_${n},${cardNumber(n)},9,2031\n`)) await once(output, 'drain');
  output.end();
  await once(output, 'finish');
  const recipient = await identityToRecipient(await generateX25519Identity());
  const runs: [string, string[]][] = [
    ['import', ['import', file, ...asCards]],
    ['import again', ['import', file, ...asCards, '--result', join(directory, 'again')]],
    ['export', ['export', join(directory, 'out.age'), '--to', recipient]],
  ];
  for (const [drill, args] of runs) {
    const measured = { drill, rows: ROWS, ...(await measure(args)) };
    console.log(JSON.stringify(measured));
    if (measured.code !== 0) process.exitCode = 1;
  }
} finally {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
}
