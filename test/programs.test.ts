// Ordinary programs give the same result in the sandbox as in Node, to the byte: some of each kind. test/process has them all.
import { testPrograms } from './support/programs-in-node.ts';

testPrograms([
  'buffer-encodings.js',
  'error-type.js',
  'hmac-webhook.js',
  'intl.js',
  'modules.js',
  'streams.js',
  'timer-order.js',
  'xml-parse.js',
]);
