// The commands and programs of the README, the guides and the clients, with the outputs that they show, to run them as a reader does.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './process.ts';

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

const guides = readdirSync(join(root, 'docs/guides')).map((file) => join('docs/guides', file));
export const pagesWithCommands = [
  'README.md',
  'docs/api.md',
  ...guides,
  'packages/node/README.md',
  'sdk/python/README.md',
];

/**
 * Commands for the reader's shell (sh) or another terminal (console), programs that use a client of the API (js, python), and the
 * output that follows as json, if any. Blocks of several languages in a row have one output.
 */
export type Block = { language: 'sh' | 'console' | 'js' | 'python'; code: string; answer: unknown };

type Fence = { language: string; code: string; isNext: boolean };

const fencesOf = (page: string): Fence[] => {
  let end = 0;
  return [...read(page).matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(
    ({ 0: all, 1: language = '', 2: code = '', index, input }) => {
      const isNext = input.slice(end, index).trim() === '';
      end = index + all.length;
      return { language, code, isNext };
    },
  );
};

/** Others are parts of a program, which another test runs. */
const isWhole = ({ language, code }: Fence): boolean =>
  language === 'sh' ||
  language === 'console' ||
  (language === 'js' && code.includes("from '@strongroom/node'")) ||
  (language === 'python' && code.includes('from strongroom import'));

export const blocksOf = (page: string): Block[] => {
  const fences = fencesOf(page);
  return fences.flatMap((fence, index) => {
    if (!isWhole(fence)) return [];
    const seen = new Set([fence.language]);
    let next = index + 1;
    for (let each = fences[next]; each?.isNext && isWhole(each) && !seen.has(each.language); each = fences[next]) {
      seen.add(each.language);
      next += 1;
    }
    const { language, code = '' } = fences[next] ?? {};
    return [
      {
        language: fence.language as Block['language'],
        code: fence.code,
        answer: language === 'json' ? JSON.parse(code) : undefined,
      },
    ];
  });
};

/** What differs from run to run, by its form. */
const varying = {
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  expression: /^\{\{ [0-9a-f]{8}-[0-9a-f-]{27} \}\}$/,
  fingerprint: /^[1-9A-HJ-NP-Za-km-z]{40,44}$/,
};

/** An answer with what varies numbered in the order of its appearance: equal ids stay equal. Keys in order. */
export const settled = (answer: unknown): unknown => {
  const seen = new Map<string, string>();
  const settle = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(settle);
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(
        Object.entries(value)
          .sort(([one], [other]) => (one < other ? -1 : 1))
          .map(([key, item]) => [key, settle(item)]),
      );
    const form = Object.entries(varying).find(([, pattern]) => typeof value === 'string' && pattern.test(value))?.[0];
    if (form === undefined) return value;
    const known = seen.get(value as string) ?? `${form} ${seen.size + 1}`;
    seen.set(value as string, known);
    return known;
  };
  return settle(answer);
};

export type Shell = { run(code: string): Promise<string>; end(): void };

/** A shell that stays open between commands, as a reader's does, and ends with the first that fails. */
export const openShell = (env: NodeJS.ProcessEnv, cwd = root): Shell => {
  const END = '--- end of block ---';
  const shell = spawn('bash', ['-euo', 'pipefail'], { cwd, env });
  let output = '';
  let words = '';
  let look = (): void => {};
  shell.stdout.on('data', (chunk) => {
    output += chunk;
    look();
  });
  shell.stderr.on('data', (chunk) => (words += chunk));
  return {
    run: (code) =>
      new Promise((resolve, reject) => {
        shell.once('close', () => reject(new Error(`${code}\n${words}`)));
        look = () => {
          if (!output.includes(END)) return;
          const [answer = '', rest = ''] = output.split(`${END}\n`);
          output = rest;
          shell.removeAllListeners('close');
          resolve(answer.trim());
        };
        shell.stdin.write(`${code}\necho; echo '${END}'\n`);
      }),
    end: () => shell.stdin.end(),
  };
};
