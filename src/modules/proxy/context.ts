// The services that functions of the proxy module need.
import type { ReactorsContext } from '../reactors/context.ts';
import type { ProxyFinder } from './proxy-finder.ts';

export type ProxyContext = ReactorsContext & { readonly proxies: ProxyFinder };
