// A test destination: a real TLS server on this machine that records what it receives.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { certificateFor } from './certificates.ts';

export type Received = {
  method: string;
  url: string;
  /** As on the wire: their spelling, their order, each of them. */
  headers: [name: string, value: string][];
  body: Buffer;
  /** The name that the client asked for in its handshake. */
  servername: string | undefined;
  /** The names in the certificate that the client showed, where it was asked for one and had one. */
  client: string | undefined;
  /** The address of ours that was connected to. */
  address: string | undefined;
  /** Counts from 1; the same for requests over the same connection. */
  connection: number;
};

export type UpstreamOptions = {
  hosts?: string[];
  address?: string;
  /** Any free one by default. */
  port?: number;
  /** Called with the whole request. By default it echoes what was received as JSON, the body as latin1. */
  answer?(request: IncomingMessage, response: ServerResponse, received: Received): void | Promise<void>;
  /** Called as soon as the head is there. The body is read nevertheless. */
  onHead?(request: IncomingMessage, response: ServerResponse): void;
  /** In place of, or beside, a good certificate. */
  tls?: ServerOptions;
};

export type Upstream = {
  port: number;
  received: Received[];
  /** Of all connections ever made, also those whose handshake failed. */
  connectionCount(): number;
  openCount(): number;
  close(): Promise<void>;
};

const echo = (_: IncomingMessage, response: ServerResponse, received: Received): void => {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ ...received, body: received.body.toString('latin1') }));
};

const pairsOf = (raw: string[]): [string, string][] => {
  const pairs: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) pairs.push([raw[at] as string, raw[at + 1] as string]);
  return pairs;
};

export const startUpstream = async (options: UpstreamOptions = {}): Promise<Upstream> => {
  const { hosts = ['upstream.test', '*.upstream.test'], address = '127.0.0.1', port = 0 } = options;
  const { answer = echo, onHead, tls } = options;
  const received: Received[] = [];
  const open = new Set<Duplex>();
  const numberOf = new WeakMap<object, number>();
  let connections = 0;
  let secured = 0;

  const server = createServer({ ...certificateFor(...hosts), ...tls }, async (request, response) => {
    onHead?.(request, response);
    const pieces: Buffer[] = [];
    try {
      for await (const piece of request) pieces.push(piece as Buffer);
    } catch {
      // A request that breaks off was not received.
      return;
    }
    const socket = request.socket as TLSSocket & { servername?: string | false };
    const got: Received = {
      method: request.method ?? '',
      url: request.url ?? '',
      headers: pairsOf(request.rawHeaders),
      body: Buffer.concat(pieces),
      servername: socket.servername === false ? undefined : socket.servername,
      client: socket.getPeerCertificate().subjectaltname,
      address: socket.localAddress,
      connection: numberOf.get(socket) ?? 0,
    };
    received.push(got);
    await answer(request, response, got);
  });
  server.on('connection', (socket) => {
    connections += 1;
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  server.on('secureConnection', (socket) => {
    secured += 1;
    numberOf.set(socket, secured);
    // A client that goes away in the middle is an ordinary thing here.
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, address, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    received,
    connectionCount: () => connections,
    openCount: () => open.size,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
};
