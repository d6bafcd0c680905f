// Counts what requests do with tokens, by hour, kind and application: in memory, and added to the database once a minute.
import { HOUR_MS } from '../../platform/base/times.ts';
import type { Usage, UsageKind } from '../../platform/db/audit-record.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { runPeriodically } from '../../platform/base/periodic.ts';
import { addUsage, LATENCY_BOUNDS_MS, ALL_APPLICATIONS, type UsageRow } from './rows/usage.ts';

/** What a process that dies loses at most. */
const WRITE_USAGE_EVERY_MS = 60_000;
/** Rows of a tenant between two writes: of 33 applications with all kinds. Requests of others count in the rows of all. */
const ROWS_OF_TENANT_MAX = 200;
/** Rows of all tenants between two writes, of about 300 bytes. Those beyond are not counted, and a warning says so. */
const ROWS_MAX = 100_000;

export type UsageCounts = {
  /** @param application_id of the application that asks. */
  begin(tenant_id: string, application_id: string | undefined): Usage;
  /** Adds what was counted to the database. What cannot be written is kept for the next time. @throws the first failure. */
  write(): Promise<void>;
};

const bucketOf = (ms: number): number => {
  const bucket = LATENCY_BOUNDS_MS.findIndex((bound) => ms <= bound);
  return bucket === -1 ? LATENCY_BOUNDS_MS.length : bucket;
};

const isUnavailable = (error: unknown): boolean => error instanceof AppError && error.code === 'unavailable';

type Added = { requests: number; tokens: number };

/** Counter of one request. Tokens that it counts again are the same, and what ends after its response is added then. */
const createRequestUsage = (add: (kind: UsageKind, added: Added, ms: number) => void): Usage => {
  let counts: Map<UsageKind, Set<string>> | undefined;
  let ms: number | undefined;
  return {
    count(kind, ids) {
      const known = (counts ??= new Map()).get(kind);
      const tokens = known ?? new Set();
      const before = tokens.size;
      for (const id of ids) tokens.add(id);
      if (!known) counts.set(kind, tokens);
      if (ms !== undefined) add(kind, { requests: known ? 0 : 1, tokens: tokens.size - before }, ms);
    },
    finish(took) {
      if (ms !== undefined) return;
      ms = took;
      if (counts) for (const [kind, tokens] of counts) add(kind, { requests: 1, tokens: tokens.size }, took);
    },
  };
};

export const createUsageCounts = (ctx: Pick<Platform, 'db' | 'now' | 'log'>): UsageCounts => {
  let rows = new Map<string, Map<string, UsageRow>>();
  let size = 0;
  let lost = 0;

  /** Undefined where there is no room. */
  const rowOf = (tenant_id: string, of: Pick<UsageRow, 'hour' | 'kind' | 'application_id'>): UsageRow | undefined => {
    const own = rows.get(tenant_id) ?? new Map<string, UsageRow>();
    const name = `${of.hour} ${of.kind} ${of.application_id}`;
    const found = own.get(name);
    if (found) return found;
    const isFull = own.size >= ROWS_OF_TENANT_MAX && of.application_id !== ALL_APPLICATIONS;
    if (isFull || size >= ROWS_MAX) return undefined;
    const latencies = Array.from({ length: LATENCY_BOUNDS_MS.length + 1 }, () => 0);
    const made: UsageRow = { ...of, requests: 0, tokens: 0, latencies };
    own.set(name, made);
    rows.set(tenant_id, own);
    size += 1;
    return made;
  };

  const add = (
    tenant_id: string,
    { requests, tokens, ...of }: Omit<UsageRow, 'latencies'>,
    addLatencies: (latencies: number[]) => void,
  ): void => {
    const row = rowOf(tenant_id, of);
    if (row) {
      row.requests += requests;
      row.tokens += tokens;
      addLatencies(row.latencies);
    } else if (of.application_id === ALL_APPLICATIONS) lost += requests;
  };

  /** Adds a row that could not be written to what was counted since. */
  const addAgain = (tenant_id: string, { latencies: counted, ...row }: UsageRow): void =>
    add(tenant_id, row, (latencies) => {
      for (const [bucket, count] of counted.entries()) latencies[bucket] = (latencies[bucket] ?? 0) + count;
    });

  return {
    begin: (tenant_id, application_id) =>
      createRequestUsage((kind, added, ms) => {
        const hour = Math.floor(ctx.now().getTime() / HOUR_MS) * HOUR_MS;
        const bucket = bucketOf(ms);
        const addLatency = (latencies: number[]): void => {
          latencies[bucket] = (latencies[bucket] ?? 0) + added.requests;
        };
        for (const id of [ALL_APPLICATIONS, application_id])
          if (id !== undefined) add(tenant_id, { hour, kind, application_id: id, ...added }, addLatency);
      }),

    async write() {
      if (lost > 0) ctx.log.warn({ requests: lost }, 'requests of too many tenants were not counted in the usage');
      lost = 0;
      const counted = rows;
      rows = new Map();
      size = 0;
      const failures: unknown[] = [];
      for (const [tenant_id, own] of counted) {
        try {
          if (!failures.some(isUnavailable)) {
            await addUsage(ctx.db.for({ tenant_id }), [...own.values()]);
            continue;
          }
        } catch (error) {
          failures.push(error);
        }
        // A failure for one tenant does not keep the others from being written.
        for (const row of own.values()) addAgain(tenant_id, row);
      }
      if (failures.length > 0) throw failures[0];
    },
  };
};

/** Writes periodically. A failed write is logged, and the next interval adds it. @returns stop, which writes what is left. */
export const startWritingUsage = ({
  usage,
  log,
}: { usage: UsageCounts } & Pick<Platform, 'log'>): (() => Promise<void>) => {
  const write = (): Promise<void> =>
    usage.write().catch((error: unknown) => log.warn({ error }, 'the usage could not be written'));
  const writing = runPeriodically(WRITE_USAGE_EVERY_MS, write);
  return async () => {
    await writing.stop();
    await write();
  };
};
