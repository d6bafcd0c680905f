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
