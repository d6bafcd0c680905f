// Prints the environment variables in the help: those that matter first, or every one.
import type { environmentSchema } from '../platform/config/config.ts';
import { aligned } from './command-table.ts';

type VariableName = keyof typeof environmentSchema.shape;

/**
 * First variables of the help, as many as it has commands: what most servers set, and no more than a person reads. They have a
 * text of their own, for the help is answered at once: the schema would load packages.
 */
export const firstVariables = {
  NODE_ENV: 'production switches every development convenience off',
  HOST: 'address to listen on; 127.0.0.1 if not set',
  PORT: 'port to listen on; 8080 if not set',
  DATA_DIR: 'where a development server keeps its database and keys; ./data if not set',
  WORKERS: 'processes that serve, on one port; auto in production if not set',
  PUBLIC_URL: 'where people reach this server, such as https://vault.example.com',
  TRUSTED_PROXIES: 'networks whose X-Forwarded-For is believed, such as 10.0.0.0/8',
  DATABASE_URL: 'PostgreSQL 15 or newer; an embedded one if not set',
  MASTER_KEY: 'root key, 32 random bytes in base64; or MASTER_KEY_FILE',
  LOG_SIGNING_KEY: 'key that signs the audit log: logs keygen',
  SMTP_URL: 'mail server for invitations and password resets',
  METRICS_TOKEN: 'bearer token that GET /metrics asks for',
} as const satisfies Partial<Record<VariableName, string>>;

const HEADING =
  'Environment variables (docs/operations/configuration.md, and /guides/operations/configuration of a server):';

const firstSentence = (text: string): string => /^.*?\.(?= |$)/.exec(text)?.[0] ?? text;

/** Every variable, with the first sentence of the documentation. */
const allRows = async (): Promise<(readonly [string, string])[]> => {
  const config = await import('../platform/config/config.ts');
  return Object.entries(config.environmentSchema.shape).map(
    ([name, { description = '' }]) => [name, firstSentence(description)] as const,
  );
};

/** @param isWhole whether it has every variable. */
export const variablesHelp = async (isWhole: boolean): Promise<string> => {
  const rows = isWhole
    ? await allRows()
    : [...Object.entries(firstVariables), ['--help --all', 'all variables'] as const];
  return `${HEADING}\n\n${aligned(rows)}\n`;
};
