// Generated tables of the documentation and of the Helm chart, and the OpenAPI document.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import {
  BALANCER_MS,
  BODY_MS,
  claimMs,
  CONNECT_MS,
  fetchMs,
  HEADERS_MS_MAX,
  KEEP_ALIVE_MS,
  MEMORY_WAIT_MS,
  READ_MS_MAX,
  REQUEST_MS_MAX,
  RESPONSE_MS_MAX,
  RUN_MS,
  RUN_STARTS_MAX,
  RUN_WAIT_MS,
  STOP_HALF_SENT_MS,
  STOP_MS,
  STOP_WAIT_MS,
  STOP_WORKERS_MS,
  svcProxyMs,
  TIMEOUT_SECONDS,
  timeoutsOf,
} from '../platform/base/times.ts';
import { API_KEYS_MAX, API_KEYS_OF_TENANT_MAX } from '../modules/access/application-keys.ts';
import { APPLICATIONS_MAX } from '../modules/access/applications.ts';
import { FORMULAS_MAX } from '../modules/code/formulas.ts';
import { PEOPLE_MAX } from '../modules/people/invitations.ts';
import { PROXIES_MAX } from '../modules/proxy/proxies.ts';
import { REACTORS_MAX } from '../modules/reactors/reactors.ts';
import { accountLimits, type LimitName } from '../platform/base/accounts.ts';
import { describeRole, roles } from '../modules/people/roles.ts';
import { environmentSchema, fileVariables, loadConfig } from '../platform/config/config.ts';
import { failureCauses, failureKinds, fieldCodes } from '../platform/json/problem-codes.ts';
import { createMetrics } from '../platform/metrics/metrics.ts';
import { commandTexts } from './command-table.ts';
import { firstVariables } from './variable-help.ts';
import { buildApp } from '../app.ts';
import type { Context } from '../modules.ts';
import { documentOf } from '../platform/http/openapi/openapi.ts';
import { StartError } from '../platform/base/errors.ts';
import { createLog } from '../platform/base/log.ts';
import type { CommandIo } from './command.ts';

// The table of times of docs/operations/times.md.

const seconds = (ms: number): string => `${(ms / 1000).toLocaleString('en')} s`;

const { least, usual, most } = TIMEOUT_SECONDS;

const rows: readonly [what: string, time: string, after: string][] = [
  ['Headers of a request; the whole request', `${seconds(HEADERS_MS_MAX)}; ${seconds(REQUEST_MS_MAX)}`, '408'],
  ['A run waits for an executor', seconds(RUN_WAIT_MS), '429 or 503'],
  ['Connection to a destination', seconds(CONNECT_MS), '504'],
  [
    'Head of its response, from the start of the request',
    `${seconds(usual * 1000)}; \`timeout_seconds\` of a stored proxy, ${least} to ${most}`,
    '504',
  ],
  [
    'Whole response',
    `${seconds(BODY_MS)} more: ${seconds(timeoutsOf(usual).wholeMs)}, at most ${seconds(RESPONSE_MS_MAX)}`,
    'the response breaks off; 504 if a transform reads it',
  ],
  ['Memory for a response that a transform or code reads', seconds(MEMORY_WAIT_MS), '429 or 503'],
  ['A run of code, `SANDBOX_WALL_MS`', `${seconds(RUN_MS.usual)}, at most ${seconds(RUN_MS.most)}`, '408'],
  [
    '`fetch` in code; `svc.proxy`',
    `28/30 and 29/30 of what the run has left: ${seconds(fetchMs(RUN_MS.usual))}; ${seconds(svcProxyMs(RUN_MS.usual))}`,
    'an error that code can catch: `TIMEOUT`; 504',
  ],
  ['A client takes 64 KiB of a response, or its rest', seconds(READ_MS_MAX), 'the connection is closed'],
  ['An idle connection of a client', seconds(KEEP_ALIVE_MS), 'the connection is closed'],
  [
    'Claim of an idempotency key whose server died',
    `${seconds(claimMs(0))} and ${RUN_STARTS_MAX} runs: ${seconds(claimMs(RUN_MS.usual))}`,
    'the request may be repeated',
  ],
  ['A server that stops: half-sent requests', seconds(STOP_HALF_SENT_MS), 'cut'],
  ['A server that stops: requests under way', seconds(STOP_WAIT_MS), 'cut'],
  [
    'A server that stops: its process; its supervisor',
    `${seconds(STOP_MS)}; ${seconds(STOP_MS + STOP_WORKERS_MS)}`,
    'exit',
  ],
  ['The load balancer in front waits for a response', seconds(BALANCER_MS), '504 of its own'],
];

/** @returns a Markdown table: what has a time, how long, what happens after it. */
const timesTable = (): string =>
  ['| What | Time | After it |', '|---|---|---|', ...rows.map((row) => `| ${row.join(' | ')} |`)].join('\n');

// Generates tables of the docs: variables, commands, metrics, limits, roles, codes of errors. And the names that the Helm chart takes.

const cell = (text: string): string => text.replaceAll('|', '\\|');

/** @returns a Markdown table: variable, default, meaning. */
const configurationTable = (names: readonly string[] = Object.keys(environmentSchema.shape)): string => {
  const rows = names.map((name) => {
    const schema = environmentSchema.shape[name as keyof typeof environmentSchema.shape];
    const parsed = schema.safeParse(undefined);
    const value = name === 'CVC_TTL' ? '1h' : parsed.success ? parsed.data : undefined;
    const shown = value === undefined ? '' : `\`${String(value)}\``;
    return `| \`${name}\` | ${shown} | ${cell(schema.description ?? '')} |`;
  });
  return ['| Variable | Default | Meaning |', '|---|---|---|', ...rows].join('\n');
};

/** @returns a Markdown table: command, meaning. */
const commandTable = (): string => {
  const rows = commandTexts().map(({ synopsis, text }) => `| \`${synopsis}\` | ${cell(text)} |`);
  return ['| Command | Meaning |', '|---|---|', ...rows].join('\n');
};

const limitTexts: Record<LimitName, string> = {
  request_bytes: 'Bodies of requests to destinations that are in memory',
  response_bytes: 'Bodies of responses of destinations that code or a transform reads',
  body_bytes: 'Bodies of requests to the server, until the response was sent',
  unsent_bytes: 'Responses that clients have not taken yet',
  run_bytes: 'Inputs and results of runs of code',
  waiting_requests: 'Requests that wait because others ask too and the tenant has used its share of the event loop',
  runs: 'Runs of code, under way and waiting',
  connections: 'Connections to destinations, in use and idle',
  long_work: 'Requests with long work, under way at the same time',
  transactions: 'Transactions that wait for a database connection',
  statements: 'Statements that wait for a database connection',
  queued_rows: 'Rows that wait to be written, after the first 1,000',
  queued_bytes: 'Their bytes',
  queued_lookups: 'Tokens that wait to be looked up, after the first 1,000',
};

const MEBIBYTE = 1024 * 1024;

/** @returns a Markdown table: limit, of all tenants, of one at most and at least. */
const limitTable = (): string => {
  const rows = Object.entries(accountLimits).map(([name, { ofAll, ofTenantMax, ofTenantLeast }]) => {
    const amounts = [ofAll, ofTenantMax, ofTenantLeast].map((amount) =>
      name.endsWith('bytes') ? `${amount / MEBIBYTE} MiB` : amount.toLocaleString('en'),
    );
    return `| ${[name.replaceAll('_', ' '), limitTexts[name as LimitName], ...amounts].join(' | ')} |`;
  });
  const head = ['| Limit | What is counted | All tenants | One at most | One at least |', '|---|---|---|---|---|'];
  return [...head, ...rows].join('\n');
};

const recordLimits: readonly [what: string, max: number][] = [
  ['Applications', APPLICATIONS_MAX],
  ['API keys of one application', API_KEYS_MAX],
  ['API keys of all applications, above which none gets a further one', API_KEYS_OF_TENANT_MAX],
  ['Formulas', FORMULAS_MAX],
  ['Reactors', REACTORS_MAX],
  ['Proxies', PROXIES_MAX],
  ['Members and invitations', PEOPLE_MAX],
];

/** @returns a Markdown table: records, how many a tenant may have. */
const recordTable = (): string => {
  const rows = recordLimits.map(([what, max]) => `| ${what} | ${max.toLocaleString('en')} |`);
  return ['| Records | A tenant at most |', '|---|---|', ...rows].join('\n');
};

/** @returns a Markdown table: metric, type, labels, meaning. */
const metricTable = (): string => {
  const metrics = createMetrics();
  metrics.watchProcess();
  const rows = metrics.describe().map(({ name, type, labels, help }) => {
    const shown = labels.map((label) => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${type} | ${shown} | ${cell(help)} |`;
  });
  return ['| Metric | Type | Labels | Meaning |', '|---|---|---|---|', ...rows].join('\n');
};

/** @returns a Markdown table: role, what it may do. */
const roleTable = (): string =>
  ['| Role | What it may do |', '|---|---|', ...roles.map((role) => `| ${role} | ${cell(describeRole(role))} |`)].join(
    '\n',
  );

/** @returns a Markdown table: status, code of a problem, meaning; causes below their kinds. */
const problemCodeTable = (): string => {
  const causes = Object.entries(failureCauses);
  const rows = Object.entries(failureKinds).flatMap(([kind, [status, meaning]]) => [
    [kind, status, meaning] as const,
    ...causes.flatMap(([cause, [of, text]]) => (of === kind ? [[cause, status, text] as const] : [])),
  ]);
  return [
    '| Status | `code` | Meaning |',
    '|---|---|---|',
    ...rows.map(([code, status, meaning]) => `| ${status} | \`${code}\` | ${cell(meaning)} |`),
  ].join('\n');
};

/** @returns a Markdown table: code of a sentence, meaning. */
const fieldCodeTable = (): string => {
  const rows = Object.entries(fieldCodes).map(([code, meaning]) => `| \`${code}\` | ${cell(meaning)} |`);
  return ['| Code | Meaning |', '|---|---|', ...rows].join('\n');
};

/** @returns a Markdown list of the variables that may name files. */
const fileList = (): string => fileVariables.map((name) => `- \`${name}_FILE\``).join('\n');

/** The pages with a generated table between two comments. */
export const generatedPages = [
  { page: 'docs/api.md', mark: 'problem-codes', table: problemCodeTable },
  { page: 'docs/api.md', mark: 'field-codes', table: fieldCodeTable },
  {
    page: 'docs/operations/configuration.md',
    mark: 'first-variables',
    table: () => configurationTable(Object.keys(firstVariables)),
  },
  { page: 'docs/operations/configuration.md', mark: 'configuration', table: () => configurationTable() },
  { page: 'docs/operations/configuration.md', mark: 'files', table: fileList },
  { page: 'docs/console.md', mark: 'roles', table: roleTable },
  { page: 'docs/operations/commands.md', mark: 'commands', table: commandTable },
  { page: 'docs/operations/limits.md', mark: 'limits', table: limitTable },
  { page: 'docs/operations/limits.md', mark: 'records', table: recordTable },
  { page: 'docs/operations/metrics.md', mark: 'metrics', table: metricTable },
  { page: 'docs/operations/times.md', mark: 'times', table: timesTable },
] as const;

/** @returns the text of a page with the current table between its comments. */
export const withGenerated = (text: string, { mark, table }: (typeof generatedPages)[number]): string =>
  text.replace(
    new RegExp(`(<!-- ${mark} -->\n)[\\s\\S]*?(<!-- /${mark} -->)`),
    (_, open: string, close: string) => `${open}${table()}\n${close}`,
  );

export const writeGeneratedPages = (): void => {
  for (const generated of generatedPages) {
    const path = new URL(`../../${generated.page}`, import.meta.url);
    writeFileSync(path, withGenerated(readFileSync(path, 'utf8'), generated));
  }
  const schema = new URL('../../deploy/helm/values.schema.json', import.meta.url);
  writeFileSync(schema, withChartNames(readFileSync(schema, 'utf8')));
};

// The names that the Helm chart takes: variables that are no secrets, and keys of its secret. They are in its values.schema.json.

/** Secrets, which are files: VAULT_TOKEN_FILE is a variable of its own. */
const secrets: readonly string[] = [...fileVariables, 'VAULT_TOKEN'];

/** Variables that the chart sets itself, and those that a server in production must not have. */
const notOfOperator = new Set([
  'MIGRATE_ON_START',
  'DRAIN_SECONDS',
  'STRONGROOM_COMMAND',
  'METRICS_PORT',
  'METRICS_HOST',
  'NODE_ENV',
  'HOST',
  'PORT',
  'DATA_DIR',
  'ALLOW_DEV_ON_NETWORK',
  'STRONGROOM_DEV_KEY',
  'TEST_ENDPOINTS',
  'TEST_TEMPLATE_DIR',
  'BOOTSTRAP_API_KEY_FILE',
  'VAULT_TOKEN_FILE',
]);

const chartNames = {
  variables: Object.keys(environmentSchema.shape).filter((name) => !secrets.includes(name) && !notOfOperator.has(name)),
  secretKeys: secrets.map((name) => name.toLowerCase()),
};

/** @param schema the text of values.schema.json. @returns it with the names of today. */
export const withChartNames = (schema: string): string =>
  Object.entries(chartNames).reduce(
    (text, [part, names]) =>
      text.replace(
        new RegExp(`("${part}Known": \\{\\s*"enum": \\[)[^\\]]*\\]`),
        (_, open: string) => `${open}\n${names.map((name) => `        "${name}"`).join(',\n')}\n      ]`,
      ),
    schema,
  );

// Generates the OpenAPI document without a server: registers the routes and calls none.

/** @returns the text of openapi/openapi.json. It depends on the routes only, not on the environment. */
const openapiDocument = async (): Promise<string> => {
  // To register routes needs the configuration and the log only. Handlers need the rest of the context.
  const parts: Partial<Context> = { config: loadConfig({}), log: createLog('silent'), newUuid: () => '' };
  const app = await buildApp(parts as Context);
  const text = `${JSON.stringify(documentOf(app), null, 2)}\n`;
  await app.close();
  return text;
};

/** @param isCheck compares, and writes nothing. @throws StartError where the file is out of date. */
export const writeOpenapi = async (io: CommandIo, { isCheck }: { isCheck: boolean }): Promise<void> => {
  const text = await openapiDocument();
  const path = new URL('../../openapi/openapi.json', import.meta.url);
  if (isCheck) {
    if (readFileSync(path, 'utf8') !== text)
      throw new StartError('openapi/openapi.json is out of date. Run: npm run openapi');
    return;
  }
  mkdirSync(new URL('.', path), { recursive: true });
  writeFileSync(path, text);
  io.print('openapi/openapi.json written.');
};
