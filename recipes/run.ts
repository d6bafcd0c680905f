// Runs a recipe against a vault and a fake processor of its own: `npm run recipe -- stripe`. Both end with it.
// `npm run recipe -- stripe fake` serves the fake alone, for a development server that runs.
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { cards, startVault } from '@strongroom/testing';
import { certificateFor, testCa } from '../test/support/certificates.ts';
import { type Answer, createDestination, type Received, serveDestination } from '../test/support/destination.ts';

export type { Answer, Received };

/** What a recipe gets: a vault with a key that may do everything, and the address of the processor. */
export type Place = {
  vaultUrl: string;
  vaultKey: string;
  processorUrl: string;
  received: Received[];
  cards: typeof cards;
};

/** `recipe.ts` of a folder. */
export type Recipe = {
  answer(request: Received): Answer;
  /** @returns what the recipe prints. */
  run(place: Place): Promise<unknown>;
};

const names = readdirSync(import.meta.dirname, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

const startProcessor = async ({ answer }: Recipe, received: Received[]) => {
  const server = createDestination(certificateFor('localhost'), (request) => {
    received.push(request);
    return answer(request);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
};

const runRecipe = async (recipe: Recipe): Promise<unknown> => {
  const received: Received[] = [];
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-recipe-'));
  const ca = join(directory, 'ca.pem');
  writeFileSync(ca, testCa);
  const processor = await startProcessor(recipe, received);
  try {
    const { port } = processor.address() as AddressInfo;
    const environment = { EGRESS_PRIVATE_HOSTS: `localhost:${port}`, NODE_EXTRA_CA_CERTS: ca };
    await using vault = await startVault({ environment });
    const processorUrl = `https://localhost:${port}`;
    return await recipe.run({ vaultUrl: vault.url, vaultKey: vault.key, processorUrl, received, cards });
  } finally {
    processor.close();
    processor.closeAllConnections();
    rmSync(directory, { recursive: true, force: true });
  }
};

const [name = '', only] = process.argv.slice(2);
if (!names.includes(name) || (only !== undefined && only !== 'fake')) {
  console.error(`Name a recipe, and fake after it to serve its fake alone: npm run recipe -- ${names.join(', ')}`);
  process.exitCode = 1;
} else {
  const recipe = (await import(pathToFileURL(join(import.meta.dirname, name, 'recipe.ts')).href)) as Recipe;
  if (only === 'fake') serveDestination(`answers as the fake of ${name}`, recipe.answer);
  else console.log(JSON.stringify(await runRecipe(recipe), null, 2));
}
