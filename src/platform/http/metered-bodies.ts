// Meters the bodies of requests as the HTTP parser hands them over: joins small chunks and refuses too many of them.
import { IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { type Accounts, anonymousAccount } from '../base/accounts.ts';
import { mark, Operation, within } from '../base/event-loop.ts';
import { ChunkJoiner } from '../base/small-chunks.ts';
import type { App } from './app-type.ts';
import { accountOf } from './connections.ts';

/** The code of the error for `clientError`. platform/http/problems.ts has its response. */
export const TOO_MANY_CHUNKS = 'TOO_MANY_CHUNKS';

/**
 * The parser takes so much at once. It cannot be stopped within, and a read of 64 KB has 10,900 chunks of one byte: 10 to 20 ms.
 * Each piece of a larger body is a call of the parser more; this is the size of a TLS record, in which bodies are sent on.
 */
const PARSED_BYTES_MAX = 16_384;

/** The classes for `http.createServer`. @param findServer called when a body is refused. */
export const meterBodies = (
  accounts: Accounts,
  findServer: () => Server,
  Response: typeof ServerResponse,
): { IncomingMessage: typeof IncomingMessage; ServerResponse: typeof ServerResponse } => ({
  IncomingMessage: class extends IncomingMessage {
    #joiner: ChunkJoiner | undefined;
    #isInDebt = false;

    /** Node calls this for each chunk, and with null at the end. The result is not needed: `take` pauses the socket. */
    override push(chunk: Uint8Array | null): boolean {
      if (chunk === null) {
        this.#joiner?.flush();
        return this.#take(null);
      }
      this.#joiner ??= this.#createJoiner();
      this.#joiner.push(chunk);
      return true;
    }

    /** The stream calls this when its reader wants more. It resumes the socket. */
    // oxlint-disable-next-line no-underscore-dangle -- the name is Node's
    override _read(bytes: number): void {
      // oxlint-disable-next-line no-underscore-dangle
      if (!this.#isInDebt) super._read(bytes);
    }

    /** What arrives after the headers is read as part of the operation. */
    #take(piece: Uint8Array | null): boolean {
      const operation = operationOf.get(this);
      if (piece) operation?.addBytes(piece.byteLength);
      return operation ? within(operation, () => super.push(piece)) : super.push(piece);
    }

    #createJoiner(): ChunkJoiner {
      return new ChunkJoiner(accounts, {
        account: () => {
          const request = requestOf.get(this);
          return request ? accountOf(request) : anonymousAccount(this.socket.remoteAddress ?? '');
        },
        take: (piece) => {
          if (!this.#take(piece)) this.socket.pause();
        },
        pause: () => {
          this.#isInDebt = true;
          this.socket.pause();
        },
        resume: () => {
          this.#isInDebt = false;
          if (!this.complete) this.socket.resume();
        },
        refuse: () => {
          findServer().emit('clientError', Object.assign(new Error(), { code: TOO_MANY_CHUNKS }), this.socket);
        },
      });
    }
  },
  ServerResponse: class extends Response {
    /** A body that is not read by now is discarded. Node would do that too, but without the meter. */
    override writeHead(...head: unknown[]): this {
      if (!this.req.complete && this.req.readableFlowing === null) this.req.resume();
      return Reflect.apply(super.writeHead, this, head);
    }
  } as typeof ServerResponse,
});

/** Requests and operations by the message of Node. */
const requestOf = new WeakMap<IncomingMessage, FastifyRequest>();
const operationOf = new WeakMap<IncomingMessage, Operation>();

/** What reads of a connection belong to: its last request, as nothing is known of the next one. Holds no request. */
const lastOn = new WeakMap<Socket, Operation>();

/** Bytes of the connection are of this operation from now on, and of its account until the next request is known. */
export const nameReads = ({ raw }: FastifyRequest, operation: Operation, accounts: Pick<Accounts, 'budgets'>): void => {
  if (!raw.complete) operationOf.set(raw, operation);
  const { account } = operation;
  if (lastOn.get(raw.socket)?.account !== account)
    lastOn.set(raw.socket, new Operation('', () => account, '', accounts.budgets));
};

/** Adds a hook that remembers who pays for a body. A body that has arrived by then has no further chunks. */
export const chargeBodies = (app: App): void => {
  app.addHook('onRequest', (request, _reply, done) => {
    mark(lastOn.get(request.raw.socket));
    if (!request.raw.complete) requestOf.set(request.raw, request);
    done();
  });
};

/**
 * Hands the reads of a connection to the parser in parts, so that a refusal stops it: without a listener for `data`, Node parses
 * reads where no program can stop it. The first read of an address in debt waits: a client that was refused connects again.
 */
export const parseInParts = (server: Server, accounts: Pick<Accounts, 'whenPaid'>): void => {
  server.on('connection', (socket: Socket) => {
    const [parse, ...others] = socket.listeners('data') as ((read: Buffer) => void)[];
    if (!parse || others.length > 0) return;
    const parseParts = (read: Buffer): void => {
      mark(lastOn.get(socket));
      for (let at = 0; at < read.byteLength && socket.writable; at += PARSED_BYTES_MAX)
        parse(read.subarray(at, at + PARSED_BYTES_MAX));
    };
    socket.removeListener('data', parse);
    socket.once('data', (read: Buffer) => {
      socket.on('data', parseParts);
      const paid = accounts.whenPaid(anonymousAccount(socket.remoteAddress ?? ''));
      if (!paid) return parseParts(read);
      socket.pause();
      void paid.then(() => {
        parseParts(read);
        socket.resume();
      });
    });
  });
};
