// Reads the destination that `npm run echo` starts beside a development server: a port of localhost and its certificate.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

/** Egress of a development server. In production there is none of it. */
export type DevelopmentEgress = {
  /** Names the destination of `npm run echo`. Undefined unless the server listens on loopback only, or in a container of its own. */
  echoFile: string | undefined;
};

/** Reached at `localhost`. Its certificate, in PEM, is the only one that it may present. */
export type DevDestination = { port: number; certificate: string };

const content = z.object({ port: z.int().min(1).max(65_535), certificate: z.string().max(20_000) });

export const echoFileIn = (dataDir: string): string => join(dataDir, 'echo.json');

/** Read at each use, so that the destination may start after the server. Undefined if it was never started. */
export const readDevDestination = ({ echoFile }: DevelopmentEgress): DevDestination | undefined => {
  if (echoFile === undefined) return undefined;
  try {
    return content.parse(JSON.parse(readFileSync(echoFile, 'utf8')));
  } catch {
    return undefined;
  }
};

/** What a refusal of a local destination says in addition, in development. */
export const LOCAL_HINT =
  'To reach a server of your own network, start the vault with EGRESS_PRIVATE_HOSTS=name:port, and with NODE_EXTRA_CA_CERTS=file if its certificate is of your own authority: it needs https and a host name such as localhost. For a trial there is the echo server of docs/guides/proxy.md.';

/**
 * Names that public DNS does not have (RFC 6761, 6762, 8375, ICANN resolution 2024.07.29.06 for `internal`, and those that it withholds),
 * and names without a dot. Only an operator can mean one of them.
 */
export const isLocalName = (host: string): boolean =>
  !host.includes('.') || /\.(?:localhost|local|internal|lan|home|home\.arpa|intranet|corp)$/.test(host);
