// Counts what each tenant holds of this process, and refuses more than its share. Runs long work in turns between tenants.
// Everything that a request can make grow is reserved here first: no tenant can take what the others need.
import { type CoreClock, coreClock } from './core-time.ts';
import { AppError, payloadTooLarge } from './errors.ts';
import type { Account, Operation } from './event-loop.ts';
import { createHeavyTenants, type HeavyTenants } from './heavy-tenants.ts';
import type { Slices } from '../json/slices.ts';
import { createIdleShare, createLoopBudgets, isAddress, type LoopBudgets } from './loop-budgets.ts';
import { placeOfIp } from './ip-place.ts';
import { createTurns } from './turns.ts';

export type { Account } from './event-loop.ts';

const MEGABYTE = 1024 * 1024;

export type Limit = {
  /** Amount that all tenants together may hold. */
  ofAll: number;
  /** Amount that one tenant may hold, while few others are active. */
  ofTenantMax: number;
  /** The share of a tenant does not become smaller than this, however many are active. */
  ofTenantLeast: number;
  /** What one request may need: one address has this much at least, and all anonymous clients twice as much. */
  ofRequestMax?: number;
};

/** Each limit has the name that the problem of a refusal gives. */
export const accountLimits = {
  /** Bodies of requests to destinations. They are in memory already when they are counted. */
  request_bytes: {
    ofAll: 64 * MEGABYTE,
    ofTenantMax: 32 * MEGABYTE,
    ofTenantLeast: 6 * MEGABYTE,
    ofRequestMax: 11 * MEGABYTE,
  },
  /** Bodies of responses of destinations. A tenant has six of the largest; one with two codings is in memory three times. */
  response_bytes: {
    ofAll: 128 * MEGABYTE,
    ofTenantMax: 32 * MEGABYTE,
    ofTenantLeast: 6 * MEGABYTE,
    ofRequestMax: 15 * MEGABYTE,
  },
  /** JSON bodies of requests to this server, from their headers to the end of the response. */
  body_bytes: { ofAll: 256 * MEGABYTE, ofTenantMax: 64 * MEGABYTE, ofTenantLeast: 8 * MEGABYTE },
  /** Responses that clients have not taken yet. */
  unsent_bytes: { ofAll: 256 * MEGABYTE, ofTenantMax: 64 * MEGABYTE, ofTenantLeast: 16 * MEGABYTE },
  /** Inputs and results of runs, from before they are made. A tenant has sixteen of the largest at once. */
  run_bytes: { ofAll: 256 * MEGABYTE, ofTenantMax: 96 * MEGABYTE, ofTenantLeast: 12 * MEGABYTE },
  /** Requests that wait because their tenant has used its share of the event loop: a connection and the headers of each. */
  waiting_requests: { ofAll: 2_000, ofTenantMax: 256, ofTenantLeast: 16 },
  /** Runs of code, under way and waiting. */
  runs: { ofAll: 512, ofTenantMax: 128, ofTenantLeast: 4 },
  /** Connections to destinations: a descriptor each, and some 50 KB. Sixteen serve some hundred requests a second. */
  connections: { ofAll: 512, ofTenantMax: 128, ofTenantLeast: 16 },
  /** Bodies that are parsed, searched or tokenized in slices, each of up to some megabytes. */
  long_work: { ofAll: 512, ofTenantMax: 64, ofTenantLeast: 4 },
  /** Transactions that wait for a connection of the pool. Few are under way. */
  transactions: { ofAll: 1_000, ofTenantMax: 256, ofTenantLeast: 16 },
  /** Statements outside of transactions that wait for a connection of the pool. */
  statements: { ofAll: 2_000, ofTenantMax: 512, ofTenantLeast: 32 },
  /** Rows that wait for a batch of writes, and their bytes. One request of 10,000 values has a row for each. */
  queued_rows: { ofAll: 50_000, ofTenantMax: 20_000, ofTenantLeast: 2_000 },
  queued_bytes: { ofAll: 64 * MEGABYTE, ofTenantMax: 24 * MEGABYTE, ofTenantLeast: 4 * MEGABYTE },
  /** Records that wait to be looked up by id. */
  queued_lookups: { ofAll: 50_000, ofTenantMax: 12_500, ofTenantLeast: 500 },
} satisfies Record<string, Limit>;

export type LimitName = keyof typeof accountLimits;

/** Less than this is not counted: as many of them as there are connections are some megabytes. */
export const FREE_BYTES = 65_536;

/** This share of each limit is kept for accounts that hold less than `ofTenantLeast`: tenants that come late find something. */
const KEPT_SHARE = 0.25;

/** Clients of a tenant's open proxies and public keys have this share of the tenant's limits, for themselves. */
const OPEN_SHARE = 0.25;

/** One address has this share of theirs: the others keep half, however many requests it sends. */
const ADDRESS_SHARE = 0.5;

/** What is held is given back within moments. */
const RETRY_AFTER_SECONDS = 1;

/** What waits for a limit, of all tenants and of one. More is refused at once. */
const WAITING_MAX = 1_000;
const WAITING_OF_TENANT_MAX = 128;

/** The account of a client of a tenant's open proxy or public key: it holds nothing of the tenant's own share. */
export const openAccount = (tenant_id: string, ip: string | undefined): Account =>
  `${tenant_id} open ${placeOfIp(ip ?? '')}`;

/** The account of a client that is known by its address only, such as one that signs in. */
export const anonymousAccount = (ip: string): Account => openAccount('anonymous', ip);

/** `requests`: how many of the largest requests it has at least. */
type Share = { of: string; factor: number; requests: number };

const mostOf = ({ ofTenantMax, ofRequestMax = 0 }: Limit, { factor, requests }: Share): number =>
  Math.max(ofTenantMax * factor, ofRequestMax * requests);

/** The shares that a reservation must fit in. */
const sharesOf = (account: Account): Share[] => {
  const [tenant_id = '', kind] = account.split(' ', 2);
  if (kind !== 'open') return [{ of: account, factor: 1, requests: 0 }];
  return [
    { of: `${tenant_id} open`, factor: OPEN_SHARE, requests: 2 },
    { of: account, factor: OPEN_SHARE * ADDRESS_SHARE, requests: 1 },
  ];
};

/**
 * Whether too many wait, the account itself among them. All anonymous clients of a tenant may have as many there as a tenant,
 * and one address half of them: otherwise clients that change their address would fill the line of all tenants.
 * @param waiting an account for each that waits.
 */
export const isCrowded = (waiting: readonly Account[], account: Account): boolean =>
  waiting.length > WAITING_MAX ||
  sharesOf(account).some(({ of }, depth) => {
    const isOf = (other: Account): boolean => other === of || (of.endsWith(' open') && other.startsWith(`${of} `));
    return waiting.filter(isOf).length > WAITING_OF_TENANT_MAX / (depth + 1);
  });

export type Reservation = {
  /** Gives back what is held beyond this amount. */
  shrinkTo(amount: number): void;
  /** Gives back the rest. Does nothing when called again. */
  release(): void;
};

export type Accounts = {
  /** What each account may use of the event loop. */
  readonly budgets: LoopBudgets;
  /** Tenants whose work is heavy. */
  readonly heavyTenants: HeavyTenants;
  /** At once or not at all. @throws too_many_requests where the account has its share; unavailable where nothing is left. */
  reserve(account: Account, name: LimitName, amount: number): Reservation;
  /** The error that `reserve` would throw. */
  findRefusal(account: Account, name: LimitName, amount: number): AppError | undefined;
  /** Counts what is held already and cannot be refused any more, also beyond the limit. */
  hold(account: Account, name: LimitName, amount: number): Reservation;
  /**
   * Waits for its turn: first come, first served, except that no account waits for one that has its share. A holder must
   * not wait for more of the same limit: two of them could wait for each other.
   * @throws as `reserve`, also after `waitMs`; the reason of the signal.
   */
  reserveInTime(
    account: Account,
    name: LimitName,
    amount: number,
    wait: { waitMs: number; signal?: AbortSignal | undefined },
  ): Promise<Reservation>;
  /**
   * Does long work in turns (turns.ts), with other work of the process between them. Of several accounts, the one that has
   * used least of the event loop goes first. The first turn is at once: nearly all work ends in it, and needs no promise.
   * @throws what the work throws; too_many_requests; payload_too_large where the request has used more CPU time than it may.
   */
  runInTurns<T>(account: Account, slices: Slices<T>): T | Promise<T>;
  /** Does what `runInTurns` does, for the end of an operation that has stored something: it is never refused. */
  finishInTurns<T>(account: Account, slices: Slices<T>): T | Promise<T>;
  /** Counts time of the event loop that was used for the account. It rests as long: see `whenPaid`. */
  charge(account: Account, usedMs: number): void;
  /** Does what `charge` does, for bytes that an executor sends: they count as heavy work. */
  chargeHeavy(account: Account, usedMs: number): void;
  /** How long nothing more should be read for work of the account that is under way, in ms: at most 100. */
  restMs(account: Account): number;
  /** Resolves when the account has rested for what it was charged; undefined where it owes nothing. */
  whenPaid(account: Account): Promise<void> | undefined;
  /** What is held and was refused so far. */
  figures(): AccountFigures;
  /** Ends the wait of all reservations, with unavailable. */
  close(): void;
};

/** What was refused: `tenant` had its share, or the `server` was full. */
type Refusals = { tenant: number; server: number };

export type AccountFigures = {
  /** `holders`: tenants, their anonymous clients included, with what they hold. */
  limits: { name: LimitName; limit: Limit; held: number; refused: Refusals; holders(): Map<string, number> }[];
  /** Long work that waits for its next turn. */
  turns: number;
};

type Waiting = { account: Account; amount: number; grant(): void; refuse(reason: unknown): void };

type Ledger = {
  limit: Limit;
  held: number;
  /** Amounts by account, and for anonymous clients by address as well. */
  heldBy: Map<string, number>;
  /** Accounts that hold something, without addresses. */
  active: number;
  waiting: Set<Waiting>;
  refused: Refusals;
};

const words = (name: string): string => name.replaceAll('_', ' ');

const tenantIsFull = (name: LimitName, account: Account): AppError =>
  new AppError(
    'too_many_requests',
    `${isAddress(account) ? 'Clients without a secret key have' : 'The tenant has'} reached the limit of ${words(name)}. Try again.`,
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );

const allIsFull = (name: LimitName): AppError =>
  new AppError('unavailable', `The server has reached its limit of ${words(name)}. Try again.`, {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });

/** Amounts by tenant. What is held by address is in `heldBy` once more, and left out. */
const holdersOf = (heldBy: ReadonlyMap<string, number>): Map<string, number> => {
  const holders = new Map<string, number>();
  for (const [of, held] of heldBy) {
    if (isAddress(of)) continue;
    const [tenant_id = ''] = of.split(' ', 1);
    holders.set(tenant_id, (holders.get(tenant_id) ?? 0) + held);
  }
  return holders;
};

/** Limits in place of the usual ones. */
export type Limits = Partial<Record<LimitName, Partial<Limit>>>;

/**
 * The limits of one of several workers, which have those of one server together. One of the largest requests fits each worker:
 * otherwise it would be refused for ever.
 * @param bodyBytesMax of a request to this server.
 */
export const limitsOfWorker = (workers: number, bodyBytesMax: number): Limits => {
  const limits: [string, Limit][] = Object.entries({
    ...accountLimits,
    body_bytes: { ...accountLimits.body_bytes, ofRequestMax: bodyBytesMax },
  });
  return Object.fromEntries(
    limits.map(([name, { ofAll, ofTenantMax, ofTenantLeast, ofRequestMax = 0 }]) => {
      const least = Math.max(ofTenantLeast, ofRequestMax);
      const ofWorker = {
        ofAll: Math.max(ofAll / workers, 2 * least),
        ofTenantMax: Math.max(ofTenantMax / workers, least),
      };
      return [name, { ...ofWorker, ofRequestMax }];
    }),
  );
};

/**
 * A request may use so much CPU time of this process, and more for each megabyte of its body and of answers of destinations. The
 * dearest body of a megabyte takes 0.12 s to parse and write. The largest request that the other limits allow, 10,000 cards, takes
 * 1.0 to 1.5 s on the cores that were measured, and must end on cores three times slower: otherwise it would be refused for ever.
 */
const REQUEST_CPU_MS = 5_000;
const REQUEST_CPU_MS_PER_MEGABYTE = 300;

export type AccountOptions = {
  /** Clock by which work in turns is charged. */
  clock?: CoreClock;
  /** Reads the idle part of the event loop since it was last read. */
  readIdleShare?: () => number;
  /** REQUEST_CPU_MS in another length, for tests. */
  requestCpuMs?: number | undefined;
  /** Told of a request that was ended, as it used more CPU time than it may. */
  spent?: (operation: Operation) => void;
};

const spentSentence = (cpuMs: number): string =>
  `The request has reached the limit of CPU time of a request: ${cpuMs / 1_000} s, and ${REQUEST_CPU_MS_PER_MEGABYTE / 1_000} s for each megabyte of its body. Send less at once.`;

export const createAccounts = (
  changed: Limits = {},
  {
    clock = coreClock,
    readIdleShare = createIdleShare(),
    requestCpuMs: cpuMs = REQUEST_CPU_MS,
    spent = () => undefined,
  }: AccountOptions = {},
): Accounts => {
  const ledgers = Object.fromEntries(
    Object.entries(accountLimits).map(([name, limit]) => [
      name,
      {
        limit: { ...limit, ...changed[name as LimitName] },
        held: 0,
        heldBy: new Map(),
        active: 0,
        waiting: new Set(),
        refused: { tenant: 0, server: 0 },
      },
    ]),
  ) as Record<LimitName, Ledger>;
  let isClosed = false;

  const fitsAccount = ({ limit, heldBy, active }: Ledger, account: Account, amount: number): boolean =>
    sharesOf(account).every((share) => {
      const { of, factor } = share;
      const own = heldBy.get(of) ?? 0;
      const most = mostOf(limit, share);
      // The share shrinks, but one request that the limit allows fits it always: otherwise it would be refused for ever.
      if (own === 0) return amount <= most;
      return own + amount <= Math.max(limit.ofTenantLeast * factor, Math.min(most, limit.ofAll / active));
    });

  const isSmall = ({ limit, heldBy }: Ledger, account: Account, amount: number): boolean =>
    sharesOf(account).every(({ of, factor }) => (heldBy.get(of) ?? 0) + amount <= limit.ofTenantLeast * factor);

  const fitsAll = (ledger: Ledger, account: Account, amount: number): boolean => {
    const { limit, held } = ledger;
    return held + amount <= limit.ofAll * (isSmall(ledger, account, amount) ? 1 : 1 - KEPT_SHARE);
  };

  const add = (ledger: Ledger, account: Account, amount: number): void => {
    ledger.held += amount;
    for (const { of } of sharesOf(account)) {
      const before = ledger.heldBy.get(of) ?? 0;
      const after = before + amount;
      if (after === 0) ledger.heldBy.delete(of);
      else ledger.heldBy.set(of, after);
      if (!isAddress(of)) ledger.active += Number(after > 0) - Number(before > 0);
    }
  };

  const hold = (ledger: Ledger, account: Account, amount: number): Reservation => {
    let left = amount;
    add(ledger, account, amount);
    const shrinkTo = (wanted: number): void => {
      if (wanted >= left) return;
      add(ledger, account, wanted - left);
      left = wanted;
      admit(ledger);
    };
    return { shrinkTo, release: () => shrinkTo(0) };
  };

  const admit = (ledger: Ledger): void => {
    if (isClosed) return;
    const passedOver = new Set<Account>();
    let isAnyPassedOver = false;
    for (const place of ledger.waiting) {
      const { account, amount } = place;
      // A small one of the same account must not pass it for ever.
      if (passedOver.has(account)) continue;
      if (!fitsAccount(ledger, account, amount)) passedOver.add(account);
      // Nor a large one of another account. What is kept for those that hold little is theirs at once.
      else if (fitsAll(ledger, account, amount) && (!isAnyPassedOver || isSmall(ledger, account, amount)))
        place.grant();
      else {
        passedOver.add(account);
        isAnyPassedOver = true;
      }
    }
  };

  const findRefusal: Accounts['findRefusal'] = (account, name, amount) => {
    const ledger = ledgers[name];
    if (isClosed) return allIsFull(name);
    if (!fitsAccount(ledger, account, amount)) return tenantIsFull(name, account);
    return fitsAll(ledger, account, amount) ? undefined : allIsFull(name);
  };

  const counted = (name: LimitName, refusal: AppError): AppError => {
    ledgers[name].refused[refusal.code === 'too_many_requests' ? 'tenant' : 'server'] += 1;
    return refusal;
  };

  const reserve: Accounts['reserve'] = (account, name, amount) => {
    const refused = findRefusal(account, name, amount);
    if (refused) throw counted(name, refused);
    return hold(ledgers[name], account, amount);
  };

  const reserveInTime: Accounts['reserveInTime'] = async (account, name, amount, { waitMs, signal }) => {
    const ledger = ledgers[name];
    const end = (): AppError => counted(name, findRefusal(account, name, amount) ?? allIsFull(name));
    if (isClosed || sharesOf(account).some((share) => amount > mostOf(ledger.limit, share))) throw end();
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Reservation>();
    const place: Waiting = {
      account,
      amount,
      grant: () => {
        ledger.waiting.delete(place);
        resolve(hold(ledger, account, amount));
      },
      refuse: (reason) => {
        reject(reason);
        // Those behind it may fit.
        if (ledger.waiting.delete(place)) admit(ledger);
      },
    };
    const isOver = (): void => place.refuse(end());
    const abort = (): void => place.refuse(signal?.reason);
    ledger.waiting.add(place);
    admit(ledger);
    const isWaiting = ledger.waiting.has(place);
    if (
      isWaiting &&
      isCrowded(
        Array.from(ledger.waiting, (each) => each.account),
        account,
      )
    )
      isOver();
    const timer = setTimeout(isOver, waitMs);
    signal?.addEventListener('abort', abort);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  };

  const check = (operation: Operation | undefined): void => {
    if (!operation || operation.usedMs <= cpuMs + (operation.bytes / MEGABYTE) * REQUEST_CPU_MS_PER_MEGABYTE) return;
    spent(operation);
    throw payloadTooLarge(spentSentence(cpuMs));
  };

  const heavyTenants = createHeavyTenants(() => performance.now());
  const turns = createTurns(heavyTenants, clock);
  const { runTurns, charge } = turns;
  const budgets = createLoopBudgets((account) => reserve(account, 'waiting_requests', 1), readIdleShare);

  return {
    budgets,
    heavyTenants,
    reserve,
    findRefusal,
    hold: (account, name, amount) => hold(ledgers[name], account, amount),
    reserveInTime,
    runInTurns: (account, slices) => runTurns(account, slices, { admit: reserve, check }),
    finishInTurns: (account, slices) =>
      runTurns(account, slices, {
        admit: () => hold(ledgers['long_work'], account, 1),
        check: () => undefined,
      }),
    charge,
    chargeHeavy: (account, usedMs) => {
      charge(account, usedMs);
      heavyTenants.spend(account, usedMs);
    },
    restMs: (account) => Math.max(turns.restMs(account), budgets.restMs(account)),
    whenPaid: turns.whenPaid,
    figures: () => ({
      limits: Object.entries(ledgers).map(([name, { limit, held, heldBy, refused }]) => ({
        name: name as LimitName,
        limit,
        held,
        refused,
        holders: () => holdersOf(heldBy),
      })),
      turns: turns.countWaiting(),
    }),
    close: () => {
      isClosed = true;
      for (const [name, ledger] of Object.entries(ledgers))
        for (const place of ledger.waiting) place.refuse(allIsFull(name as LimitName));
    },
  };
};
