// Compares what programs do in the sandbox with what they do in Node.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Outcome } from '../../src/platform/sandbox/protocol/sandbox.ts';
import { requestOf } from '../programs/request.ts';
import { openTestSandbox, type TestSandbox } from './sandbox.ts';

const folder = fileURLToPath(new URL('../programs/', import.meta.url));
export const allPrograms = readdirSync(folder).filter((file) => file.endsWith('.js'));

/** Room enough that a slow machine ends none of them. */
const LIMITS = { wallMs: 30_000, cpuMs: 20_000, memoryMb: 128, outputBytesMax: 5 * 1024 * 1024 };

/** The sandbox's clock is in UTC and its people speak English; nothing else of the environment is looked at. */
const runInNode = async (file: string): Promise<string> => {
  const { stdout } = await promisify(execFile)(process.execPath, [`${folder}run-in-node.ts`, `${folder}${file}`], {
    env: { PATH: process.env['PATH'], TZ: 'UTC', LANG: 'en_US.UTF-8' },
  });
  return stdout;
};

const textOf = (outcome: Outcome): string => {
  if (outcome.ok) return JSON.stringify({ ok: true, value: outcome.value });
  const { fault } = outcome;
  if (fault.code !== 'THROWN') return JSON.stringify(fault);
  return JSON.stringify({ ok: false, name: fault.name, message: fault.message });
};

/** A test of each program of a file. */
export const testPrograms = (programs: string[]): void => {
  let sandbox: TestSandbox;

  beforeAll(async () => {
    sandbox = await openTestSandbox({ limits: LIMITS });
  });

  afterAll(() => sandbox.close());

  const runInSandbox = async (code: string): Promise<string> =>
    textOf(await sandbox.runCode('00000000-0000-4000-8000-000000000001', code, { args: requestOf(code).args }));

  test.each(programs)('%s does in the sandbox what it does in Node', async (file) => {
    const code = readFileSync(folder + file, 'utf8');
    const [inSandbox, inNode] = await Promise.all([runInSandbox(code), runInNode(file)]);
    expect(JSON.parse(inSandbox)).toEqual(JSON.parse(inNode));
    expect(inSandbox).toBe(inNode);
  });
};
