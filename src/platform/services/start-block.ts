// The text on the terminal when a development server starts: URLs, the first API key (once), and a curl command.
import { dirname, join, relative, resolve } from 'node:path';
import { type Config, consoleUrlOf } from '../config/config.ts';
import type { Platform } from './platform.ts';
import type { Sensitive } from '../crypto/sensitive.ts';
import { version } from '../base/version.ts';
import { IS_IMAGE, PROGRAM } from '../base/program.ts';

const shown = (path: string): string => {
  const near = relative(process.cwd(), path);
  return near.startsWith('..') ? path : `./${near}`;
};

const tryIt = (base_url: string): string => `
  Try it:

      curl ${base_url}/tokenize -H "SVC-API-KEY: $SVC_API_KEY" \\
        -H 'Content-Type: application/json' \\
        -d '{"card":{"type":"card","data":{"number":"4242424242424242","expiration_month":12,"expiration_year":2030,"cvc":"123"}},"note":"hello"}'
`;

const shownKey = (credentials: string, apiKey: Sensitive<string>): string => `
  Your API key (tenant "Development", all permissions). ${IS_IMAGE ? 'In' : 'Shown once; also in'} ${credentials} (0600):

      export SVC_API_KEY=${apiKey.reveal()}
`;

/** What puts the key in a command. The file with the key alone is beside the credentials. */
const readKeyFile = (credentials: string): string => `$(cat '${join(dirname(credentials), 'dev-api-key')}')`;

const laterKey = (credentials: string): string => `
  Your API key is in ${credentials} (0600). Another one: ${PROGRAM} api-keys create

      export SVC_API_KEY=${readKeyFile(credentials)}
`;

const docsLines = (base_url: string): string => `  ├─ API reference  ${base_url}/docs        (try it in the browser)
  ├─ Guides         ${base_url}/guides
  ├─ OpenAPI 3.1    ${base_url}/openapi.json
`;

/** With the command that invites the first member. */
const consoleLine = (base_url: string): string =>
  `  ├─ Console        ${base_url}/console    (to join: ${PROGRAM} owner invite --email you@example.com)\n`;

/** Destination of mails, and so of the links of invitations. */
const mailbox = ({ mail }: Config): string => {
  if (!mail) return 'none';
  return mail.kind === 'files'
    ? `${shown(mail.directory)}        (mails are written there)`
    : `${mail.host}:${mail.port}`;
};

/** What the text on a terminal says, as fields of one log line: where there is no terminal, lines must stay JSON. Without the key. */
export const startFields = (ctx: Platform, base_url: string): Record<string, string> => {
  const credentials = resolve(ctx.config.dataDir, 'dev-credentials.json');
  return {
    credentials,
    mailbox: mailbox(ctx.config).replace(/ {2,}.*/, ''),
    ...(ctx.config.console && {
      console_url: `${consoleUrlOf(ctx.config, base_url)}/console`,
      console_invite: `${PROGRAM} owner invite --email you@example.com`,
    }),
    curl: `curl ${base_url}/tokenize -H "SVC-API-KEY: ${readKeyFile(credentials)}" -H 'Content-Type: application/json' -d '{"note":"hello"}'`,
  };
};

/** @param apiKey the key, where it is to be shown: at the first start, and at each start of a container. */
export const startBlock = (ctx: Platform, base_url: string, apiKey: Sensitive<string> | undefined): string => {
  const dataDir = shown(ctx.config.dataDir);
  const credentials = `${dataDir}/dev-credentials.json`;
  const { applied, total } = ctx.migrations;
  const migrated =
    applied.length > 0
      ? `${applied.length} ${applied.length === 1 ? 'migration' : 'migrations'} applied`
      : `${total} migrations, up to date`;
  const database = ctx.embedded
    ? `postgresql 18, started in ${dataDir}/pg (${migrated})`
    : `DATABASE_URL (${migrated})`;
  return `
  Strongroom ${version}   development mode - data in ${dataDir}, keys generated for you. Do not use with real cards.

  ├─ API            ${base_url}
${ctx.config.docs ? docsLines(base_url) : ''}${ctx.config.console ? consoleLine(consoleUrlOf(ctx.config, base_url)) : ''}  ├─ Mailbox        ${mailbox(ctx.config)}
  └─ Database       ${database}
${apiKey ? shownKey(credentials, apiKey) : laterKey(credentials)}${tryIt(base_url)}
  Next: README.md.${IS_IMAGE ? '' : '    ^C to stop'}

`;
};
