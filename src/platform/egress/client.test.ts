// The default timeouts of a request to a destination.
import { expect, test } from 'vitest';
import { createAccounts } from '../base/accounts.ts';
import { createEgress, type EgressOptions } from './client.ts';

const timeoutsOf = async (options?: Pick<EgressOptions, 'timeouts'>) => {
  const policy = { allowedHosts: undefined, privateHosts: [], ports: undefined, ownHosts: [] };
  const egress = createEgress(policy, { accounts: createAccounts(), ...options });
  await egress.close();
  return egress.timeouts;
};

test('a destination has 25 s for the head of its response and 55 s for all, by default', async () => {
  const usual = { connectMs: 10_000, firstByteMs: 25_000, wholeMs: 55_000 };
  expect(await timeoutsOf()).toEqual(usual);
  expect(await timeoutsOf({ timeouts: { connectMs: 1 } })).toEqual({ ...usual, connectMs: 1 });
});
