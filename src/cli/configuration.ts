// Generates tables of the docs: variables, commands, metrics, limits, roles, codes of errors. And the names that the Helm chart takes.
import { readFileSync, writeFileSync } from 'node:fs';
import { API_KEYS_MAX, API_KEYS_OF_TENANT_MAX } from '../modules/access/application-keys.ts';
import { APPLICATIONS_MAX } from '../modules/access/applications.ts';
import { FORMULAS_MAX } from '../modules/code/formulas.ts';
import { PEOPLE_MAX } from '../modules/people/invitations.ts';
import { PROXIES_MAX } from '../modules/proxy/proxies.ts';
import { REACTORS_MAX } from '../modules/reactors/reactors.ts';
import { accountLimits, type LimitName } from '../platform/base/accounts.ts';
import { describeRole, roles } from '../modules/people/roles.ts';
import { environmentSchema, fileVariables } from '../platform/config/config.ts';
import { failureCauses, failureKinds, fieldCodes } from '../platform/json/problem-codes.ts';
import { createMetrics } from '../platform/metrics/metrics.ts';
import { withChartNames } from './chart-variables.ts';
import { timesTable } from './times-table.ts';
import { commandTexts } from './command-table.ts';

const cell = (text: string): string => text.replaceAll('|', '\\|');

/** @returns a Markdown table: variable, default, meaning. */
const configurationTable = (): string => {
  const rows = Object.entries(environmentSchema.shape).map(([name, schema]) => {
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
  { page: 'docs/operations/configuration.md', mark: 'configuration', table: configurationTable },
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
