// The operations of the OpenAPI document, with paths to send to and examples of their bodies.
import document from '../../openapi/openapi.json' with { type: 'json' };

/** The id of a token that the test makes. */
export const PARENT_ID = 'parent-of-others';
export const UNKNOWN_ID = '7d6f1f5e-0000-4000-8000-000000000000';

type Body = { content: Record<string, { examples?: Record<string, { value: unknown }> }> };
export type Operation = { method: string; path: string; parameters: { name: string; in: string }[]; body?: Body };

const parameterOf = (parameter: { $ref?: string; name?: string; in?: string }) =>
  (parameter.$ref
    ? (document.components.parameters as Record<string, unknown>)[parameter.$ref.split('/').at(-1) as string]
    : parameter) as { name: string; in: string };

export const operations: Operation[] = Object.entries(document.paths as Record<string, Record<string, any>>)
  // What the destination of the proxy takes is not ours to say.
  .filter(([path]) => !/^\/proxy(\/|$)/.test(path))
  .flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => ['get', 'post', 'put', 'patch', 'delete'].includes(method))
      .map(([method, operation]) => ({
        method: method.toUpperCase(),
        path: path
          .replace('{parent_id}', PARENT_ID)
          .replace('{number}', '1')
          .replace(/\{\w+\}/g, UNKNOWN_ID),
        parameters: (operation.parameters ?? []).map(parameterOf),
        body: operation.requestBody,
      })),
  );

export const nameOf = ({ method, path }: Operation): string => `${method} ${path}`;

/** The examples of the document's body, and its type. */
export const examplesOf = ({ body }: Operation): { type: string; values: unknown[] } => {
  const [type, media] = Object.entries(body?.content ?? {})[0] ?? ['application/json', undefined];
  return { type, values: Object.values(media?.examples ?? {}).map(({ value }) => value) };
};
