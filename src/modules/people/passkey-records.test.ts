// Tests where passkeys belong, by the configuration and, in development, the host of a request.
import { expect, test } from 'vitest';
import { loadConfig } from '../../platform/config/config.ts';
import { passkeyPlaceOf } from './passkey-records.ts';

const production = { NODE_ENV: 'production', MASTER_KEY: '0'.repeat(64), DATABASE_URL: 'postgresql://db/vault' };

const placeOf = (environment: Record<string, string>, host = 'evil.example') =>
  passkeyPlaceOf(loadConfig(environment), host);

test('a production server takes its public address or console host, never that of a request', () => {
  expect(placeOf({ ...production, PUBLIC_URL: 'https://vault.example.com/' })).toEqual({
    origin: 'https://vault.example.com',
    rp_id: 'vault.example.com',
  });
  expect(
    placeOf({ ...production, PUBLIC_URL: 'https://vault.example.com:8443', CONSOLE_HOST: 'people.example.com' }),
  ).toEqual({ origin: 'https://people.example.com:8443', rp_id: 'people.example.com' });
  expect(placeOf(production)).toBe(undefined);
  expect(placeOf({ ...production, PUBLIC_URL: 'https://10.0.0.1' })).toBe(undefined);
  expect(placeOf({ ...production, PUBLIC_URL: 'https://[fd00::1]' })).toBe(undefined);
});

test('a development server takes localhost with any port', () => {
  const development = { NODE_ENV: 'test' };
  expect(placeOf(development, 'localhost:8080')).toEqual({ origin: 'http://localhost:8080', rp_id: 'localhost' });
  expect(placeOf({ ...development, PUBLIC_URL: 'http://localhost:9000' })).toEqual({
    origin: 'http://localhost:9000',
    rp_id: 'localhost',
  });
  for (const host of ['127.0.0.1:8080', '[::1]:8080', 'vault.internal', 'localhost.evil.example', 'a b'])
    expect(placeOf(development, host)).toBe(undefined);
});
