// The entry point of the server: switches to the right Node version first.
// A dynamic import, because static imports would be evaluated before the check.
import { ignoreSignalsInWorker, isHandedOver } from './platform/base/node-24.ts';

ignoreSignalsInWorker();
if (!isHandedOver()) await import('./server.ts');
