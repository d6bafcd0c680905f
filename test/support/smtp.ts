// A real mail server on loopback that keeps mails, and can be down, slow or refusing.
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer } from 'smtp-server';
import { type Certificate, certificateFor, testCa } from './certificates.ts';

export type ReceivedMail = {
  /** Of the envelope. */
  from: string;
  to: string[];
  subject: string;
  text: string;
  html: string;
  /** Everything else, parsed. */
  parsed: Email;
  raw: string;
  /** Whether it came over TLS, and of which version. */
  tls: string | undefined;
  user: string | undefined;
};

/**
 * take: as it should. later: 451 to each recipient. never: 550. silent: takes the connection and says nothing. deaf: says
 * nothing from the mail's end on, and has taken it. gone: closes each connection.
 */
export type SmtpMode = 'take' | 'later' | 'never' | 'silent' | 'deaf' | 'gone';

export type TestSmtp = Awaited<ReturnType<typeof startSmtp>>;

const replied = (responseCode: number, words: string) => Object.assign(new Error(words), { responseCode });

/**
 * @param options.tls how TLS begins; `starttls` unless said otherwise.
 * @param options.port to come back where it was. @param options.login what it asks for.
 */
export const startSmtp = async (
  options: {
    tls?: 'starttls' | 'first' | 'none';
    certificate?: Certificate;
    maxVersion?: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3';
    login?: { user: string; password: string };
    port?: number;
  } = {},
) => {
  const { tls = 'starttls', certificate = certificateFor('localhost'), login } = options;
  const mails: ReceivedMail[] = [];
  /** As they came, in RCPT TO, of mails that were not taken too: the server's own reading of an address is its own matter. */
  const recipients: string[] = [];
  const hear = (_entry: unknown, _mark: string, line: unknown): void => {
    const [, address] = /^RCPT TO:<(.*)>/is.exec(String(line)) ?? [];
    if (address !== undefined) recipients.push(address);
  };
  const ignore = (): void => undefined;
  let mode: SmtpMode = 'take';
  let connections = 0;
  const server = new SMTPServer({
    secure: tls === 'first',
    ...certificate,
    ...(options.maxVersion ? { minVersion: options.maxVersion, maxVersion: options.maxVersion } : {}),
    ...(options.maxVersion === 'TLSv1.1' ? { ciphers: 'DEFAULT@SECLEVEL=0' } : {}),
    hideSTARTTLS: tls !== 'starttls',
    disabledCommands: [...(tls === 'starttls' ? [] : ['STARTTLS']), ...(login ? [] : ['AUTH'])],
    authOptional: login === undefined,
    disableReverseLookup: true,
    logger: { level: ignore, trace: ignore, debug: hear, info: ignore, warn: ignore, error: ignore, fatal: ignore },
    closeTimeout: 1,
    onConnect(_session, answer) {
      connections += 1;
      if (mode === 'gone') answer(replied(421, 'gone'));
      else if (mode !== 'silent') answer();
    },
    onAuth({ username, password }, _session, answer) {
      if (username === login?.user && password === login?.password) answer(null, { user: username });
      else answer(replied(535, `no such user: ${username}`));
    },
    onRcptTo({ address }, _session, answer) {
      if (mode === 'later') answer(replied(451, `${address}: come again`));
      else if (mode === 'never') answer(replied(550, `${address}: no such mailbox\n    at ${address}`));
      else answer();
    },
    onData(stream, session, answer) {
      void text(stream).then(async (raw) => {
        const parsed = await PostalMime.parse(raw);
        const { mailFrom, rcptTo } = session.envelope;
        mails.push({
          from: mailFrom ? mailFrom.address : '',
          to: rcptTo.map(({ address }) => address),
          subject: parsed.subject ?? '',
          text: parsed.text ?? '',
          html: parsed.html ?? '',
          parsed,
          raw,
          tls: session.tlsOptions ? session.tlsOptions.version : undefined,
          user: session.user,
        });
        if (mode !== 'deaf') answer();
      });
    },
  });
  // What a client breaks off is the client's.
  server.on('error', () => undefined);
  const listening = server.listen(options.port ?? 0, '127.0.0.1');
  await new Promise((resolve) => listening.once('listening', resolve));
  const { port } = listening.address() as AddressInfo;
  const credentials = login ? `${encodeURIComponent(login.user)}:${encodeURIComponent(login.password)}@` : '';
  return {
    /** What SMTP_URL is set to. */
    url: `${tls === 'first' ? 'smtps' : 'smtp'}://${credentials}localhost:${port}`,
    port,
    /** Whom a server must trust: `startServer({ SMTP_URL: smtp.url }, { ca: smtp.ca })`. */
    ca: [testCa],
    mails,
    recipients,
    connections: () => connections,
    behave: (next: SmtpMode) => void (mode = next),
    close: () => new Promise<void>((resolve) => server.close(resolve)),
  };
};
