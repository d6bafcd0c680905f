// The names that code may `require`, as messages and docs list them. The sandbox has them in node-surface/require.cjs; a test compares.

/** Modules of Node, also with the prefix `node:`. */
const nodeModules = [
  'assert',
  'assert/strict',
  'buffer',
  'console',
  'crypto',
  'events',
  'http',
  'https',
  'os',
  'path',
  'path/posix',
  'perf_hooks',
  'process',
  'punycode',
  'querystring',
  'stream',
  'stream/promises',
  'string_decoder',
  'timers',
  'timers/promises',
  'url',
  'util',
  'util/types',
];

const packages = [
  'axios',
  'crypto-js',
  'csv-parse',
  'csv-parse/sync',
  'fast-xml-parser',
  'jsonpath',
  'node-fetch',
  'uuid',
  'yup',
  '@svc/reactor-formulas-sdk',
  '@basis-theory/basis-theory-reactor-formulas-sdk-js',
];

export const moduleNames: readonly string[] = [...nodeModules, ...packages];
