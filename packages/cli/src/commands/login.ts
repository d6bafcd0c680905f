// Profiles: the vaults that a person works with.
import type { Command } from 'commander';
import { connect, define, defineGroup, type Scope } from '../define.ts';
import { CliError, describeFailure, usageError, withAddress } from '../exit-codes.ts';
import { readSecret } from '../input.ts';
import { checkProfileName, profilesPath, readProfiles, toProfile, writeProfiles } from '../profiles.ts';

const DEFAULT_NAME = 'default';

export const addLogin = (scope: Scope, program: Command): void => {
  define<{ url?: string; check: boolean }>(scope, program, {
    signature: 'login',
    summary: 'stores the address of a vault and an API key in a profile',
    more:
      'The key is asked at the terminal, where it is not shown, or read from standard input, or from STRONGROOM_API_KEY.\n' +
      'It is stored in a file that only you may read. Further commands use this profile, or the one of --profile.',
    options: [
      ['--url <url>', 'address of the vault, such as https://vault.example.com; or STRONGROOM_URL'],
      ['--no-check', 'stores the key without asking the vault whether it is valid'],
    ],
    run: async ({ io, options }) => {
      const name = options.profile ?? DEFAULT_NAME;
      checkProfileName(name);
      const url = options.url ?? io.env['STRONGROOM_URL'];
      if (!url) throw usageError('The option --url is needed, such as --url https://vault.example.com.');
      // Before the key is asked: a file with a wrong mode is found first.
      const stored = readProfiles(io);
      toProfile(url, 'key', io);
      const key = io.env['STRONGROOM_API_KEY'] || (await readSecret(io, 'API key: '));
      const profile = toProfile(url, key, io);
      let application: { name?: string; id?: string } = {};
      if (options.check) {
        const vault = await connect(profile);
        application = await vault.applications.getOwn().catch((error: unknown) => {
          const { line, exitCode } = describeFailure(withAddress(error, profile.url));
          throw new CliError(`Nothing was stored. ${line}`, exitCode);
        });
      }
      writeProfiles(io, { current: name, profiles: { ...stored.profiles, [name]: profile } });
      const path = profilesPath(io);
      if (io.json) return io.show({ profile: name, url: profile.url, application: application.name, file: path });
      io.say(
        `${application.name === undefined ? 'Stored' : `Signed in as ${JSON.stringify(application.name)}`}: profile ${name}, in ${path}.`,
      );
      const { current } = stored;
      if (current !== undefined && current !== name)
        io.say(`Commands use the profile ${name} now. Back to ${current}: strongroom profile use ${current}`);
    },
  });
  define(scope, program, {
    signature: 'logout',
    summary: 'removes a profile, and its key from this machine',
    more: 'The key goes on to work: strongroom api-keys revoke ends it.',
    run: ({ io, options }) => {
      const stored = readProfiles(io);
      const name = options.profile ?? stored.current ?? DEFAULT_NAME;
      if (!Object.hasOwn(stored.profiles, name)) throw usageError('There is no such profile.');
      const { [name]: _, ...profiles } = stored.profiles;
      const { current } = stored;
      writeProfiles(io, { ...(current !== undefined && current !== name && { current }), profiles });
      if (io.json) io.show({ profile: name });
      else io.say(`Removed the profile ${name}.`);
    },
  });
  const profiles = defineGroup(program, 'profile', 'profiles of this machine');
  define(scope, profiles, {
    signature: 'list',
    summary: 'lists the profiles, without their keys',
    run: ({ io }) => {
      const { current, profiles: all } = readProfiles(io);
      const items = Object.entries(all).map(([name, { url }]) => ({ name, url, current: name === current }));
      io.list(items, [
        ['name', ({ name }) => name],
        ['url', ({ url }) => url],
        ['current', (item) => (item.current ? 'yes' : '')],
      ]);
    },
  });
  define(scope, profiles, {
    signature: 'use <name>',
    summary: 'makes a profile the one that commands use',
    run: ({ io, args: [name = ''] }) => {
      const stored = readProfiles(io);
      if (!Object.hasOwn(stored.profiles, name)) throw usageError('There is no such profile.');
      writeProfiles(io, { ...stored, current: name });
      if (io.json) io.show({ profile: name });
      else io.say(`Commands use the profile ${name} now.`);
    },
  });
};
