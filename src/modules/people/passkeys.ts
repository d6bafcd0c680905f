// Passkeys as a second factor: added after the password, and used at sign-in and before sensitive operations.
import { PASSKEY_ADDED, PASSKEY_CLONED, PASSKEY_USED } from '../../platform/db/audit-record.ts';
import { attemptDigest, sessionDigest } from '../../platform/crypto/digest.ts';
import { newUuid } from '../../platform/crypto/ids.ts';
import {
  CHALLENGE_MS,
  type ChallengeOf,
  creationOptions,
  expiryOfChallenge,
  isCounterBack,
  loadPackage,
  newChallenge,
  parseCreatedAnswer,
  parseUsedAnswer,
  type PasskeyPlace,
  requestOptions,
  verifyCreated,
  verifyUsed,
} from '../../platform/crypto/passkey.ts';
import { unprocessable } from '../../platform/base/errors.ts';
import { addAttempt } from '../access/rows/attempts.ts';
import { NO_APP, readDevices } from './devices.ts';
import { type ListedPasskey, sealPasskey } from './passkey-records.ts';
import { deletePasskeysExcept, hasPasskeys, insertPasskey, updatePasskey, updateSecondFactor } from './rows/devices.ts';
import {
  beginDevices,
  type Changing,
  changingUser,
  isOwnPassword,
  markSession,
  rememberFactorPlace,
  userOf,
  type Visitor,
} from './second-factor.ts';
import { recordFailedSignIn } from './sign-in.ts';

/** Passkeys of a user: a phone, a laptop, security keys and their spares. The options of a sign-in name them all. */
export const PASSKEYS_MAX = 10;

/** A few words: it tells the passkeys of one person apart. */
export const PASSKEY_NAME_LENGTH_MAX = 60;

/** Clocks of processes differ: a challenge that was used is remembered for so long after its end. */
const CLOCKS_DIFFER_MS = 5 * 60_000;

/** @returns the problem of a name, as a sentence. */
export const passkeyNameProblem = (name: string): string | undefined => {
  if (name === '') return 'Enter a name.';
  if (/\p{C}/u.test(name)) return 'Use visible characters only.';
  return Array.from(name).length > PASSKEY_NAME_LENGTH_MAX
    ? `Use ${PASSKEY_NAME_LENGTH_MAX} characters at most.`
    : undefined;
};

/** Before a server listens: the package of passkeys holds the event loop for half a second while it loads. */
export const preparePasskeys = async ({ config, db }: Pick<Changing, 'config' | 'db'>): Promise<void> => {
  if (config.console && (await hasPasskeys(db))) await loadPackage();
};

const challengeOf = (ctx: Changing, { secret }: Visitor, purpose: ChallengeOf['purpose']): ChallengeOf => ({
  session: sessionDigest(ctx.pepper, secret),
  purpose,
});

/** Uses a challenge up, in all processes. @returns false where it has expired, was used, or is of another session or purpose. */
const useChallenge = async (
  ctx: Changing,
  visitor: Visitor,
  purpose: ChallengeOf['purpose'],
  challenge: string,
): Promise<boolean> => {
  const expiry = expiryOfChallenge(ctx, challengeOf(ctx, visitor, purpose), Buffer.from(challenge, 'base64url'));
  if (!expiry) return false;
  const digest = attemptDigest(ctx.pepper, 'passkey_challenge', challenge);
  const kept_until = new Date(expiry.getTime() + CLOCKS_DIFFER_MS);
  return (await addAttempt(ctx.db, digest, ctx.now(), kept_until)).failures === 1;
};

const usable = (passkeys: readonly ListedPasskey[], { rp_id }: PasskeyPlace): ListedPasskey[] =>
  passkeys.filter((passkey) => passkey.rp_id === rp_id);

/**
 * Options to create a passkey, as JSON for the browser.
 * @returns undefined for a wrong password. @throws too_many_requests; unprocessable where the user has as many as possible.
 */
export const offerPasskey = async (
  ctx: Changing,
  visitor: Visitor,
  place: PasskeyPlace,
  password: string,
): Promise<string | undefined> => {
  const { session } = visitor;
  if (!(await isOwnPassword(ctx, visitor, password))) return undefined;
  const { passkeys } = await readDevices(ctx, session);
  refuseMore(passkeys);
  const asking = {
    place,
    challenge: newChallenge(ctx, challengeOf(ctx, visitor, 'create')),
    timeoutMs: CHALLENGE_MS,
    passkeys: usable(passkeys, place),
  };
  const displayName = `${session.first_name} ${session.last_name}`.trim();
  const id = Buffer.from(session.user_id.replaceAll('-', ''), 'hex');
  return creationOptions(asking, { id, name: session.email, displayName });
};

const refuseMore = (passkeys: readonly ListedPasskey[]): void => {
  if (passkeys.length >= PASSKEYS_MAX)
    throw unprocessable(`You have ${PASSKEYS_MAX} passkeys, as many as possible. Remove one first.`);
};

/** `late`: the challenge is not, or no more, one of this session. */
type Refused = 'late' | 'refused';

/**
 * Logs a refusal, and counts nothing: a signature cannot be guessed, and a limit would let an attacker who has the password keep the
 * owner of the passkey out.
 */
const recordingFailure = async <T>(
  ctx: Changing,
  visitor: Visitor,
  attempt: () => Promise<T>,
  isRight: (result: T) => boolean,
): Promise<T> => {
  const result = await attempt();
  if (isRight(result)) await rememberFactorPlace(ctx, visitor);
  else recordFailedSignIn(ctx, visitor.session.email, visitor.origin);
  return result;
};

/**
 * Adds a passkey. The first device gets recovery codes, and the other sessions of the user then ask for a second factor too.
 * @returns the recovery codes, to be shown once, none where there is another device.
 * @throws unprocessable where the user has as many as possible.
 */
export const addPasskey = (
  ctx: Changing,
  visitor: Visitor,
  place: PasskeyPlace,
  { name, answer: text }: { name: string; answer: string },
): Promise<string[] | Refused> =>
  recordingFailure<string[] | Refused>(
    ctx,
    visitor,
    async () => {
      const answer = parseCreatedAnswer(text);
      if (!answer) return 'refused';
      if (!(await useChallenge(ctx, visitor, 'create', answer.challenge))) return 'late';
      const created = await verifyCreated(place, answer);
      if (!created) return 'refused';
      const { user_id } = visitor.session;
      const added = await changingUser(ctx, userOf(visitor), async (tx, { factor, passkeys, log }) => {
        refuseMore(passkeys);
        if (passkeys.some(({ credential_id }) => credential_id === created.credential_id)) return undefined;
        // Rows that do not count any more.
        await deletePasskeysExcept(
          tx,
          user_id,
          passkeys.map(({ id }) => id),
        );
        const first = factor.second_factor_since ? undefined : beginDevices(ctx, user_id);
        const since = first?.since ?? (factor.second_factor_since as Date);
        // An app that is being set up is none yet.
        if (first)
          await updateSecondFactor(tx, user_id, {
            ...NO_APP,
            second_factor_since: since,
            recovery_digests: first.recovery_digests,
          });
        const passkey = { ...created, id: newUuid(), name, rp_id: place.rp_id };
        const sealed = sealPasskey(ctx, { user_id, since }, passkey);
        await insertPasskey(tx, { id: passkey.id, user_id, sealed, created_at: ctx.now() });
        await markSession(ctx, tx, visitor);
        await log(PASSKEY_ADDED);
        return first?.recoveryCodes ?? [];
      });
      return added ?? 'refused';
    },
    (result) => typeof result !== 'string',
  );

/** Options to use a passkey, as JSON for the browser. @returns undefined where the user has none that works at this place. */
export const askForPasskey = async (
  ctx: Changing,
  visitor: Visitor,
  place: PasskeyPlace | undefined,
  passkeys: readonly ListedPasskey[],
): Promise<string | undefined> => {
  const listed = place ? usable(passkeys, place) : [];
  if (!place || listed.length === 0) return undefined;
  const challenge = newChallenge(ctx, challengeOf(ctx, visitor, 'use'));
  return requestOptions({ place, challenge, timeoutMs: CHALLENGE_MS, passkeys: listed });
};

/**
 * Takes a passkey for a session, in place of a code. `cloned`: its counter went back, so that it exists twice.
 * @throws too_many_requests.
 */
export const givePasskey = (
  ctx: Changing,
  visitor: Visitor,
  place: PasskeyPlace,
  text: string,
): Promise<'given' | 'cloned' | Refused> =>
  recordingFailure<'given' | 'cloned' | Refused>(
    ctx,
    visitor,
    async () => {
      const answer = parseUsedAnswer(text);
      if (!answer) return 'refused';
      if (!(await useChallenge(ctx, visitor, 'use', answer.challenge))) return 'late';
      await loadPackage();
      const { user_id } = visitor.session;
      const given = await changingUser(ctx, userOf(visitor), async (tx, { factor, passkeys, log }) => {
        const passkey = usable(passkeys, place).find(({ credential_id }) => credential_id === answer.id);
        const counter = passkey && (await verifyUsed(place, passkey, answer));
        if (!passkey || counter === undefined) return 'refused';
        if (isCounterBack(passkey.counter, counter)) {
          ctx.log.error(
            { alarm: 'passkey_cloned', record: 'passkey', record_id: passkey.id },
            'a passkey exists twice',
          );
          await log(PASSKEY_CLONED);
          return 'cloned';
        }
        const since = factor.second_factor_since as Date;
        const sealed = sealPasskey(ctx, { user_id, since }, { ...passkey, counter });
        await updatePasskey(tx, passkey.id, { sealed, used_at: ctx.now() });
        await markSession(ctx, tx, visitor);
        await log(PASSKEY_USED);
        return 'given';
      });
      return given ?? 'refused';
    },
    (result) => result === 'given',
  );
