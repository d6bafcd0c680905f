// The door of the server: finds the right Node first. What needs it is imported behind that, for modules that are imported
// beside each other are all evaluated, whichever of them waits.
import { isHandedOver } from './node-24.ts';

if (!isHandedOver()) await import('./server.ts');
