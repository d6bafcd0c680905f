// A destination for the guides (`npm run echo`): an HTTPS server that returns the requests it receives. Its certificate is
// generated at each start. A development server on the same data directory may reach it and trusts it. The image for development
// has it too, without the rest of the tests and the source.
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { selfSignedCertificateFor } from '../../src/platform/crypto/issue-certificate.ts';

const { DATA_DIR = 'data', PORT = '8443' } = process.env;

const { cert, key } = selfSignedCertificateFor('localhost');
const path = join(DATA_DIR, 'echo.pem');

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
  // Only now: where another one has the port, a server goes on to trust the certificate of that.
  mkdirSync(DATA_DIR, { recursive: true, mode: 0o700 });
  writeFileSync(path, cert);
  // As src/platform/config/dev-destination.ts reads it.
  const file = join(DATA_DIR, 'echo.json');
  writeFileSync(`${file}.new`, JSON.stringify({ port: Number(PORT), certificate: cert }), { mode: 0o600 });
  renameSync(`${file}.new`, file);
  console.log(`https://localhost:${PORT} answers with what it receives. A development server with DATA_DIR=${DATA_DIR} may
reach it at once. Another server needs:

    EGRESS_PRIVATE_HOSTS=localhost:${PORT} NODE_EXTRA_CA_CERTS=${path} npm start
`);
});
