// Registers the pages of the console. Each page is a client of the public API under the member's role.
import type { PeopleContext } from '../people/context.ts';
import { notFound } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import type { Authentication } from '../access/authenticate.ts';
import { accessPages } from './access.ts';
import { accountPages, passwordPages } from './account.ts';
import { applicationsPages } from './applications.ts';
import { findPages } from './find.ts';
import { forwardsPages } from './forwards.ts';
import { formulasPages } from './formulas.ts';
import { homePages } from './home.ts';
import { logsPages } from './logs.ts';
import { passwordResetPages, signInPages } from './sign-in.ts';
import { peoplePages } from './people.ts';
import { proxiesPages } from './proxies.ts';
import { reactorsPages } from './reactors.ts';
import { runsPages } from './runs.ts';
import { secondFactorPages } from './second-factor.ts';
import { settingsPages } from './settings.ts';
import { HOME_PATH } from './shell.ts';
import { ssoPages, ssoSettingsPages } from './sso.ts';
import { tokensPages } from './tokens.ts';
import { usagePages } from './usage.ts';
import { webhooksPages } from './webhooks.ts';
import { openConsole } from './visit.ts';

/** @param scope for pages (platform/http/pages.ts). */
export const consoleRoutes = (scope: App, ctx: PeopleContext, authentication: Authentication): void => {
  const console = openConsole(scope, ctx, authentication);
  signInPages(scope, console);
  passwordResetPages(scope, ctx);
  secondFactorPages(console);
  ssoPages(scope, console);
  console.get('/console', async () => ({ seeOther: HOME_PATH }));
  homePages(console);
  findPages(console);
  usagePages(console);
  tokensPages(console);
  reactorsPages(console);
  formulasPages(console);
  proxiesPages(console);
  webhooksPages(console);
  runsPages(console);
  forwardsPages(console);
  applicationsPages(console);
  accessPages(console);
  logsPages(console);
  peoplePages(console);
  settingsPages(console);
  passwordPages(console);
  accountPages(console);
  ssoSettingsPages(console);
  // An unknown URL gets an error page too.
  console.get('/console/*', async () => {
    throw notFound('page');
  });
};
