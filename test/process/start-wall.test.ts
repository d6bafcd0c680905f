// SANDBOX_JAIL as an operator sets it.
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { cli, test } from '../support/place.ts';
import { untilReady } from '../support/process.ts';

describe('a server with a database of its own', () => {
  describe('the wall around the code of tenants', { concurrent: false }, () => {
    test.for(['auto', 'bwrap', 'landlock', 'none'] as const)(
      'as SANDBOX_JAIL=%s asks for it: doctor tells what a start does',
      async (wanted, { dataDir, database, start }) => {
        const environment = { DATABASE_URL: database.url, SANDBOX_JAIL: wanted };
        const server = await start(environment);
        await Promise.race([server.exited, untilReady(server).catch(() => undefined)]);
        const ready = await fetch(`${server.base_url}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        );
        const { code, stdout } = await cli(dataDir, ['doctor'], environment).then(
          (done) => ({ code: 0, ...done }),
          (failed: { code: number; stdout: string }) => failed,
        );
        const [result = ''] = stdout.split('\n').filter((line) => line.includes(' sandbox: '));
        if (!ready) {
          // Only a wall that was asked for by its name stops a start.
          expect(['bwrap', 'landlock']).toContain(wanted);
          expect(server.output()).toContain('The sandbox for the code of tenants does not start');
          expect([code, result]).toEqual([1, expect.stringMatching(/^✘ sandbox: .*SANDBOX_JAIL=auto/)]);
          return;
        }
        const wallOf = () => /"wall":"([^"]+)"/.exec(server.output())?.[1];
        while (wallOf() === undefined) await pause(20);
        const wall = wallOf();
        const first = { auto: '', bwrap: 'bubblewrap', landlock: 'Landlock', none: 'none' }[wanted];
        expect(wall).toMatch(new RegExp(`^${first}`));
        if (wall === 'none') expect(server.output()).toContain('"alarm":"no_wall"');
        const expected = wall === 'none' ? '^⚠ sandbox: no wall stands' : `^✔ sandbox: starts behind ${wall}$`;
        expect([code, result]).toEqual([0, expect.stringMatching(new RegExp(expected))]);
      },
    );
  });
});
