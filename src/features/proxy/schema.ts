// What the document says of /proxy. Nothing here checks a request: whatever comes is forwarded or refused by proxy/forward.ts.
import type { FastifySchema } from 'fastify';
import { proxyResponses, proxySecurity } from '../../http/openapi-parts.ts';

const description = `Forwards the request to a destination, with the values of tokens in place of expressions, and returns the answer of the destination. The destination is that of a stored proxy (\`SVC-PROXY-KEY\`), or the URL in \`SVC-PROXY-URL\`. Expressions may stand in the path, the query, the headers and the body.

The headers of the request are forwarded, except \`SVC-*\`, those of the connection, and those that reverse proxies set (\`Forwarded\`, \`X-Forwarded-*\`, \`Via\` and similar). The answer has the status, headers and body of the destination, except headers about caching and browsers, which are the vault's. With \`SVC-PROXY-DESTINATION-STATUS\` it came from a destination. An error of the proxy itself is a \`proxy_error\`.`;

const below = {
  '/': '',
  '/*': ' The path and the query are appended to those of the destination.',
};

const actor = 'A stored proxy with `require_auth: false` needs no API key: without one, its application is the caller.';

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
