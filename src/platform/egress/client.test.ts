// The default timeouts of a request to a destination.
import { expect, test } from 'vitest';
import { createAccounts } from '../accounts.ts';
import { createEgress, type EgressOptions, egressTimeouts } from './client.ts';

const timeoutsOf = async (options?: Pick<EgressOptions, 'timeouts'>) => {
  const policy = { allowedHosts: undefined, privateHosts: [], ports: undefined, ownHosts: [] };
  const egress = createEgress(policy, { accounts: createAccounts(), ...options });
  await egress.close();
  return egress.timeouts;
};

test('a destination has 10 s for the connection and 25 s for all, unless configured otherwise', async () => {
  expect(egressTimeouts).toEqual({ connectMs: 10_000, firstByteMs: 25_000, wholeMs: 25_000 });
  expect(await timeoutsOf()).toEqual(egressTimeouts);
  expect(await timeoutsOf({ timeouts: { connectMs: 1 } })).toEqual({ ...egressTimeouts, connectMs: 1 });
});
