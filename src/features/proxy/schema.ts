// What the document says of /proxy. Nothing here checks a request: whatever comes is forwarded or refused by proxy/forward.ts.
import type { FastifySchema } from 'fastify';
import { proxyResponses, proxySecurity } from '../../http/openapi-parts.ts';

const description = `Sends the request to a destination, with the values of tokens in the place of expressions, and answers with what the destination answers. The destination is a stored proxy's (\`SVC-PROXY-KEY\`) or the URL in \`SVC-PROXY-URL\`. Expressions may stand in the path, the query, headers and the body. The caller's headers go on, but for \`SVC-*\` and those of the connection. A response with \`SVC-PROXY-DESTINATION-STATUS\` is the destination's, or what a response transform made of it; what goes wrong before there is one is a \`proxy_error\`.`;

const below = {
  '/': '',
  '/*': " Path and query are appended to the destination's.",
};

const actor = 'Without an API key, where a stored proxy admits that, its application acts.';

const reference = (name: string) => ({ $ref: `#/components/parameters/${name}` });

/** @param url below /proxy: itself, or all behind it. */
export const forwardedSchema = (method: string, url: keyof typeof below): FastifySchema => {
  const isBelow = url === '/*';
  const name = method.charAt(0) + method.slice(1).toLowerCase();
  return {
    operationId: isBelow ? `invokeProxyPath${name}` : `invokeProxy${name}`,
    summary: isBelow ? `Send a ${method} to a path of a destination` : `Send a ${method} to a destination`,
    description: `${description}${below[url]}\n\nPermission: \`token:use\`. ${actor}`,
    tags: ['Proxy'],
    forwarded: {
      security: proxySecurity,
      parameters: [...(isBelow ? ['ProxyPath'] : []), 'ProxyKey', 'ProxyUrl'].map(reference),
      // A GET may have one, and it is forwarded; OpenAPI has no meaning for it.
      ...(method !== 'GET' && { requestBody: { $ref: '#/components/requestBodies/Forwarded' } }),
      responses: proxyResponses,
    },
  };
};
