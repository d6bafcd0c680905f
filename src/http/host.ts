// One Host for a request (RFC 9112 section 3.2): where there are two, whoever stands before us may have acted on the other.
// Node would refuse one without as well, by an answer without a face.
import { fieldErrors, invalidInput } from '../errors.ts';
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
