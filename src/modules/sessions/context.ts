// The services that functions of the sessions module need.
import type { TokensContext } from '../tokens/context.ts';

export type SessionsContext = TokensContext;
