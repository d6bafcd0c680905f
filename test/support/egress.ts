// What the tests of egress share: an egress that reaches servers of this machine alone, destinations good and bad, and how a
// request ends.
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo, Server, Socket } from 'node:net';
import { expect } from 'vitest';
import { createAccounts, type Limits } from '../../src/platform/base/accounts.ts';
import {
  createEgress,
  type EgressOptions,
  type EgressPolicy,
  type EgressRequest,
} from '../../src/platform/egress/client.ts';
import { EgressFault } from '../../src/platform/base/egress-fault.ts';
import { type EgressFetch, egressFetch } from '../../src/platform/egress/fetch.ts';
import { testCa } from './certificates.ts';
import { type Received, startUpstream, type UpstreamOptions } from './upstream.ts';

export const tenant_id = 'tenant-a';

const closers: (() => Promise<unknown>)[] = [];

/** To be ended by `closeAll`, the last one first. */
export const closeLater = (close: () => Promise<unknown>): void => void closers.push(close);

/** After each test. */
export const closeAll = async (): Promise<void> => {
  for (const close of closers.splice(0).toReversed()) await close();
};

export const delay = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export const until = async (isSo: () => boolean): Promise<void> => {
  const endMs = performance.now() + 5_000;
  while (!isSo()) {
    if (performance.now() > endMs) throw new Error('it did not happen in 5 s');
    await delay(5);
  }
};

/** The code of the fault that it ends with. */
export const faultCode = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
  } catch (error) {
    expect(error).toBeInstanceOf(EgressFault);
    return (error as EgressFault).code;
  }
  return 'none';
};

export type Options = Omit<EgressOptions, 'accounts'> & {
  policy?: Partial<EgressPolicy>;
  addresses?(host: string): string[];
  /** Of tenants, in place of the usual ones. */
  tenantLimits?: Limits;
};

/** An egress to which `upstream.test` is a host of the operator, as it has to be on a loopback address. */
export const openEgress = (
  port: number,
  { policy, addresses = () => ['127.0.0.1'], tenantLimits, ...options }: Options = {},
) => {
  const lookups: string[] = [];
  const accounts = createAccounts(tenantLimits);
  const egress = createEgress(
    {
      allowedHosts: undefined,
      privateHosts: ['upstream.test', 'other.upstream.test'].map((host) => ({ host, port })),
      ports: undefined,
      ownHosts: [],
      ...policy,
    },
    {
      accounts,
      ca: [testCa],
      resolve: async (host) => {
        lookups.push(host);
        return addresses(host);
      },
      ...options,
    },
  );
  closeLater(() => egress.close());
  const url = (path = '/', host = 'upstream.test') => `https://${host}:${port}${path}`;
  const request = (asked: Partial<EgressRequest> = {}) =>
    egress.request({ tenant_id, url: url(), method: 'GET', headers: [], ...asked });
  /** Asks and reads the whole body. */
  const exchange = async (asked: Partial<EgressRequest> = {}) => {
    const answer = await request(asked);
    const pieces: Uint8Array[] = [];
    for await (const piece of answer.body) pieces.push(piece);
    return { ...answer, body: Buffer.concat(pieces) };
  };
  const fetchFrom = async (asked: Partial<EgressFetch> = {}) =>
    egressFetch(
      { egress, accounts },
      {
        tenant_id,
        url: url(),
        method: 'GET',
        headers: [],
        redirect: 'follow',
        bodyBytesMax: 5_000_000,
        ...asked,
      },
    );
  return { egress, accounts, lookups, url, request, exchange, fetchFrom };
};

export const open = async (upstream: UpstreamOptions = {}, options: Options = {}) => {
  const up = await startUpstream(upstream);
  closeLater(() => up.close());
  return { up, ...openEgress(up.port, options) };
};

/** Answers the head of each request with these bytes, whatever they are, and ends. */
export const saying = (bytes: string): UpstreamOptions => ({
  onHead: (request) => void request.socket.end(Buffer.from(bytes, 'latin1')),
  answer: () => {},
});

export const sending =
  (body: Buffer, headers: Record<string, string> = {}) =>
  (_: unknown, response: ServerResponse): void => {
    response.writeHead(200, headers).end(body);
  };

/** In pieces and without its length. */
export const streaming =
  (body: Buffer, headers: Record<string, string> = {}) =>
  (_: unknown, response: ServerResponse): void => {
    response.writeHead(200, headers);
    response.write(body.subarray(0, 1));
    response.end(body.subarray(1));
  };

/** @param server of TCP or TLS. @returns its port. */
export const listen = async (server: Server): Promise<number> => {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeLater(async () => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  });
  return (server.address() as AddressInfo).port;
};

export const headerNames = (received: Received | undefined): string[] =>
  (received?.headers ?? []).map(([name]) => name.toLowerCase());

export const headerOf = (received: Received | undefined, name: string): string | undefined =>
  received?.headers.find(([each]) => each.toLowerCase() === name)?.[1];
