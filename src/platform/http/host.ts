// Checks Host, Expect and absolute request targets, and refuses with a problem document. A request has one Host header
// (RFC 9112 section 3.2): of two, a proxy in front of the server may have used the other one.
import type { IncomingMessage } from 'node:http';
import type { Platform } from '../services/platform.ts';
import { AppError, invalidField } from '../base/errors.ts';
import { coversHost, hostOf } from '../base/host-names.ts';
import type { App } from './app-type.ts';

const isHost = (name: string): boolean => name.length === 4 && name.toLowerCase() === 'host';

export const requireOneHost = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const { rawHeaders, httpVersion } = request.raw;
    let hosts = 0;
    for (let at = 0; at < rawHeaders.length; at += 2) if (isHost(rawHeaders[at] as string)) hosts += 1;
    if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return done();
    reply.header('connection', 'close');
    return done(invalidField('headers.host', 'the request must have one Host header'));
  });
};

/** As Node recognises it: it sends the 100 before the request gets here. */
const canContinue = /(?:^|\W)100-continue(?:$|\W)/i;

export const refuseExpectations = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const { expect } = request.headers;
    if (expect === undefined || canContinue.test(expect) || request.raw.httpVersion === '1.0') return done();
    reply.header('connection', 'close');
    return done(new AppError('expectation_failed', 'The header Expect must be 100-continue.'));
  });
};

/** A target in absolute form (RFC 9112 section 3.2.2). */
const absoluteForm = /^https?:\/\/([^/?#]*)([^]*)$/i;

/**
 * Serves a target in absolute form as its path, if its authority is this server: equal to the Host header, and a name of
 * PUBLIC_URL or PUBLIC_HOSTS or the address and port that the client connected to. The server forwards to other hosts under
 * /proxy only, and never by the target of a request.
 */
export const serveAbsoluteTargets = (app: App, { config }: Pick<Platform, 'config'>): void => {
  const authorities = new WeakMap<IncomingMessage, string>();
  // Before the router, which removes any authority without a check.
  app.server.prependListener('request', (raw: IncomingMessage) => {
    const target = raw.url ?? '';
    const [, authority, rest = ''] = target.startsWith('/') ? [] : (absoluteForm.exec(target) ?? []);
    if (authority === undefined) return;
    authorities.set(raw, authority.toLowerCase());
    raw.url = rest.startsWith('/') ? rest : `/${rest}`;
  });
  const isOurs = ({ headers, socket }: IncomingMessage, authority: string): boolean => {
    if (authority !== headers.host?.toLowerCase()) return false;
    const host = hostOf(authority);
    if (config.egress.ownHosts.some((own) => own.toLowerCase() === host || (host !== '' && coversHost(own, host))))
      return true;
    // A socket for IPv4 and IPv6 has IPv4 addresses in this form.
    const address = socket.localAddress?.replace(/^::ffff:/, '');
    return authority.endsWith(`:${socket.localPort}`) && (host === address || host === 'localhost');
  };
  app.addHook('onRequest', (request, reply, done) => {
    const authority = authorities.get(request.raw);
    if (authority === undefined || isOurs(request.raw, authority)) return done();
    reply.header('connection', 'close');
    return done(invalidField('path', 'must be a path, or a URL of this server and of its Host header'));
  });
};
