// What Node would refuse by an answer without a face. One Host for a request (RFC 9112 section 3.2): where there are two,
// whoever stands before us may have acted on the other. No expectation but 100-continue (RFC 9110 section 10.1.1).
import { AppError, fieldErrors, invalidInput } from '../errors.ts';
import type { App } from './app-type.ts';

const isHost = (name: string): boolean => name.length === 4 && name.toLowerCase() === 'host';

export const requireOneHost = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const { rawHeaders, httpVersion } = request.raw;
    let hosts = 0;
    for (let at = 0; at < rawHeaders.length; at += 2) if (isHost(rawHeaders[at] as string)) hosts += 1;
    if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return done();
    reply.header('connection', 'close');
    return done(invalidInput(fieldErrors([['', 'the request must have one Host header']])));
  });
};

/** As Node recognises it, and answers to it, before the request gets here. */
const canContinue = /(?:^|\W)100-continue(?:$|\W)/i;

export const refuseExpectations = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const { expect } = request.headers;
    if (expect === undefined || canContinue.test(expect) || request.raw.httpVersion === '1.0') return done();
    reply.header('connection', 'close');
    return done(new AppError('expectation_failed', 'Nothing but 100-continue may be expected.'));
  });
};
