// The entry point of the command line: switches to the right Node version first.
import { isHandedOver } from '../platform/node-24.ts';

if (!isHandedOver()) await import('./commands.ts');
