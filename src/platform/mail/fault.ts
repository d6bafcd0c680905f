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

export type MailFaultCode = keyof typeof sentenceOf;

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
export const faultOf = (error: unknown): MailFault => {
  const { code, responseCode, syscall, path } = (error ?? {}) as Record<string, unknown>;
  const reply = typeof responseCode === 'number' ? responseCode : undefined;
  // The server refuses STARTTLS.
  if (code === 'ETLS' && reply !== undefined) return new MailFault('NO_TLS', reply);
  if (typeof syscall === 'string' && typeof path === 'string') return new MailFault('FILE');
  // Errors of the system have a syscall; others are errors of a certificate.
  if (code === 'ESOCKET') return new MailFault(typeof syscall === 'string' ? 'CONNECT' : 'TLS', reply);
  return new MailFault(codeOf.get(code) ?? 'RESET', reply);
};
