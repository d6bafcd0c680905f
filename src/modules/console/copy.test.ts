// The address of the vault in samples: where the operator named it, where the page was asked for, or a place for it.
import { expect, test } from 'vitest';
import { loadConfig } from '../../platform/config/config.ts';
import { samplesFor } from './copy.ts';
import type { Visit } from './visit.ts';

test.each<[Record<string, string>, string]>([
  [{}, 'http://127.0.0.1:8080/tokens'],
  [{ PUBLIC_URL: 'https://vault.example' }, 'https://vault.example/tokens'],
  [{ PUBLIC_URL: 'https://vault.example', CONSOLE_HOST: 'console.example' }, 'https://vault.example/tokens'],
  // The host of the console has no API.
  [{ CONSOLE_HOST: 'console.example' }, 'https://YOUR-VAULT/tokens'],
])('with %j a request goes to %s', (environment, url) => {
  const request = { protocol: 'http', host: environment['CONSOLE_HOST'] ?? '127.0.0.1:8080' };
  const visit = { ctx: { config: loadConfig(environment) }, request } as unknown as Visit;
  expect(samplesFor(visit, { path: '/tokens' }).curl).toContain(url);
});
