// Holds the linked prelude to what CommonJS promises: each module runs once, when it is first asked for, wherever it ended up.
import { build } from 'esbuild';
import { expect, test } from 'vitest';
import { linkPrelude } from './link.ts';

/** As bundle.ts has it bundled, out of files by name. */
const bundle = async (files: Record<string, string>): Promise<string> => {
  const { outputFiles } = await build({
    entryPoints: ['entry.cjs'],
    bundle: true,
    write: false,
    format: 'iife',
    platform: 'neutral',
    minifyWhitespace: true,
    plugins: [
      {
        name: 'files',
        setup({ onResolve, onLoad }) {
          onResolve({ filter: /.*/ }, ({ path }) => ({ path: path.replace('./', ''), namespace: 'file-of-test' }));
          onLoad({ filter: /.*/ }, ({ path }) => ({ contents: files[path] ?? '', loader: 'js' }));
        },
      },
    ],
  });
  return (outputFiles[0]?.text ?? '').replaceAll('file-of-test:', '');
};

const FILES = {
  'entry.cjs': "require('./host.cjs'); module.exports = () => [require('./one.cjs'), require('./two.cjs')];",
  'host.cjs': 'module.exports = { loadPart: (name) => globalThis.load(name) };',
  'one.cjs': "module.exports = 'one, ' + require('./only-one.cjs') + require('./shared.cjs').text;",
  'two.cjs': "module.exports = 'two, ' + require('./shared.cjs').text;",
  'only-one.cjs': "module.exports = 'alone, ';",
  'shared.cjs': "exports.text = 'shared';",
};

const PARTS = { one: 'one.cjs', two: 'two.cjs' };

test('a part has what it alone reaches, and what two parts reach is in the prelude', async () => {
  const { prelude, parts } = linkPrelude(await bundle(FILES), PARTS, 'host.cjs');
  expect(parts.get('one')).toContain('module.exports="alone, "');
  expect(parts.get('two')).not.toContain('alone');
  for (const part of parts.values()) expect(part).not.toContain('exports.text=');
  expect(prelude).toContain('exports.text=');
  expect(prelude).not.toContain('alone');
});

test('a part is loaded when it is first asked for, once', async () => {
  const { prelude, parts } = linkPrelude(await bundle(FILES), PARTS, 'host.cjs');
  const asked: string[] = [];
  // The texts of this file alone.
  const evaluate = (text: string): unknown =>
    new Function('globalThis', `return ${text.replace(/^'use strict';/, '')}`)({ load });
  const load = (name: string): unknown => {
    asked.push(name);
    return evaluate(parts.get(name) ?? '');
  };
  const entry = evaluate(prelude) as () => string[];
  expect(asked).toEqual([]);
  expect(entry()).toEqual(['one, alone, shared', 'two, shared']);
  expect(entry()).toEqual(['one, alone, shared', 'two, shared']);
  expect(asked).toEqual(['one', 'two']);
});

test('a module that is not CommonJS is refused when the project is built', async () => {
  const files = { ...FILES, 'shared.cjs': "export const text = 'shared';" };
  const text = await bundle(files);
  expect(() => linkPrelude(text, PARTS, 'host.cjs')).toThrow();
});

/** What a bundle without parts makes of its entry, with a world of its own. */
const run = async (files: Record<string, string>, world: object = {}): Promise<unknown> => {
  const host = { 'host.cjs': 'module.exports = {};' };
  const entry = { 'entry.cjs': `require('./host.cjs'); ${files['entry.cjs']}` };
  const { prelude } = linkPrelude(await bundle({ ...host, ...files, ...entry }), {}, 'host.cjs');
  return new Function('globalThis', `return ${prelude.replace(/^'use strict';/, '')}`)(world);
};

test('a module that throws is tried anew by the next call', async () => {
  const world = { tries: 0 };
  const entry = await run(
    {
      'entry.cjs': "module.exports = () => require('./late.cjs');",
      'late.cjs': "globalThis.tries += 1; if (globalThis.tries === 1) throw new Error('no'); module.exports = 'yes';",
    },
    world,
  );
  expect(entry).toThrow('no');
  expect((entry as () => string)()).toBe('yes');
  expect((entry as () => string)()).toBe('yes');
  expect(world.tries).toBe(2);
});

test('modules that need each other see what the other has so far', async () => {
  const made = await run({
    'entry.cjs': "module.exports = require('./one.cjs');",
    'one.cjs': "exports.first = 1; exports.other = require('./two.cjs'); exports.last = 2;",
    'two.cjs': "const one = require('./one.cjs'); exports.seen = Object.keys(one).join(); exports.one = one;",
  });
  const { other, last } = made as { other: { seen: string; one: unknown }; last: number };
  expect(other.seen).toBe('first');
  expect(other.one).toBe(made);
  expect(last).toBe(2);
});

test('a bundle that calls a helper of esbuild is refused', async () => {
  const files = { ...FILES, 'shared.cjs': "export const text = 'shared';" };
  await expect(bundle(files).then((text) => linkPrelude(text, PARTS, 'host.cjs'))).rejects.toThrow();
  expect(() => linkPrelude('var require_a=__commonJS({"a"(exports){__name(f,"f")}});require_a();', {}, 'a')).toThrow(
    'helper',
  );
});
