// Sends mails in the background: sealed while they wait, at least once, with retries.
import { setTimeout as pause } from 'node:timers/promises';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { noteTampered } from '../../platform/db/signed-rows.ts';
import { openIntact, type SealedPlace, sealText, type Sealing } from '../../platform/keys/sealed-text.ts';
import {
  claimMails,
  countWaitingMails,
  type ClaimedMail,
  finishMail,
  type MailKind,
  type NewMail,
  postponeMail,
} from '../../platform/mail/mail-outbox.ts';
import type { Mailer } from '../../platform/mail/mailer.ts';
import type { PeopleContext } from './context.ts';
import { type MailWords, wordInvitation, wordReset, wordWasReset, wordWebhookPaused } from './mail-texts.ts';

/** Sent concurrently, so that one slow mail does not delay the others. */
const MAILS_AT_ONCE = 8;
/** Longer than sending takes: a mail whose lease ends was claimed by a process that died. */
const LEASE_MS = 120_000;
const RETRY_MS_MIN = 10_000;
const RETRY_MS_MAX = 15 * 60_000;
/** Short, since the inviting and the invited person wait for the mail. */
const POLL_MS = 2_000;
/** A scrape waits so long for the number of waiting mails. */
const COUNT_MS_MAX = 1_000;
/** How long the server waits for mails under way when it stops. */
const STOP_MS = 5_000;

/** The kind is part of it: a writer of the database cannot send the secret of one link as that of another. */
const placeOf = (tenant_id: string, id: string, kind: MailKind): SealedPlace => ({
  tenant_id,
  record: 'mail',
  id,
  field: kind,
});

/** The sealed part of a mail. */
type SealedMail = { email: string; secret: string };

/** A mail that is not written yet. @param keys of the tenant. */
export const newMail = (
  ctx: Sealing & Pick<PeopleContext, 'newUuid' | 'now'>,
  keys: TenantKeys,
  content: Pick<NewMail, 'kind' | 'invitation_id' | 'address_digest' | 'expires_at'> & {
    tenant_id: string;
    email: string;
    /** Secret of its link; the name of a webhook; empty for none. */
    secret: string;
  },
): NewMail => {
  const { tenant_id, email, secret, ...row } = content;
  const id = ctx.newUuid();
  const mail: SealedMail = { email, secret };
  const sealed = sealText(ctx, keys, placeOf(tenant_id, id, row.kind), JSON.stringify(mail));
  return { ...row, id, sealed, created_at: ctx.now() };
};

type Sending = Sealing & Pick<PeopleContext, 'db' | 'keyring' | 'mailer' | 'now' | 'metrics'>;

const retryAt = (now: Date, attempts: number): Date =>
  new Date(now.getTime() + Math.min(RETRY_MS_MIN * 2 ** Math.min(attempts - 1, 20), RETRY_MS_MAX));

const words: Record<MailKind, (mail: Parameters<typeof wordInvitation>[0]) => MailWords> = {
  invitation: wordInvitation,
  password_reset: wordReset,
  password_was_reset: wordWasReset,
  webhook_paused: ({ tenant_name, secret }) => wordWebhookPaused({ tenant_name, name: secret }),
};

/** @returns false, after an alarm, for a mail that was changed in the database: it never opens, and is given up. */
const sendOne = async (ctx: Sending, mailer: Mailer, base_url: string, claimed: ClaimedMail): Promise<boolean> => {
  const { tenant_id, tenant_name, id, kind, sealed, expires_at } = claimed;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const opened = openIntact(ctx, keys, placeOf(tenant_id, id, kind), sealed);
  if (opened === undefined) {
    noteTampered(ctx, { table: 'mail_outbox', tenant_id, row_id: id });
    return false;
  }
  const { email, secret } = JSON.parse(opened) as SealedMail;
  await mailer.send({ id, to: email, ...words[kind]({ tenant_name, base_url, secret, expires_at }) });
  return true;
};

/** Retries after any failure until the link expires. @returns whether the mail was sent. */
const tryOne = async (ctx: Sending, mailer: Mailer, base_url: string, claimed: ClaimedMail): Promise<boolean> => {
  try {
    const isSent = await sendOne(ctx, mailer, base_url, claimed);
    // If this process dies here, another one sends the mail again.
    await finishMail(ctx.db, claimed);
    ctx.metrics.count('strongroom_mails_total', { result: isSent ? 'sent' : 'failed' });
    return isSent;
  } catch (error) {
    ctx.metrics.count('strongroom_mails_total', { result: 'failed' });
    const { tenant_id, id: mail_id, attempts } = claimed;
    const reply = (error as { reply?: unknown }).reply;
    ctx.log.warn({ error, reply, tenant_id, mail_id, attempts }, 'a mail was not sent; it is tried again');
    // If this fails too, the lease ends.
    await postponeMail(ctx.db, claimed, retryAt(ctx.now(), attempts)).catch(() => undefined);
    return false;
  }
};

/**
 * Sends the mails that are due, each at least once. Safe beside other processes.
 * @param base_url of links, without a slash at its end.
 * @returns how many were sent. @throws unavailable.
 */
export const sendDueMails = async (ctx: Sending, base_url: string): Promise<number> => {
  const { mailer } = ctx;
  if (!mailer) return 0;
  for (let sent = 0; ;) {
    const claimed = await claimMails(ctx.db, ctx.now(), LEASE_MS, MAILS_AT_ONCE);
    const results = await Promise.all(claimed.map((mail) => tryOne(ctx, mailer, base_url, mail)));
    const succeeded = results.filter(Boolean).length;
    sent += succeeded;
    // If none succeeded, the mail server is down: do not try each of thousands.
    if (claimed.length < MAILS_AT_ONCE || succeeded === 0) return sent;
  }
};

/**
 * Sends until stopped. @param base_url as for sendDueMails. @param waits how often it looks for due mails, and how long it waits for
 * those under way when it stops. @returns stop.
 */
export const startMailing = (
  ctx: Sending,
  base_url: string,
  { pollMs, stopMs } = { pollMs: POLL_MS, stopMs: STOP_MS },
): (() => Promise<void>) => {
  if (ctx.mailer) {
    for (const result of ['sent', 'failed']) ctx.metrics.count('strongroom_mails_total', { result }, 0);
    ctx.metrics.read('strongroom_mails_waiting', async () => {
      // A database that is slow or away must not hold up the other figures.
      const late = pause(COUNT_MS_MAX, undefined, { ref: false });
      const count = await Promise.race([countWaitingMails(ctx.db, ctx.now()).catch(() => undefined), late]);
      return count === undefined ? [] : [[{}, count]];
    });
  }
  let running: Promise<unknown> | undefined;
  const timer = setInterval(() => {
    // One run at a time: a slow mail server gets no second batch.
    running ??= sendDueMails(ctx, base_url)
      .catch((error: unknown) => ctx.log.error({ error }, 'due mails could not be read'))
      .finally(() => (running = undefined));
  }, pollMs);
  timer.unref();
  return async () => {
    clearInterval(timer);
    const cut = setTimeout(() => ctx.mailer?.close(), stopMs);
    await running;
    clearTimeout(cut);
  };
};
