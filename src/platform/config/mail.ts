// Variables of the mail server.
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { asciiMailDomain } from '../base/host-names.ts';
import { percentDecoded } from './forms.ts';

const isSmtpUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, search, hash, pathname, username, password } = new URL(text);
  return (
    /^smtps?:$/.test(protocol) &&
    /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])$/.test(hostname) &&
    search + hash === '' &&
    ['', '/'].includes(pathname) &&
    // A user needs a password and the other way round.
    (username === '') === (password === '') &&
    [username, password].every((part) => percentDecoded(part) !== undefined)
  );
};

/** An address alone, or after a name: bare words, or anything in quotes (RFC 5322 section 3.4). */
const MAIL_FROM_FORM = /^(?:(?:"((?:[^"\\\p{Cc}]|\\[^\p{Cc}])*)"|([^"<>,;:\\\p{Cc}]*))\s*<([^<>]*)>|([^<>]*))$/u;
const MAIL_FROM_ADDRESS = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9.-]{1,253}$/;

const mailFrom = z.string().transform((text, problems) => {
  const [, quoted, bare = '', bracketed, alone] = MAIL_FROM_FORM.exec(text.trim()) ?? [];
  const given = bracketed ?? alone ?? '';
  const at = given.lastIndexOf('@') + 1;
  const address = given.slice(0, at) + (asciiMailDomain(given.slice(at)) ?? '');
  const name = (quoted?.replace(/\\(.)/gu, '$1') ?? bare).trim();
  if (MAIL_FROM_ADDRESS.test(address)) return { name, address };
  problems.addIssue(
    'must be one address, such as vault@example.com or Strongroom <vault@example.com>; a name with a comma in quotes; ASCII before the @',
  );
  return z.NEVER;
});

/** How mails are delivered. */
export type MailConfig = { from: { name: string; address: string } } & (
  | {
      kind: 'smtp';
      host: string;
      port: number;
      /** TLS from the first byte. */
      secure: boolean;
      /** Requires STARTTLS. If neither is set, mails are sent without TLS. */
      requireTls: boolean;
      user: string | undefined;
      password: string | undefined;
    }
  | { kind: 'files'; directory: string }
);

const MAIL_FROM_DEVELOPMENT = { name: 'Strongroom', address: 'strongroom@localhost' };

export const mailVariables = {
  SMTP_URL: z
    .string()
    .refine(
      isSmtpUrl,
      'must be like smtp://user:password@host:587, or smtps:// for TLS from the first byte; user and password percent-encoded',
    )
    .optional()
    .describe('The mail server. Not set: a development server writes mails to DATA_DIR/outbox, another sends none.'),
  SMTP_TLS: z
    .enum(['required', 'off'])
    .default('required')
    .describe('`off` sends mails, and the links in them, to an smtp:// server in the clear.'),
  MAIL_FROM: mailFrom
    .optional()
    .describe('Sender of mails, such as `Strongroom <vault@example.com>`. Needed with SMTP_URL.'),
};

export const mailOf = (
  values: z.infer<z.ZodObject<typeof mailVariables>> & { DATA_DIR: string },
  mode: 'development' | 'production',
): MailConfig | undefined => {
  const from = values.MAIL_FROM ?? MAIL_FROM_DEVELOPMENT;
  if (values.SMTP_URL === undefined)
    return mode === 'development'
      ? { kind: 'files', directory: join(resolve(values.DATA_DIR), 'outbox'), from }
      : undefined;
  const { protocol, hostname, port, username, password } = new URL(values.SMTP_URL);
  const secure = protocol === 'smtps:';
  return {
    kind: 'smtp',
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (secure ? 465 : 587) : Number(port),
    secure,
    requireTls: !secure && values.SMTP_TLS === 'required',
    user: username === '' ? undefined : percentDecoded(username),
    password: password === '' ? undefined : percentDecoded(password),
    from,
  };
};
