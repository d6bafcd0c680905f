// One TLS connection to one checked address: the address is asserted before a byte is sent, certificate and name before
// the caller has the socket. Looks nothing up.
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
import { isSameAddress } from './address.ts';
import { EgressFault, type EgressFaultCode } from './fault.ts';

export type Target = { address: string; port: number; host: string };

/** What we show a destination that asks who we are: PEM, the chain and its key. */
export type ClientCertificate = { certificate: string; private_key: string };

/** @throws EgressFault TLS for a certificate that cannot be used. */
export type Trust = (clientCertificate: ClientCertificate | undefined) => SecureContext;

/** Without Diffie-Hellman over a prime of the destination's own choosing: one of 10,000 bits stops this process for a second. */
const CIPHERS = `${DEFAULT_CIPHERS}:!DHE`;

/** Some 30 KB each. Beyond, the one that has not been used for longest is made again when it is needed. */
const CONTEXTS_MAX = 128;

/** How long a key stays in memory for its next connection. */
const CONTEXT_MS = 60_000;

/**
 * Whom we trust, and as whom. One context serves all connections that show no certificate; those that show one share
 * theirs for a while. With one for each connection, 12,000 connections hold 240 MB before they are collected.
 * @param ca in place of the system's trusted certificates.
 */
export const createTrust = (ca?: string[]): Trust => {
  const options: SecureContextOptions = { ca, minVersion: 'TLSv1.2', ciphers: CIPHERS };
  const anonymous = createSecureContext(options);
  const known = new LRUCache<string, SecureContext>({ max: CONTEXTS_MAX, ttl: CONTEXT_MS, ttlAutopurge: true });
  return (clientCertificate) => {
    if (clientCertificate === undefined) return anonymous;
    // By its texts: whoever has them may have what is made of them.
    const key = JSON.stringify([clientCertificate.certificate, clientCertificate.private_key]);
    const context = known.get(key) ?? createContext(options, clientCertificate);
    known.set(key, context);
    return context;
  };
};

const createContext = (options: SecureContextOptions, clientCertificate: ClientCertificate): SecureContext => {
  const { certificate, private_key } = clientCertificate;
  try {
    // Of an empty text Node makes a context without a certificate.
    if (certificate !== '' && private_key !== '') {
      return createSecureContext({ ...options, cert: certificate, key: private_key });
    }
  } catch {
    // What is wrong with a key is nobody's to read, not even in our log.
  }
  throw new EgressFault('TLS', { sentence: 'The client certificate or its key cannot be used.' });
};

/** @throws EgressFault CONNECT, TLS, or the signal's reason; no socket is left behind. */
export const openSocket = async (target: Target, trust: SecureContext, signal: AbortSignal): Promise<TLSSocket> => {
  const plain = connectTcp({ host: target.address, port: target.port, noDelay: true, keepAlive: true });
  await settled(plain, 'connect', 'CONNECT', signal);
  // An address is connected to as it stands, and yet: what a socket says of itself is the last word.
  if (!isSameAddress(plain.remoteAddress, target.address)) {
    plain.destroy();
    throw new EgressFault('CONNECT');
  }
  const socket = connectTls({
    socket: plain,
    servername: target.host,
    secureContext: trust,
    // Said outright: the default can be switched off by the environment.
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
  });
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
  // Stays on for the life of the socket: between two owners an error must not be without a listener.
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
