// Writes docs/current-clients.md from the list of calls: `node test/support/write-client-page.ts`.
import { readFileSync, writeFileSync } from 'node:fs';
import { pageOf } from './current-calls.ts';

const sdk = new URL('../../node_modules/@basis-theory/node-sdk/package.json', import.meta.url);
const { version } = JSON.parse(readFileSync(sdk, 'utf8')) as { version: string };
writeFileSync(new URL('../../docs/current-clients.md', import.meta.url), pageOf(version));
