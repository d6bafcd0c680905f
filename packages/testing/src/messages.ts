// What the package and the guard process of a vault say to each other.

/** What the guard is told at its start, as JSON in its argument. */
export type Asked = {
  /** The directory of the package `strongroom`. */
  server: string;
  /** Directory in which the vault gets one of its own. */
  directory: string;
  /** All that the vault's process gets. */
  environment: Record<string, string>;
};

/** The one line that the guard writes. */
export type Told =
  | { kind: 'ready'; url: string; key: string; tenantId: string; applicationId: string; dataDir: string }
  | { kind: 'failed'; reason: string };
