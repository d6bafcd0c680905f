// The services that functions of the people module take.
import type { ProxyContext } from '../proxy/context.ts';
import type { SessionFinder } from './sessions.ts';
import type { ProviderClients } from './sso/provider-client.ts';

export type PeopleContext = ProxyContext & { readonly sessions: SessionFinder; readonly providers: ProviderClients };
