// A request that comes back to the vault it left from: each one is marked on its way out (RFC 8586), and one that bears our
// mark goes no further. Our own public names are refused before (PUBLIC_HOSTS); this is for the names that nobody told us.
import type { Context } from '../context.ts';
import type { Headers } from '../egress/headers.ts';
import { badRequest } from '../errors.ts';

const HEADER = 'cdn-loop';

/** All processes of a vault have one mark; other vaults have others, and may follow one another. */
const markOf = ({ loop_id }: Pick<Context, 'loop_id'>): string => `strongroom; id=${loop_id}`;

/** @throws badRequest. */
export const refuseLoop = (ctx: Pick<Context, 'loop_id'>, headers: Headers): void => {
  const mark = markOf(ctx);
  for (const [name, value] of headers)
    if (name.toLowerCase() === HEADER && value.split(',').some((each) => each.trim() === mark))
      throw badRequest('The request came back to where it was sent from.');
};

/** The header that whatever leaves this vault on a tenant's behalf bears. */
export const loopMark = (ctx: Pick<Context, 'loop_id'>): [name: string, value: string] => ['CDN-Loop', markOf(ctx)];
