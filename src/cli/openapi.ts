// Generates the OpenAPI document without a server: registers the routes and calls none.
import { buildApp } from '../app.ts';
import { loadConfig } from '../platform/config.ts';
import type { Context } from '../modules.ts';
import { documentOf } from '../platform/http/openapi/openapi.ts';
import { createLog } from '../platform/log.ts';

/** @returns the text of openapi/openapi.json. It depends on the routes only, not on the environment. */
export const openapiDocument = async (): Promise<string> => {
  // To register routes needs the configuration and the log only. Handlers need the rest of the context.
  const parts: Partial<Context> = { config: loadConfig({}), log: createLog('silent'), newUuid: () => '' };
  const app = await buildApp(parts as Context);
  const text = `${JSON.stringify(documentOf(app), null, 2)}\n`;
  await app.close();
  return text;
};
