// The way of a mail out of the house: one recipient, over SMTP with TLS, or into a file that a developer opens. The only
// home of nodemailer. Knows neither what a mail says nor whether it is tried again.
import { access, constants, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SendMailOptions } from 'nodemailer';
import type { Log } from '../log.ts';
import { faultOf } from './fault.ts';

/** How mails go out, and from whom. */
export type MailWay = { from: { name: string; address: string } } & (
  | {
      kind: 'smtp';
      host: string;
      port: number;
      /** TLS from the first byte. */
      secure: boolean;
      /** TLS by STARTTLS, or nothing is sent. Where neither is set, there is no TLS. */
      requireTls: boolean;
      user: string | undefined;
      password: string | undefined;
    }
  | { kind: 'files'; directory: string }
);

export type Mail = {
  /** The same mail, sent again, has the same id: a mailbox that looks for it shows it once. */
  id: string;
  /** One address, as RFC 5321 has it. */
  to: string;
  subject: string;
  text: string;
  html: string;
};

export type Mailer = {
  /** Resolves once somebody else has the mail and answers for it. @throws MailFault. */
  send(mail: Mail): Promise<void>;
  /** Whether mails would go out, without one. @throws MailFault. */
  check(): Promise<void>;
  /** Cuts what is under way. What comes later is refused. */
  close(): void;
};

/** From the look-up of its name to a server's greeting (security.md I7: slow is as good as down). */
const CONNECT_TIMEOUT_MS = 10_000;
const GREETING_TIMEOUT_MS = 10_000;
/** Between two answers. Servers that look into a mail before they take it need some seconds. */
const SILENCE_TIMEOUT_MS = 30_000;
/** A mail in all: a server that says a word now and then is slow too. */
export const SEND_MS_MAX = 60_000;

/** Mails of ours that lie in the directory of a development server. */
const FILES_MAX = 500;
const FILE_NAME = /^\d{8}T\d{9}Z-[0-9a-f-]{36}\.eml(?:\.new)?$/;

/** Addresses go in as objects: what stands in one is never read as a list, nor as a name. */
const messageOf = (from: MailWay['from'], { id, to, subject, text, html }: Mail): SendMailOptions => {
  const recipient = { name: '', address: to };
  return {
    from,
    to: recipient,
    envelope: { from: { name: '', address: from.address }, to: recipient },
    messageId: `<${id}@${from.address.slice(from.address.lastIndexOf('@') + 1)}>`,
    subject,
    text,
    html,
    // RFC 3834: nobody's notice of absence answers it.
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  };
};

/** Loaded with the first mail: most processes send none, and to load it takes a tenth of a second. */
const loadNodemailer = () => import('nodemailer');

/** `ca` are authorities in place of the system's, in PEM; `now` names the files of mails. */
type Surroundings = { ca?: string[] | undefined; log: Log; now: () => Date };

const createSmtpMailer = (config: MailWay & { kind: 'smtp' }, ca: string[] | undefined): Mailer => {
  const { host, port, secure, requireTls, user, password } = config;
  const options = {
    host,
    port,
    secure,
    requireTLS: requireTls,
    // Where it need not be, it is not half: a server with a certificate of nobody's could not be used at all.
    ignoreTLS: !secure && !requireTls,
    ...(user === undefined ? {} : { auth: { user, pass: password ?? '' } }),
    // Said aloud, so that nothing in the environment says otherwise.
    tls: { minVersion: 'TLSv1.2' as const, rejectUnauthorized: true, ...(ca ? { ca } : {}) },
    dnsTimeout: CONNECT_TIMEOUT_MS,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    greetingTimeout: GREETING_TIMEOUT_MS,
    socketTimeout: SILENCE_TIMEOUT_MS,
    // A mail server on this very machine is a mail server too.
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

/** The oldest beyond the bound go. */
const removeOldFiles = async (directory: string): Promise<void> => {
  const ours = (await readdir(directory)).filter((name) => FILE_NAME.test(name)).toSorted();
  for (const name of ours.slice(0, -FILES_MAX)) await rm(join(directory, name), { force: true });
};

const createFileMailer = ({ directory, from }: MailWay & { kind: 'files' }, { log, now }: Surroundings): Mailer => {
  return {
    async send(mail) {
      const path = join(directory, `${now().toISOString().replace(/[-:.]/g, '')}-${mail.id}.eml`);
      try {
        const { createTransport } = await loadNodemailer();
        const transport = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });
        const { message } = await transport.sendMail(messageOf(from, mail));
        await mkdir(directory, { recursive: true, mode: 0o700 });
        // Beside its name first: whoever looks into the mailbox sees no half of a mail.
        await writeFile(`${path}.new`, message, { mode: 0o600, flush: true });
        await rename(`${path}.new`, path);
        await removeOldFiles(directory);
      } catch (error) {
        throw faultOf(error);
      }
      log.info({ path }, 'a mail was written');
    },
    async check() {
      // With a slash it must be a directory.
      await access(`${directory}/`, constants.W_OK).catch((error: NodeJS.ErrnoException) => {
        // It is made with the first mail.
        if (error.code !== 'ENOENT') throw faultOf(error);
      });
    },
    close: () => undefined,
  };
};

/** Connects with each mail, not before. */
export const createMailer = (config: MailWay, surroundings: Surroundings): Mailer =>
  config.kind === 'smtp' ? createSmtpMailer(config, surroundings.ca) : createFileMailer(config, surroundings);
