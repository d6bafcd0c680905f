// Operations of a resource: read, list, create, change and delete, each with its log row and cache invalidation.
import { logRow, type Operation } from '../../platform/db/audit-record.ts';
import type { NewLog } from '../../platform/db/audit-rows.ts';
import type { Change } from '../../platform/base/cache.ts';
import type { TenantDatabase } from '../../platform/db/database.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { notFound, tooManyRecords } from '../../platform/base/errors.ts';
import { type Counted, countThenList, type Page, type PageRequest, readPage } from '../../platform/base/pagination.ts';
import type { Platform } from '../../platform/services/platform.ts';
import type { Work } from './work.ts';

/**
 * How records of one kind are stored and shown.
 * @template Row a stored record. @template Filter of a list. @template Shown the record on the wire.
 */
export type Kind<Ctx, Row extends { id: string }, Filter, Shown> = {
  /** In log rows. */
  entity_type: string;
  /** In the sentence of a 404, which is the same for an unknown id and for one of another tenant. */
  noun: string;
  find(db: TenantDatabase, id: string): Promise<Row | undefined>;
  count(db: TenantDatabase, filter: Filter): Promise<Counted>;
  /** Newest first, then by id. */
  list(db: TenantDatabase, filter: Filter, offset: number, limit: number): Promise<Row[]>;
  /** The row as no other transaction changes it until this one ends. */
  lock(tx: PrismaTransaction, id: string): Promise<Row | undefined>;
  remove(tx: PrismaTransaction, id: string): Promise<unknown>;
  show(ctx: Ctx, work: Work, rows: readonly Row[]): Promise<Shown[]>;
  /** What the answer to a request for one record has beside that: what would cost a list too much. */
  detail?(ctx: Ctx, work: Work, row: Row): Promise<Partial<Shown>>;
  /** Left out where no cache has such records. */
  changeOf?(work: Work, id: string): Change;
  /** How many a tenant may have. Left out where `create` itself counts. */
  limit?: RecordLimit;
};

export type RecordLimit = {
  /** For the sentence of the 409. */
  plural: string;
  max: number;
  count(tx: PrismaTransaction): Promise<number>;
};

/**
 * Refuses one record more than a tenant may have. Call before a record is added. The row of the tenant is locked first, so two
 * requests at once do not both take the last place. A tenant that has more, from before there was a limit, keeps them.
 * @throws conflict.
 */
export const checkRoom = async (tx: PrismaTransaction, { plural, max, count }: RecordLimit): Promise<void> => {
  await tx.signing.holds('tenants');
  if ((await count(tx)) >= max) throw tooManyRecords(`A tenant may have ${max} ${plural}: delete some first.`);
};

export const resourceOf = <Ctx extends Pick<Platform, 'now' | 'newLogId'>, Row extends { id: string }, Filter, Shown>(
  kind: Kind<Ctx, Row, Filter, Shown>,
) => {
  const logOf = (ctx: Ctx, work: Work, operation: Operation, entity_ids: string[]): NewLog =>
    logRow(ctx, work, { operation, entity_type: kind.entity_type, entity_ids });

  const announce = (tx: PrismaTransaction, work: Work, id: string): void => {
    if (kind.changeOf) tx.changed(kind.changeOf(work, id));
  };

  /** @throws notFound. */
  const lock = async (tx: PrismaTransaction, id: string): Promise<Row> => {
    const row = await kind.lock(tx, id);
    if (!row) throw notFound(kind.noun);
    return row;
  };

  return {
    /** @throws notFound; unavailable. */
    async read(ctx: Ctx, work: Work, id: string): Promise<Shown> {
      const row = await kind.find(work.db, id);
      if (!row) throw notFound(kind.noun);
      const [shown] = await kind.show(ctx, work, [row]);
      // The record and what it refers to were deleted between two statements.
      if (shown === undefined) throw notFound(kind.noun);
      const detail = await kind.detail?.(ctx, work, row);
      await work.log([logOf(ctx, work, 'read', [id])]);
      return { ...shown, ...detail };
    },

    async list(ctx: Ctx, work: Work, { page, ...filter }: Filter & { page: PageRequest }): Promise<Page<Shown>> {
      const wanted = filter as unknown as Filter;
      const { pagination, rows } = await readPage(page, {
        page: countThenList(
          () => kind.count(work.db, wanted),
          (offset, limit) => kind.list(work.db, wanted, offset, limit),
        ),
      });
      if (rows.length === 0) return { pagination, data: [] };
      const data = await kind.show(ctx, work, rows);
      const ids = rows.map(({ id }) => id);
      await work.log([logOf(ctx, work, 'read', ids)]);
      return { pagination, data };
    },

    /**
     * @param insert writes the record and returns it as the answer shows it. What it throws rolls back.
     * @throws conflict where the tenant has as many as it may; as `insert`.
     */
    create: (ctx: Ctx, work: Work, id: string, insert: (tx: PrismaTransaction) => Promise<Shown>): Promise<Shown> =>
      work.prismaTransaction(async (tx) => {
        if (kind.limit) await checkRoom(tx, kind.limit);
        const shown = await insert(tx);
        tx.log(logOf(ctx, work, 'create', [id]));
        return shown;
      }),

    /**
     * @param update writes the change of the locked row and returns the record as the answer shows it. What it throws rolls back.
     * @param message of the log row, where it is not the usual one.
     * @throws notFound; as `update`.
     */
    change: <Result = Shown>(
      ctx: Ctx,
      work: Work,
      id: string,
      update: (tx: PrismaTransaction, row: Row) => Promise<Result>,
      message?: string,
    ): Promise<Result> =>
      work.prismaTransaction(async (tx) => {
        const shown = await update(tx, await lock(tx, id));
        const row = logOf(ctx, work, 'update', [id]);
        tx.log(message === undefined ? row : { ...row, message });
        announce(tx, work, id);
        return shown;
      }),

    /** @param check refuses to remove the locked row by throwing. @throws notFound; as `check`. */
    delete: (
      ctx: Ctx,
      work: Work,
      id: string,
      check?: (tx: PrismaTransaction, row: Row) => Promise<void>,
    ): Promise<void> =>
      work.prismaTransaction(async (tx) => {
        const row = await lock(tx, id);
        await check?.(tx, row);
        await kind.remove(tx, id);
        tx.log(logOf(ctx, work, 'delete', [id]));
        announce(tx, work, id);
      }),
  };
};
