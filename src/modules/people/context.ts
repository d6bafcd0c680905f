// The services that functions of the people module take.
import type { Passwords } from '../../platform/crypto/password.ts';
import type { ProxyContext } from '../proxy/context.ts';
import type { SessionFinder } from './sessions.ts';
import type { ProviderClients } from './sso/provider-client.ts';

export type PeopleContext = ProxyContext & {
  readonly passwords: Passwords;
  readonly sessions: SessionFinder;
  readonly providers: ProviderClients;
};
