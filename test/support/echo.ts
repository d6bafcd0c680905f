// A destination for the README's proxy example (`npm run echo`): an HTTPS server that returns the requests it receives.
// Its certificate is generated at each start.
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { selfSignedCertificateFor } from './certificates.ts';

const { DATA_DIR = 'data', PORT = '8443' } = process.env;

const { cert, key } = selfSignedCertificateFor('localhost');
const path = join(DATA_DIR, 'echo.pem');
mkdirSync(DATA_DIR, { recursive: true, mode: 0o700 });
writeFileSync(path, cert);

const parse = (body: string): unknown => {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
};

createServer({ cert, key }, async (request, response) => {
  const { method, url, headers } = request;
  const body = await text(request).catch(() => '');
  response.setHeader('content-type', 'application/json');
  response.end(`${JSON.stringify({ method, url, headers, body: parse(body) })}\n`);
}).listen(Number(PORT), '127.0.0.1', () => {
  console.log(`https://localhost:${PORT} answers with what it receives. A server that may reach it and trusts it:

    EGRESS_PRIVATE_HOSTS=localhost:${PORT} NODE_EXTRA_CA_CERTS=${path} npm start
`);
});
