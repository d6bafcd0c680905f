// One TLS connection to one checked address: the address is asserted before a byte is sent, certificate and name before
// the caller has the socket. Looks nothing up.
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import { isSameAddress } from './address.ts';
import { EgressFault, type EgressFaultCode } from './fault.ts';

export type Target = { address: string; port: number; host: string };

/** @param ca in place of the system's trusted certificates. One context serves all connections: making one is slow. */
export const createTrust = (ca?: string[]): SecureContext => createSecureContext({ ca, minVersion: 'TLSv1.2' });

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
