// The console: its pages in reading order. Each is a plain client of the public API under the member's role.
import type { Context } from '../../context.ts';
import { notFound } from '../../errors.ts';
import type { App } from '../../http/app-type.ts';
import type { Authentication } from '../../http/authenticate.ts';
import { createActorNames } from './actor-names.ts';
import { logsPages } from './logs.ts';
import { passwordPages } from './password.ts';
import { peoplePages } from './people.ts';
import { proxiesPages } from './proxies.ts';
import { reactorsPages } from './reactors.ts';
import { signInPages } from './sign-in.ts';
import { tokensPages } from './tokens.ts';
import { openConsole } from './visit.ts';

/** @param scope of pages (http/pages.ts). */
export const consoleRoutes = (scope: App, ctx: Context, authentication: Authentication): void => {
  const console = openConsole(scope, ctx, authentication);
  signInPages(scope, console);
  console.get('/console', async () => ({ seeOther: '/console/tokens' }));
  const namesOf = createActorNames();
  tokensPages(console, namesOf);
  reactorsPages(console);
  proxiesPages(console, namesOf);
  logsPages(console, namesOf);
  peoplePages(console);
  passwordPages(console);
  // An address that leads nowhere is told as a page too.
  console.get('/console/*', async () => {
    throw notFound('page');
  });
};
