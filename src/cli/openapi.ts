// The OpenAPI document without a server: registers the routes, calls none.
import { buildApp } from '../app.ts';
import { loadConfig } from '../config.ts';
import type { Context } from '../context.ts';
import { documentOf } from '../http/openapi.ts';
import { createLog } from '../log.ts';

/** @returns the committed text of the document. Deterministic: made from the routes alone, never from the environment. */
export const openapiDocument = async (): Promise<string> => {
  // Registering a route looks at the configuration and the log; everything else of a context waits for a request.
  const parts: Partial<Context> = { config: loadConfig({}), log: createLog('silent'), newUuid: () => '' };
  const app = await buildApp(parts as Context);
  const text = `${JSON.stringify(documentOf(app), null, 2)}\n`;
  await app.close();
  return text;
};
