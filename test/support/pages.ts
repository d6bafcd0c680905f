// The commands of the README and the guides, and the outputs that they show, to run them as a reader does.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './process.ts';

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

const guides = readdirSync(join(root, 'docs/guides')).map((file) => join('docs/guides', file));
export const pagesWithCommands = ['README.md', 'docs/api.md', ...guides];

/** Commands for the reader's shell (sh) or another terminal (console), and the output that follows as json, if any. */
export type Block = { language: 'sh' | 'console'; code: string; answer: unknown };

export const blocksOf = (page: string): Block[] => {
  const fences = [...read(page).matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)];
  return fences.flatMap(([, language, code = ''], index) => {
    const [, nextLanguage, next = ''] = fences[index + 1] ?? [];
    if (language !== 'sh' && language !== 'console') return [];
    return [{ language, code, answer: nextLanguage === 'json' ? JSON.parse(next) : undefined }];
  });
};

/** What differs from run to run, by its form. */
const varying = {
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
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
