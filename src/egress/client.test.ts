// How long a destination may take, where nobody says otherwise.
import { expect, test } from 'vitest';
import { createEgress, type EgressOptions, egressTimeouts } from './client.ts';

const timeoutsOf = async (options?: EgressOptions) => {
  const egress = createEgress({ allowedHosts: undefined, privateHosts: [], ports: undefined, ownHosts: [] }, options);
  await egress.close();
  return egress.timeouts;
};

test('a destination has 10 s for the connection and 25 s for all, and whoever makes a way out may say otherwise of each', async () => {
  expect(egressTimeouts).toEqual({ connectMs: 10_000, firstByteMs: 25_000, wholeMs: 25_000 });
  expect(await timeoutsOf()).toEqual(egressTimeouts);
  expect(await timeoutsOf({ timeouts: { connectMs: 1 } })).toEqual({ ...egressTimeouts, connectMs: 1 });
});
