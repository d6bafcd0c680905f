// Sends Connection: close with every response while the server drains, so that clients leave their connections.
import { ServerResponse } from 'node:http';
import type { Platform } from '../services/platform.ts';

/** A response for `http.createServer`. Every response passes `writeHead`, also of a request that began before the drain. */
export const closingResponse = (draining: Platform['draining']): typeof ServerResponse =>
  class extends ServerResponse {
    override writeHead(...head: unknown[]): this {
      if (draining.isOn && !this.headersSent) this.setHeader('connection', 'close');
      return Reflect.apply(super.writeHead, this, head);
    }
  } as typeof ServerResponse;
