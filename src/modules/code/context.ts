// The context of the code module: that of tokens, and the service calls of running code.
import type { Account } from '../../platform/base/accounts.ts';
import type { Work } from '../access/work.ts';
import type { Call } from '../../platform/sandbox/protocol/sandbox.ts';
import type { TokensContext } from '../tokens/context.ts';
import type { EchoGuard } from '../tokens/echo/echo-guard.ts';
import type { OpenedTexts } from '../tokens/expressions/opened-texts.ts';

/** State of a run for its requests by `svc.proxy`: depth below a request, allowlists, and the token values that it has seen. */
export type Nesting = {
  depth: number;
  allowLists: readonly (readonly string[])[];
  opened?: OpenedTexts;
  /** Searches the answer to the request for what it and its code have opened. */
  guard?: EchoGuard | undefined;
  /** When the time of the run that sent the request is over, by `performance.now()`. */
  endsAtMs?: number;
  /** Account whose shares the run uses, if it is not the tenant's: that of an anonymous client of an open proxy. */
  account?: Account | undefined;
};

/** Forwards a request of `svc.proxy`. @throws AppError or CallFault. */
export type ForwardForCode = (application: Work, call: Call, nesting: Nesting) => Promise<unknown>;

export type CodeContext = TokensContext & {
  /** Calls of running code that later modules answer. Each module sets its own. */
  readonly serviceCalls: { forward: ForwardForCode };
};
