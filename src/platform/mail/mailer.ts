// Sends one mail to one recipient with nodemailer: over SMTP with TLS, or into a file for developers.
import { access, constants, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SendMailOptions } from 'nodemailer';
import type { MailConfig } from '../config/mail.ts';
import type { Log } from '../base/log.ts';

// Errors of sending mail: a closed list of codes, each with a sentence for the operator.

/** The reply of a server is not part of a sentence: it often repeats the address. */
const sentenceOf = {
  NAME: 'The name of the mail server is not found. Check the host in SMTP_URL.',
  CONNECT: 'The mail server cannot be reached. Check that it runs, and host and port in SMTP_URL.',
  TIMEOUT:
    'The mail server does not answer in time. Check host and port in SMTP_URL, and that a firewall lets it through.',
  NO_TLS:
    'The mail server offers no TLS. Use one that does; SMTP_TLS=off sends mails, and the links in them, in the clear.',
  TLS: 'No secure connection to the mail server can be made. Its certificate must be valid for the host in SMTP_URL (an authority of your own: NODE_EXTRA_CA_CERTS). smtps:// is TLS from the first byte, smtp:// is STARTTLS.',
  AUTH: 'The mail server refuses user and password. Check both in SMTP_URL, percent-encoded.',
  REFUSED: 'The mail server refuses the mail. Its log says why; often MAIL_FROM is not a sender that it takes.',
  PROTOCOL: 'What answers at SMTP_URL does not speak SMTP. smtps:// is TLS from the first byte, smtp:// is STARTTLS.',
  RESET: 'The mail server closed the connection.',
  CUT: 'The mail took too long, or the server is stopping.',
  FILE: 'The mail cannot be written to the outbox. Make DATA_DIR writable.',
} as const;

type MailFaultCode = keyof typeof sentenceOf;

export class MailFault extends Error {
  override readonly name = 'MailFault';
  readonly code: MailFaultCode;
  /** The SMTP reply code. Below 500 the server may accept the mail later; undefined where there was no reply. */
  readonly reply: number | undefined;

  constructor(code: MailFaultCode, reply?: number) {
    super(sentenceOf[code]);
    this.code = code;
    this.reply = reply;
  }
}

const codeOf = new Map<unknown, MailFaultCode>([
  ['EDNS', 'NAME'],
  ['ETIMEDOUT', 'TIMEOUT'],
  ['ETLS', 'TLS'],
  ['EAUTH', 'AUTH'],
  ['ENOAUTH', 'AUTH'],
  ['EENVELOPE', 'REFUSED'],
  ['EMESSAGE', 'REFUSED'],
  ['EPROTOCOL', 'PROTOCOL'],
  ['EABORT', 'CUT'],
  ['ECONNECTION', 'RESET'],
]);

/** The code of any error of nodemailer or the file system. */
const faultOf = (error: unknown): MailFault => {
  const { code, responseCode, syscall, path } = (error ?? {}) as Record<string, unknown>;
  const reply = typeof responseCode === 'number' ? responseCode : undefined;
  // The server refuses STARTTLS.
  if (code === 'ETLS' && reply !== undefined) return new MailFault('NO_TLS', reply);
  if (typeof syscall === 'string' && typeof path === 'string') return new MailFault('FILE');
  // Errors of the system have a syscall; others are errors of a certificate.
  if (code === 'ESOCKET') return new MailFault(typeof syscall === 'string' ? 'CONNECT' : 'TLS', reply);
  return new MailFault(codeOf.get(code) ?? 'RESET', reply);
};

export type Mail = {
  /** One id for all attempts to send the same mail, so that mail programs can show it once. */
  id: string;
  /** One address of RFC 5321. */
  to: string;
  subject: string;
  text: string;
  html: string;
};

export type Mailer = {
  /** Resolves once the mail server has accepted the mail, or the file is on disk. @throws MailFault. */
  send(mail: Mail): Promise<void>;
  /** Whether mails could be sent, without sending one. @throws MailFault. */
  check(): Promise<void>;
  /** Aborts mails under way, and refuses later ones. */
  close(): void;
};

/** How long a mail server may take. */
export type MailTimeouts = {
  /** For the name look-up, and for the connection. */
  connectMs: number;
  greetingMs: number;
  /** Between two replies. Servers that scan a mail before they accept it need some seconds. */
  silenceMs: number;
};

const mailTimeouts: MailTimeouts = { connectMs: 10_000, greetingMs: 10_000, silenceMs: 30_000 };
/** For a whole mail, from a server that replies but is slow. */
export const SEND_MS_MAX = 60_000;

/** Mails kept in the directory of a development server. */
const FILES_MAX = 500;
const FILE_NAME = /^\d{8}T\d{9}Z-[0-9a-f-]{36}\.eml(?:\.new)?$/;

/** Addresses are objects, so that nodemailer does not parse one as a list or a display name. */
const messageOf = (from: MailConfig['from'], { id, to, subject, text, html }: Mail): SendMailOptions => {
  const recipient = { name: '', address: to };
  return {
    from,
    to: recipient,
    envelope: { from: { name: '', address: from.address }, to: recipient },
    messageId: `<${id}@${from.address.slice(from.address.lastIndexOf('@') + 1)}>`,
    subject,
    text,
    html,
    // RFC 3834: no automatic replies.
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  };
};

/** Loaded with the first mail: most processes send none, and loading takes 100 ms. */
const loadNodemailer = () => import('nodemailer');

/** `ca` are authorities in place of the system's, in PEM; `timeouts` replace the usual ones; `now` names the files of mails. */
type Surroundings = {
  ca?: string[] | undefined;
  timeouts?: Partial<MailTimeouts> | undefined;
  log: Log;
  now: () => Date;
};

const createSmtpMailer = (config: MailConfig & { kind: 'smtp' }, { ca, timeouts }: Surroundings): Mailer => {
  const { host, port, secure, requireTls, user, password } = config;
  const { connectMs, greetingMs, silenceMs } = { ...mailTimeouts, ...timeouts };
  const options = {
    host,
    port,
    secure,
    requireTLS: requireTls,
    // Without required TLS there is none: a server with a certificate that cannot be verified is usable then.
    ignoreTLS: !secure && !requireTls,
    ...(user === undefined ? {} : { auth: { user, pass: password ?? '' } }),
    // Explicit, so that no environment variable changes it.
    tls: { minVersion: 'TLSv1.2' as const, rejectUnauthorized: true, ...(ca ? { ca } : {}) },
    dnsTimeout: connectMs,
    connectionTimeout: connectMs,
    greetingTimeout: greetingMs,
    socketTimeout: silenceMs,
    // The mail server may run on the same machine.
    allowInternalNetworkInterfaces: true,
  };
  const connect = async () => (await loadNodemailer()).createTransport(options);
  let connecting: ReturnType<typeof connect> | undefined;
  const open = () => (connecting ??= connect());
  const closing = new AbortController();
  return {
    async send(mail) {
      const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(SEND_MS_MAX)]);
      try {
        await (await open()).sendMail({ ...messageOf(config.from, mail), signal });
      } catch (error) {
        throw faultOf(error);
      }
    },
    async check() {
      try {
        await (await open()).verify();
      } catch (error) {
        throw faultOf(error);
      }
    },
    close() {
      closing.abort();
      void connecting?.then((transport) => transport.close());
    },
  };
};

/** Removes the oldest beyond the limit. */
const removeOldFiles = async (directory: string): Promise<void> => {
  const ours = (await readdir(directory)).filter((name) => FILE_NAME.test(name)).toSorted();
  for (const name of ours.slice(0, -FILES_MAX)) await rm(join(directory, name), { force: true });
};

const createFileMailer = ({ directory, from }: MailConfig & { kind: 'files' }, { log, now }: Surroundings): Mailer => {
  return {
    async send(mail) {
      const path = join(directory, `${now().toISOString().replace(/[-:.]/g, '')}-${mail.id}.eml`);
      try {
        const { createTransport } = await loadNodemailer();
        const transport = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });
        const { message } = await transport.sendMail(messageOf(from, mail));
        await mkdir(directory, { recursive: true, mode: 0o700 });
        // Renamed when complete, so that readers of the directory see whole mails only.
        await writeFile(`${path}.new`, message, { mode: 0o600, flush: true });
        await rename(`${path}.new`, path);
        await removeOldFiles(directory);
      } catch (error) {
        throw faultOf(error);
      }
      log.info({ path }, 'a mail was written');
    },
    async check() {
      // The slash requires a directory.
      await access(`${directory}/`, constants.W_OK).catch((error: NodeJS.ErrnoException) => {
        // The first mail creates it.
        if (error.code !== 'ENOENT') throw faultOf(error);
      });
    },
    close: () => undefined,
  };
};

/** Connects with each mail only. */
export const createMailer = (config: MailConfig, surroundings: Surroundings): Mailer =>
  config.kind === 'smtp' ? createSmtpMailer(config, surroundings) : createFileMailer(config, surroundings);
