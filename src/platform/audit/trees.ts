// Builds a Merkle tree over the audit log of each tenant and signs checkpoints of it. One process at a time does.
import { DAY_MS, HOUR_MS } from '../base/times.ts';
import { setImmediate as turn } from 'node:timers/promises';
import { firstIdAt, LEAST_ID, monthEndOf, timeOfId } from '../crypto/ids.ts';
import type { LogSigning } from '../crypto/log-signing.ts';
import { append, leafHash, rootOf } from '../crypto/merkle.ts';
import { signCheckpoint } from '../crypto/signed-note.ts';
import { takeLease } from '../db/leases.ts';
import { findStreamPosition, moveStreamPosition, TREE_STREAM } from '../db/log-partitions.ts';
import {
  BLOCK_LEAVES,
  countAhead,
  findTree,
  findLogTenantAfter,
  findWriters,
  type LeafBlock,
  type NewCheckpoint,
  readRowsOf,
  thinCheckpoints,
  writeTree,
} from '../db/log-trees.ts';
import { runPeriodically } from '../base/periodic.ts';
import type { Platform } from '../services/platform.ts';
import { countTampered, noteTampered } from '../db/signed-rows.ts';
import { type OpenLine, openLine } from '../db/leaf.ts';
import { STREAM_DELAY_MS } from './stream.ts';
import { idBytes, type KnownTree, openTree, type OpenTree, TreeTampered } from './tree-state.ts';

const LEASE = 'log-trees';
/** Each tenant whose log grew gets a checkpoint this often. */
const BUILD_EVERY_MS = 60_000;
/** Longer than a step takes: another process goes on after this time. */
const LEASE_MS = 30_000;
/** Rows of one step of a tenant: about a MB. */
const STEP_ROWS = 2_000;
/** Leaves that are hashed in one turn of the event loop: two milliseconds. */
const LEAVES_AT_ONCE = 200;
/** Tenants with rows are looked for in this much of the log at once, while the process that builds was away. */
const SPAN_MS = 15 * 60_000;
/** Trees that a process remembers: 100 bytes each. For others their newest checkpoint counts. */
const REMEMBERED_MAX = 100_000;
/** Rows that a process has reported, so that it reports each once. */
const REFUSED_MAX = 100_000;
/** Rows of a run that the log names. The others are counted: a writer of the database must not fill the log. */
const NAMED_MAX = 100;
/** Counting further would only burden the database. */
const UNHASHED_COUNTED_MAX = 100_000;
/** For this long all checkpoints are kept, then one an hour, then one a day. */
const ALL_KEPT_MS = DAY_MS;
const HOURLY_KEPT_MS = 31 * DAY_MS;

type Building = Pick<Platform, 'db' | 'now' | 'newLogId' | 'log' | 'metrics'> & { readonly logSigning: LogSigning };

/** Appends leaves to a tree, and collects the blocks and checkpoints that are to be written. */
const createStep = (ctx: Building, tenant_id: string, tree: OpenTree) => {
  const blocks = new Map<number, Omit<LeafBlock, 'number'>>();
  const checkpoints: NewCheckpoint[] = [];
  let monthEnd = tree.last_id === undefined ? undefined : monthEndOf(tree.last_id);

  const closeBlock = (): void => {
    const { block, last_id } = tree;
    if (!block || last_id === undefined) return;
    const { number, frontier, ids, hashes } = block;
    blocks.set(number, { last_id, frontier, ids: Buffer.concat(ids), hashes: Buffer.concat(hashes) });
    if (ids.length === BLOCK_LEAVES) tree.block = undefined;
  };
  const sign = (ends_month: boolean): void => {
    const { size } = tree.frontier;
    if (size === tree.signed_size && !ends_month) return;
    const at = ctx.now();
    const note = signCheckpoint(ctx.logSigning.key, { tenant_id, size, root: rootOf(tree.frontier), at });
    checkpoints.push({ size, id: ctx.newLogId(at), note, created_at: at, ends_month });
    tree.signed_size = size;
  };
  return {
    sign: () => sign(false),
    add(id: string, leaf: Buffer): void {
      if (monthEnd !== undefined && id >= monthEnd) sign(true);
      if (monthEnd === undefined || id >= monthEnd) monthEnd = monthEndOf(id);
      const { size, hashes } = tree.frontier;
      tree.block ??= { number: size / BLOCK_LEAVES, frontier: Buffer.concat(hashes), ids: [], hashes: [] };
      tree.block.ids.push(idBytes(id));
      tree.block.hashes.push(leaf);
      append(tree.frontier, leaf);
      tree.last_id = id;
      if (tree.block.ids.length === BLOCK_LEAVES) closeBlock();
    },
    /** @returns false where another process has moved the tree. @throws unavailable. */
    async write(): Promise<boolean> {
      const { last_id, signed_size, stored } = tree;
      if (last_id === undefined || (tree.frontier.size === stored.size && checkpoints.length === 0)) return true;
      closeBlock();
      const to = { size: tree.frontier.size, root: rootOf(tree.frontier), last_id, signed_size };
      const changed = [...blocks].map(([number, block]) => ({ number, ...block }));
      const isWritten = await writeTree(ctx.db.statements.query, tenant_id, stored, to, changed, checkpoints);
      if (isWritten) tree.stored = { size: to.size, root: to.root };
      return isWritten;
    },
  };
};

/** What builds the trees. It remembers what it last knew of each, so that it never signs a smaller or another one. */
export const createTreeBuilder = (ctx: Building) => {
  const { query } = ctx.db.statements;
  const remembered = new Map<string, KnownTree>();
  const tampered = new Set<string>();
  const refused = new Set<string>();
  let named = 0;
  let builtTo: string | undefined;
  let unhashed: number | undefined;

  const remember = (tenant_id: string, known: KnownTree): void => {
    remembered.delete(tenant_id);
    remembered.set(tenant_id, known);
    const [oldest] = remembered.keys();
    if (remembered.size > REMEMBERED_MAX && oldest !== undefined) remembered.delete(oldest);
  };

  /** Whether a server wrote the row. One that it did not write gets no leaf: it is reported once, and `logs verify` names it. */
  const isOfServer = (tenant_id: string, id: string, line: OpenLine): boolean => {
    if (ctx.db.logMacs.isIntact(line)) return true;
    const row = `${tenant_id}/${id}`;
    if (refused.has(row)) return false;
    if (refused.size >= REFUSED_MAX) refused.clear();
    refused.add(row);
    named += 1;
    if (named <= NAMED_MAX) noteTampered(ctx, { table: 'audit_log', tenant_id, row_id: id });
    else countTampered(ctx, 'audit_log');
    return false;
  };

  /** @returns false where another process builds too. @throws TreeTampered; unavailable. */
  const extend = async (tenant_id: string, end: string, mayGoOn: () => Promise<boolean>): Promise<boolean> => {
    const found = await findTree(query, tenant_id);
    const latest = firstIdAt(ctx.now().getTime());
    const tree = await openTree(query, tenant_id, found, remembered.get(tenant_id), ctx.logSigning, latest);
    for (let from = tree.last_id ?? LEAST_ID; ;) {
      const rows = await readRowsOf(query, tenant_id, from, end, STEP_ROWS);
      const step = createStep(ctx, tenant_id, tree);
      for (const [at, { id, line }] of rows.entries()) {
        if (at % LEAVES_AT_ONCE === LEAVES_AT_ONCE - 1) await turn();
        const opened = openLine(line);
        if (isOfServer(tenant_id, id, opened)) step.add(id, leafHash(opened.text));
      }
      from = rows.at(-1)?.id ?? from;
      const isLast = rows.length < STEP_ROWS;
      if (isLast) step.sign();
      if (!(await step.write())) return false;
      if (tree.stored.size > 0) remember(tenant_id, tree.stored);
      if (isLast) return true;
      if (!(await mayGoOn())) return false;
    }
  };

  /** @returns false where another process has the lease. @throws unavailable. */
  const extendAll = async (
    tenants: readonly string[],
    end: string,
    mayGoOn: () => Promise<boolean>,
  ): Promise<boolean> => {
    for (const tenant_id of tenants) {
      try {
        if (!(await extend(tenant_id, end, mayGoOn))) return false;
        if (tampered.delete(tenant_id)) ctx.log.info({ tenant_id }, 'the Merkle tree of the audit log is right again');
      } catch (error) {
        if (!(error instanceof TreeTampered)) throw error;
        // The tree stays as it is, and no other tenant waits for it.
        if (!tampered.has(tenant_id))
          ctx.log.error(
            { alarm: 'tampered', tenant_id, reason: error.message },
            'the Merkle tree of the audit log is not the one that was signed; nothing is signed until it is',
          );
        tampered.add(tenant_id);
      }
      if (!(await mayGoOn())) return false;
    }
    return true;
  };

  let thinnedAtMs = Number.NEGATIVE_INFINITY;
  /** The window of an hourly run overlaps that of the one before. @throws unavailable. */
  const thin = async (nowMs: number): Promise<void> => {
    if (nowMs - thinnedAtMs < HOUR_MS) return;
    thinnedAtMs = nowMs;
    const before = (ms: number): Date => new Date(nowMs - ms);
    await thinCheckpoints(query, 'hour', before(ALL_KEPT_MS + DAY_MS), before(ALL_KEPT_MS));
    await thinCheckpoints(query, 'day', before(HOURLY_KEPT_MS + 2 * DAY_MS), before(HOURLY_KEPT_MS));
  };

  return {
    /**
     * Brings all trees up to date and signs those that grew, or until another process has the lease. What a killed process left
     * undone is done by the next one: a step writes leaves, state and checkpoint together or not at all.
     * @param holder an id of the process. @throws unavailable.
     */
    async build(holder: string, isStopping: () => boolean = () => false): Promise<void> {
      let renewedAtMs = performance.now();
      const mayGoOn = async (): Promise<boolean> => {
        if (isStopping()) return false;
        if (performance.now() - renewedAtMs < LEASE_MS / 4) return true;
        renewedAtMs = performance.now();
        return takeLease(ctx.db, LEASE, holder, LEASE_MS);
      };
      if (!(await takeLease(ctx.db, LEASE, holder, LEASE_MS))) {
        unhashed = undefined;
        return;
      }
      named = 0;
      const nowMs = ctx.now().getTime();
      const end = firstIdAt(nowMs - STREAM_DELAY_MS);
      let position = await findStreamPosition(query, TREE_STREAM, LEAST_ID);
      if (position === LEAST_ID || position > firstIdAt(nowMs)) {
        // The first run of a vault, or a position that no server has written: all rows that are there.
        let tenant_id = await findLogTenantAfter(query, LEAST_ID);
        for (; tenant_id !== undefined; tenant_id = await findLogTenantAfter(query, tenant_id))
          if (!(await extendAll([tenant_id], end, mayGoOn))) return;
        if (!(await moveStreamPosition(query, TREE_STREAM, position, end))) return;
        position = end;
      }
      if (!(await extendAll([...tampered], end, mayGoOn))) return;
      // From where this process was, too: the position in the database is not to be trusted.
      const isRecent = builtTo !== undefined && builtTo > firstIdAt(nowMs - SPAN_MS);
      let from = isRecent && builtTo !== undefined && builtTo < position ? builtTo : position;
      while (from < end) {
        const spanEnd = firstIdAt(timeOfId(from).getTime() + SPAN_MS);
        const to = spanEnd < end ? spanEnd : end;
        // Rows are read up to the end: a tenant of several spans is done once.
        if (!(await extendAll(await findWriters(query, from, to), end, mayGoOn))) return;
        if (to > position && !(await moveStreamPosition(query, TREE_STREAM, position, to))) return;
        position = to > position ? to : position;
        from = to;
      }
      builtTo = end;
      unhashed = await countAhead(query, end, UNHASHED_COUNTED_MAX);
      await thin(nowMs);
    },
    figures: () => ({
      /** The time up to which all rows are in signed trees; 0 before the first run. */
      signedUntilMs: builtTo === undefined ? 0 : timeOfId(builtTo).getTime(),
      /** Undefined where another process builds. */
      unhashed,
      /** Tenants whose stored tree is not continued. */
      tampered: tampered.size,
    }),
  };
};

/** Builds at once and each minute, in turn with other processes. A failure is logged once, and tried again. @returns stop, which waits for a running step. */
export const startBuildingTrees = (ctx: Building & Pick<Platform, 'newUuid'>): (() => Promise<void>) => {
  const builder = createTreeBuilder(ctx);
  const holder = ctx.newUuid();
  ctx.metrics.read('strongroom_log_signed_until_timestamp_seconds', () => [
    [{}, builder.figures().signedUntilMs / 1000],
  ]);
  ctx.metrics.read('strongroom_log_rows_unhashed', () => {
    const { unhashed } = builder.figures();
    return unhashed === undefined ? [] : [[{}, unhashed]];
  });
  ctx.metrics.read('strongroom_log_trees_tampered', () => [[{}, builder.figures().tampered]]);
  let isFailing = false;
  let isStopping = false;
  const build = async (): Promise<void> => {
    try {
      await builder.build(holder, () => isStopping);
      if (isFailing) ctx.log.info('the audit log is hashed and signed again');
      isFailing = false;
    } catch (error) {
      if (!isFailing)
        ctx.log.error(
          { alarm: 'log_trees_failed', error },
          'the audit log cannot be hashed and signed; it goes on where it stopped when it can',
        );
      isFailing = true;
    }
  };
  const { run, stop } = runPeriodically(BUILD_EVERY_MS, build);
  run();
  return () => {
    isStopping = true;
    return stop();
  };
};
