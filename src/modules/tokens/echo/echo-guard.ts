// The echo guard of one request: collects the values that it opens, searches its answer for them, and raises the alarm.
// How it finds them is in docs/decisions/0125-echo-guard.md.
import { type EchoMode, strictestOf } from '../../access/echo-mode.ts';
import type { NoteOpened } from '../../access/work.ts';
import { type Account, type Accounts, FREE_BYTES, type Reservation } from '../../../platform/base/accounts.ts';
import { EgressFault } from '../../../platform/base/egress-fault.ts';
import { AppError } from '../../../platform/base/errors.ts';
import type { Json } from '../../../platform/json/json.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import type { Platform } from '../../../platform/services/platform.ts';
import type { EchoPlace } from './echo-output.ts';
import { ECHO_BYTES_MAX, readEchoTexts } from './echo-patterns.ts';
import { createEchoScanner, createEchoSearch, type EchoSearch } from './echo-scanner.ts';
import { DAY_MS } from '../../../platform/base/times.ts';
import { takeLease } from '../../../platform/db/leases.ts';

type GuardContext = Alarming & Pick<Platform, 'accounts'>;

/** Memory of the automaton for one byte of a value: 13 nodes of its spellings. */
const SEARCH_BYTES_PER_BYTE = 400;

export type EchoGuard = {
  readonly mode: EchoMode;
  /** A proxy or an application that the request reaches may be stricter. */
  tighten(mode: EchoMode | undefined): void;
  noteOpened: NoteOpened;
  /**
   * What to look for, now that all is opened; undefined for nothing, also where the guard is off.
   * @param reservations get the memory of the search. @throws bad_gateway where more was opened than a guard looks for.
   */
  search(account: Account, reservations: Pick<Reservation, 'release'>[]): Promise<EchoSearch | undefined>;
  /** Does the same as `search`, also if the guard is off: for what is stored of an answer. */
  searchStored(account: Account, reservations: Pick<Reservation, 'release'>[]): Promise<EchoSearch | undefined>;
  /** Counts values that were found. */
  report(guarded: Guarded, echoes: number): void;
};

/** @param mode of what is known when the request comes. */
export const createEchoGuard = (ctx: GuardContext, mode: EchoMode): EchoGuard => {
  const opened: [id: string, data: Json][] = [];
  let strictest = mode;
  let search: Promise<EchoSearch | undefined> | undefined;
  const searchStored: EchoGuard['searchStored'] = (account, reservations) =>
    (search ??= makeSearch(ctx, account, opened, reservations));
  return {
    searchStored,
    get mode() {
      return strictest;
    },
    tighten: (other) => {
      strictest = strictestOf([strictest, other]) as EchoMode;
    },
    noteOpened: (id, data) => void opened.push([id, data]),
    search: (account, reservations) =>
      strictest === 'off' ? Promise.resolve(undefined) : searchStored(account, reservations),
    report: (guarded, echoes) => {
      if (echoes === 0) return;
      ctx.metrics.count('strongroom_echoes_total', { mode: strictest }, echoes);
      void alarmOncePerDay(ctx, guarded);
    },
  };
};

const makeSearch = async (
  { accounts }: Pick<GuardContext, 'accounts'>,
  account: Account,
  opened: readonly (readonly [id: string, data: Json])[],
  reservations: Pick<Reservation, 'release'>[],
): Promise<EchoSearch | undefined> => {
  const texts = await accounts.runInTurns(account, readEchoTexts(opened));
  if (texts.bytes > ECHO_BYTES_MAX) throw tooManyValues();
  const bytes = texts.bytes * SEARCH_BYTES_PER_BYTE;
  if (bytes > FREE_BYTES) reservations.push(accounts.reserve(account, 'response_bytes', bytes));
  return accounts.runInTurns(account, createEchoSearch(texts));
};

/** @returns undefined for a guard that is off where nothing can make it stricter. */
export const guardOf = (ctx: GuardContext, mode: EchoMode, runsCode: boolean): EchoGuard | undefined =>
  mode === 'off' && !runsCode ? undefined : createEchoGuard(ctx, mode);

const tooManyValues = (): AppError =>
  new AppError(
    'bad_gateway',
    `The request opened more than ${ECHO_BYTES_MAX / 1024} KB of values: its answer cannot be searched for all of them. Use fewer or smaller tokens in one request.`,
  );

export const echoFault = (): EgressFault => new EgressFault('ECHO');

/** There from the start: an alert compares with what was before. */
export const countNoEchoes = ({ metrics }: Pick<Platform, 'metrics'>): void => {
  for (const mode of ['mask', 'block']) metrics.count('strongroom_echoes_total', { mode }, 0);
};

/** Searches a text that is there as a whole. @returns it with masks, and how many. */
export function* searchText(
  search: EchoSearch,
  text: Buffer,
  { place, prefix }: { place: EchoPlace; prefix?: string },
): Slices<{ bytes: Buffer; echoes: number }> {
  const scanner = createEchoScanner(search, place, prefix);
  const parts = yield* scanner.push(text);
  parts.push(...scanner.end());
  const { echoes } = scanner;
  return { bytes: echoes === 0 ? text : Buffer.concat(parts), echoes };
}

/** Searches the sentences of a problem. @throws echoFault where one holds a value. */
export const refuseEchoIn = async (
  { accounts }: { accounts: Accounts },
  account: Account,
  search: EchoSearch,
  error: unknown,
): Promise<void> => {
  if (!(error instanceof AppError)) return;
  const text = Buffer.from(JSON.stringify([error.message, error.fieldErrors ?? []]));
  const { echoes } = await accounts.runInTurns(account, searchText(search, text, { place: 'text' }));
  if (echoes > 0) throw echoFault();
};

// Raises the alarm `echo` once for each proxy or reactor and day, by one of the processes on a database.

type Alarming = Pick<Platform, 'db' | 'log' | 'metrics' | 'now' | 'newUuid'>;

/** Record whose answer is guarded, for the alarm. */
export type Guarded = { tenant_id: string; record: 'proxy' | 'reactor'; record_id: string | undefined };

/** A lease for each alarm that was raised. The sweep deletes those that have ended. */
export const ECHO_RAISED = 'echo-alarm ';

type Known = { day: number; ids: Set<string> };

/** Alarms of a day that this process has seen: it asks the database once for each. More of them ask again. */
const KNOWN_MAX = 10_000;

const knownOf = new WeakMap<Alarming['db'], Known>();

const isKnown = ({ db }: Alarming, day: number, id: string): boolean => {
  const before = knownOf.get(db);
  const known = before?.day === day && before.ids.size < KNOWN_MAX ? before : { day, ids: new Set<string>() };
  knownOf.set(db, known);
  const isSeen = known.ids.has(id);
  known.ids.add(id);
  return isSeen;
};

/** Raises the alarm also if the database does not answer: rather twice than never. Never rejects. */
const alarmOncePerDay = async (ctx: Alarming, { tenant_id, record, record_id }: Guarded): Promise<void> => {
  const day = Math.floor(ctx.now().getTime() / DAY_MS);
  const id = `${tenant_id} ${record_id ?? ''}`;
  if (isKnown(ctx, day, id)) return;
  const isFirst = await takeLease(ctx.db, `${ECHO_RAISED}${day} ${id}`, ctx.newUuid(), DAY_MS).catch(() => true);
  if (!isFirst) return;
  ctx.log.error(
    { alarm: 'echo', tenant_id, record, ...(record_id !== undefined && { record_id }) },
    'an answer holds a value that was opened for its request',
  );
};
