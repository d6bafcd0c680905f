// The services that every module is built on. context.ts makes them; nothing here knows a module.
import type { Accounts } from '../base/accounts.ts';
import type { Changes } from '../base/cache.ts';
import type { Config } from '../config/config.ts';
import type { DigestKey } from '../crypto/digest.ts';
import type { RootKeys } from '../crypto/key-provider.ts';
import type { LogSigning } from '../crypto/log-signing.ts';
import type { Keyring } from '../crypto/keyring.ts';
import type { RandomBytes } from '../crypto/random.ts';
import type { Database } from '../db/database.ts';
import type { MigrationResult } from '../maintenance/migrate.ts';
import type { EmbeddedPostgres } from '../dev-postgres/dev-postgres.ts';
import type { Egress } from '../egress/client.ts';
import type { HeldOperations } from '../base/held-operations.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { Sandbox } from '../sandbox/protocol/sandbox.ts';
import type { TestClock } from '../base/test-clock.ts';
import type { Tracing } from '../tracing/tracing.ts';

export type Platform = {
  readonly config: Config;
  /** Part of every key and every sealed value: what a test server wrote, a live one does not open. */
  readonly environment: 'test' | 'live';
  readonly log: Log;
  readonly now: () => Date;
  /** The clock that `now` reads, where tests may advance it. */
  readonly testClock: TestClock | undefined;
  /** A clock that never goes back, in milliseconds. */
  readonly monotonicMs: () => number;
  readonly randomBytes: RandomBytes;
  readonly newUuid: () => string;
  /** A log row's id, whose time is the row's. */
  readonly newLogId: (at: Date) => string;
  readonly db: Database;
  /** What each tenant holds of this process. */
  readonly accounts: Accounts;
  /** Requests that are refused because they held the event loop. */
  readonly heldOperations: HeldOperations;
  /** Tells the caches of this process what has changed. */
  readonly changes: Changes;
  /** What this process counts and measures. */
  readonly metrics: Metrics;
  /** Makes spans of requests and their hops; undefined where traces are off. */
  readonly tracing: Tracing | undefined;
  /** The metrics of the whole server, of all its workers, in the Prometheus text format. */
  readonly metricsText: () => Promise<string>;
  /** Whether the last upgrade is over. */
  readonly provider: RootKeys;
  readonly keyring: Keyring;
  /** The key under which API keys and proxy keys are digested. */
  readonly pepper: DigestKey;
  /** The keys that sign and verify checkpoints of the audit log. */
  readonly logSigning: LogSigning;
  /** Marks the requests that this vault forwards. */
  readonly loop_id: string;
  /** Runs the code of tenants. A server starts it; in a command it starts with its first use. */
  readonly sandbox: Sandbox;
  /** Sends requests to destinations. */
  readonly egress: Egress;
  /** Undefined where no mail is sent. */
  readonly mailer: Mailer | undefined;
  /** Undefined where DATABASE_URL names the database. */
  readonly embedded: EmbeddedPostgres | undefined;
  readonly migrations: MigrationResult;
  /** On after a signal: load balancers and clients are told to leave, and requests are served until they have. */
  readonly draining: { isOn: boolean };
  /** Registers what must be closed before the services are. Closed in reverse order. */
  readonly onClose: (close: () => Promise<void>) => void;
  close(): Promise<void>;
};
