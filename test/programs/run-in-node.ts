// Runs one author's program in plain Node and prints what became of it as JSON: the result, or name and message of what
// was thrown. Knows nothing of the sandbox.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { compileFunction } from 'node:vm';
import { requestOf } from './request.ts';

type Loaded = { exports: unknown };
type Author = (request: object) => unknown;

/** The wrapper of CommonJS. Not Node's own, which would take these files for ES modules: so says our package.json. */
const load = (code: string): Author => {
  const loaded: Loaded = { exports: {} };
  const wrapper = compileFunction(code, ['exports', 'require', 'module', '__filename', '__dirname']);
  wrapper.call(loaded.exports, loaded.exports, createRequire(import.meta.url), loaded, '/formula.js', '/');
  return (
    typeof loaded.exports === 'function' ? loaded.exports : (loaded.exports as { default: Author }).default
  ) as Author;
};

const run = async (code: string): Promise<string> => {
  try {
    const result = await load(code)({ configuration: {}, svc: null, ...requestOf(code) });
    return JSON.stringify({ ok: true, value: JSON.parse(JSON.stringify(result)) });
  } catch (thrown) {
    const { name, message } = thrown as Error;
    return JSON.stringify({ ok: false, name, message });
  }
};

/** What a program prints belongs to nobody here. */
const print = process.stdout.write.bind(process.stdout);
process.stdout.write = () => true;
process.stderr.write = () => true;

const [, , file = ''] = process.argv;
const code = readFileSync(resolve(file), 'utf8');

/** Not from this module's own evaluation, which is a promise's turn: ticks would come after all other promises. */
setImmediate(async () => {
  const outcome = await run(code);
  print(outcome, () => process.exit(0));
});
