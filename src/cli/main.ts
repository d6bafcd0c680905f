// The door of the operator's command line: finds the right Node, as the server's does.
import { isHandedOver } from '../node-24.ts';

if (!isHandedOver()) await import('./commands.ts');
