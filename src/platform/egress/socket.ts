// Opens a TLS connection to one checked address. Verifies the peer address before sending a byte, then certificate and
// name. Does not resolve names.
import { connect as connectTcp, type Socket } from 'node:net';
import {
  connect as connectTls,
  createSecureContext,
  DEFAULT_CIPHERS,
  type SecureContext,
  type SecureContextOptions,
  type TLSSocket,
} from 'node:tls';
import { LRUCache } from 'lru-cache';
import { findOperation, payForNative } from '../base/event-loop.ts';
import { isSameAddress } from './address.ts';
import { EgressFault, type EgressFaultCode } from '../base/egress-fault.ts';

export type Target = { address: string; port: number; host: string };

/** A client certificate chain and its private key, in PEM. */
export type ClientCertificate = { certificate: string; private_key: string };

/** @throws EgressFault TLS for a certificate that cannot be used. */
export type Trust = (clientCertificate: ClientCertificate | undefined) => SecureContext;

/** No DHE: the destination chooses the prime, and one of 10,000 bits blocks the event loop for a second. */
const CIPHERS = `${DEFAULT_CIPHERS}:!DHE`;

/** About 30 KB each. The least recently used one is evicted and created again when needed. */
const CONTEXTS_MAX = 128;

/** How long a client key stays in memory for its next connection. */
const CONTEXT_MS = 60_000;

/**
 * Creates TLS contexts. All connections without a client certificate share one; those with one share one for each
 * certificate. With a context for each connection, 12,000 connections hold 240 MB before they are collected.
 * @param ca replaces the system's trusted certificates.
 */
export const createTrust = (ca?: string[]): Trust => {
  const options: SecureContextOptions = { ca, minVersion: 'TLSv1.2', ciphers: CIPHERS };
  const anonymous = createSecureContext(options);
  const known = new LRUCache<string, SecureContext>({ max: CONTEXTS_MAX, ttl: CONTEXT_MS, ttlAutopurge: true });
  return (clientCertificate) => {
    if (clientCertificate === undefined) return anonymous;
    // The key is part of the cache key, so only a caller that has it gets its context.
    const key = JSON.stringify([clientCertificate.certificate, clientCertificate.private_key]);
    const context = known.get(key) ?? createContext(options, clientCertificate);
    known.set(key, context);
    return context;
  };
};

const createContext = (options: SecureContextOptions, clientCertificate: ClientCertificate): SecureContext => {
  const { certificate, private_key } = clientCertificate;
  try {
    // For an empty text Node creates a context without a certificate.
    if (certificate !== '' && private_key !== '') {
      return createSecureContext({ ...options, cert: certificate, key: private_key });
    }
  } catch {
    // The cause is dropped: an error about a private key must not reach the log.
  }
  throw new EgressFault('TLS', { sentence: 'The client certificate or its key cannot be used.' });
};

/** @throws EgressFault CONNECT, TLS, or the signal's reason; no socket is left behind. */
export const openSocket = async (target: Target, trust: SecureContext, signal: AbortSignal): Promise<TLSSocket> => {
  const plain = connectTcp({ host: target.address, port: target.port, noDelay: true, keepAlive: true });
  await settled(plain, 'connect', 'CONNECT', signal);
  // Defence in depth: check the address that the socket is connected to, not the one that was asked for.
  if (!isSameAddress(plain.remoteAddress, target.address)) {
    plain.destroy();
    throw new EgressFault('CONNECT');
  }
  const operation = findOperation();
  const socket = connectTls({
    socket: plain,
    servername: target.host,
    secureContext: trust,
    // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED could change the default.
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
  });
  // A handshake takes a millisecond or two, and as many more as the certificate of the destination makes it take.
  const pay = (): void => payForNative(operation);
  socket.once('secureConnect', pay).once('error', pay);
  await settled(socket, 'secureConnect', 'TLS', signal);
  return socket;
};

const settled = async (
  socket: Socket,
  event: 'connect' | 'secureConnect',
  code: EgressFaultCode,
  signal: AbortSignal,
): Promise<void> => {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const abort = () => reject(signal.reason);
  const fail = (cause?: unknown) => reject(new EgressFault(code, { cause }));
  socket.once(event, resolve);
  // Stays for the life of the socket: an error between two users of it must have a listener.
  socket.on('error', fail);
  socket.once('close', () => fail());
  signal.addEventListener('abort', abort);
  try {
    if (signal.aborted) abort();
    await promise;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
};
