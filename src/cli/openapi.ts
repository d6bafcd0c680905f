// Generates the OpenAPI document without a server: registers the routes and calls none.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { buildApp } from '../app.ts';
import { loadConfig } from '../platform/config/config.ts';
import type { Context } from '../modules.ts';
import { documentOf } from '../platform/http/openapi/openapi.ts';
import { StartError } from '../platform/base/errors.ts';
import { createLog } from '../platform/base/log.ts';
import type { CommandIo } from './command.ts';

/** @returns the text of openapi/openapi.json. It depends on the routes only, not on the environment. */
const openapiDocument = async (): Promise<string> => {
  // To register routes needs the configuration and the log only. Handlers need the rest of the context.
  const parts: Partial<Context> = { config: loadConfig({}), log: createLog('silent'), newUuid: () => '' };
  const app = await buildApp(parts as Context);
  const text = `${JSON.stringify(documentOf(app), null, 2)}\n`;
  await app.close();
  return text;
};

/** @param isCheck compares, and writes nothing. @throws StartError where the file is out of date. */
export const writeOpenapi = async (io: CommandIo, { isCheck }: { isCheck: boolean }): Promise<void> => {
  const text = await openapiDocument();
  const path = new URL('../../openapi/openapi.json', import.meta.url);
  if (isCheck) {
    if (readFileSync(path, 'utf8') !== text)
      throw new StartError('openapi/openapi.json is out of date. Run: npm run openapi');
    return;
  }
  mkdirSync(new URL('.', path), { recursive: true });
  writeFileSync(path, text);
  io.print('openapi/openapi.json written.');
};
