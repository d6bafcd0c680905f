// An HTTPS server on this machine that a development server on the same data directory may reach and trusts: for guides and recipes.
// Its certificate is generated at each start. The image for development has it too, without the rest of the tests and the source.
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer, type Server, type ServerOptions } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { selfSignedCertificateFor } from '../../src/platform/crypto/issue-certificate.ts';

export type Received = { method: string; url: string; headers: IncomingHttpHeaders; body: string };

/** `reset`: the connection ends without an answer. */
export type Answer = { status: number; json: unknown } | 'reset';

/** A server that answers each request as `answer` says. */
export const createDestination = (certificate: ServerOptions, answer: (request: Received) => Answer): Server =>
  createServer(certificate, async (request, response) => {
    const { method = '', url = '', headers } = request;
    const body = await text(request).catch(() => '');
    const made = answer({ method, url, headers, body });
    if (made === 'reset') return void request.socket.destroy();
    const { status, json } = made;
    response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(json)}\n`);
  });

/** Serves until the process is ended, at PORT, for the server on DATA_DIR. @param does Completes "https://localhost:8443 ...". */
export const serveDestination = (does: string, answer: (request: Received) => Answer): void => {
  const { DATA_DIR = 'data', PORT = '8443' } = process.env;
  const { cert, key } = selfSignedCertificateFor('localhost');
  const path = join(DATA_DIR, 'echo.pem');
  const server = createDestination({ cert, key }, answer);
  server.once('error', ({ code }: NodeJS.ErrnoException) => {
    console.error(
      `https://localhost:${PORT} cannot be served: ${code}. PORT=8444 before the command takes another port.`,
    );
    process.exitCode = 1;
  });
  server.listen(Number(PORT), '127.0.0.1', () => {
    // Only now: where another one has the port, a server goes on to trust the certificate of that.
    mkdirSync(DATA_DIR, { recursive: true, mode: 0o700 });
    writeFileSync(path, cert);
    // As src/platform/config/dev-destination.ts reads it.
    const file = join(DATA_DIR, 'echo.json');
    writeFileSync(`${file}.new`, JSON.stringify({ port: Number(PORT), certificate: cert }), { mode: 0o600 });
    renameSync(`${file}.new`, file);
    console.log(`https://localhost:${PORT} ${does}. A development server with DATA_DIR=${DATA_DIR} may
reach it at once. Another server needs:

    EGRESS_PRIVATE_HOSTS=localhost:${PORT} NODE_EXTRA_CA_CERTS=${path} npm start
`);
  });
};
