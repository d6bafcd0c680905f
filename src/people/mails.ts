// Mails of invitations, from the deed that they tell of to the mail server: sealed while they wait, sent at least once,
// tried again until their link is dead. Knows what a mail says, not how mail servers are spoken to.
import type { Context } from '../context.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { ClaimedMail, NewMail } from '../db/mail-outbox.ts';
import type { Mailer } from '../mail/mailer.ts';
import { openText, type SealedPlace, sealText, type Sealing } from '../runtime/sealed.ts';
import { invitationLink, wordInvitation } from './invitation-mail.ts';

/** Sent side by side: one that a server is slow with holds no more than its own place. */
const MAILS_AT_ONCE = 8;
/** Longer than the longest way of a mail: what was claimed and has not come back after this died with its process. */
const LEASE_MS = 120_000;
const RETRY_MS_LEAST = 10_000;
const RETRY_MS_MOST = 15 * 60_000;
/** Whoever invites waits with the invited. */
const LOOK_EVERY_MS = 2_000;
/** A mail that is under way when the server stops has this long. */
const STOP_MS = 5_000;

const placeOf = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'mail',
  id,
  field: 'invitation',
});

/** What is sealed of a mail. */
type InvitationMail = { email: string; secret: string };

/** The mail of an invitation, to be written with it. @param keys the tenant's. */
export const newInvitationMail = (
  ctx: Sealing & Pick<Context, 'newUuid' | 'now'>,
  keys: TenantKeys,
  invitation: {
    tenant_id: string;
    invitation_id: string;
    email: string;
    address_digest: Uint8Array;
    /** What its link ends in. */
    secret: string;
    expires_at: Date;
  },
): NewMail => {
  const { tenant_id, invitation_id, email, address_digest, secret, expires_at } = invitation;
  const id = ctx.newUuid();
  const mail: InvitationMail = { email, secret };
  const sealed = sealText(ctx, keys, placeOf(tenant_id, id), JSON.stringify(mail));
  return { id, invitation_id, address_digest, sealed, expires_at, created_at: ctx.now() };
};

type Sending = Sealing & Pick<Context, 'db' | 'keyring' | 'mailer' | 'now'>;

const retryAt = (now: Date, attempts: number): Date =>
  new Date(now.getTime() + Math.min(RETRY_MS_LEAST * 2 ** Math.min(attempts - 1, 20), RETRY_MS_MOST));

const sendOne = async (ctx: Sending, mailer: Mailer, base_url: string, claimed: ClaimedMail): Promise<void> => {
  const { tenant_id, tenant_name, id, sealed, expires_at } = claimed;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { email, secret } = JSON.parse(openText(ctx, keys, placeOf(tenant_id, id), sealed)) as InvitationMail;
  const link = invitationLink(base_url, secret);
  await mailer.send({ id, to: email, ...wordInvitation({ tenant_name, link, expires_at }) });
};

/** @returns whether it went out. Whatever keeps it from going out today may be gone tomorrow: only its link's end ends it. */
const tryOne = async (ctx: Sending, mailer: Mailer, base_url: string, claimed: ClaimedMail): Promise<boolean> => {
  try {
    await sendOne(ctx, mailer, base_url, claimed);
    // A process that dies before this is done has sent it, and another sends it again.
    await ctx.db.finishMail(claimed);
    return true;
  } catch (error) {
    const { tenant_id, id: mail_id, attempts } = claimed;
    const reply = (error as { reply?: unknown }).reply;
    ctx.log.warn({ error, reply, tenant_id, mail_id, attempts }, 'a mail was not sent; it is tried again');
    // Where even this fails, its lease ends.
    await ctx.db.postponeMail(claimed, retryAt(ctx.now(), attempts)).catch(() => undefined);
    return false;
  }
};

/**
 * Sends what is due, each mail at least once. Safe beside other processes.
 * @param base_url what links begin with, without a slash at its end.
 * @returns how many went out. @throws unavailable.
 */
export const sendDueMails = async (ctx: Sending, base_url: string): Promise<number> => {
  const { mailer } = ctx;
  if (!mailer) return 0;
  for (let sent = 0; ;) {
    const claimed = await ctx.db.claimMails(ctx.now(), LEASE_MS, MAILS_AT_ONCE);
    const results = await Promise.all(claimed.map((mail) => tryOne(ctx, mailer, base_url, mail)));
    const went = results.filter(Boolean).length;
    sent += went;
    // Where none went out the server is down, and is not asked for each of many thousands.
    if (claimed.length < MAILS_AT_ONCE || went === 0) return sent;
  }
};

/** Sends until stopped. @param base_url as for sendDueMails. @returns stop, which waits for what is under way, or cuts it. */
export const startMailing = (ctx: Sending, base_url: string): (() => Promise<void>) => {
  let running: Promise<unknown> | undefined;
  const timer = setInterval(() => {
    // One look at a time: a server that is slow gets no second row of mails.
    running ??= sendDueMails(ctx, base_url)
      .catch((error: unknown) => ctx.log.error({ error }, 'mails were not looked at'))
      .finally(() => (running = undefined));
  }, LOOK_EVERY_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    const cut = setTimeout(() => ctx.mailer?.close(), STOP_MS);
    await running;
    clearTimeout(cut);
  };
};
