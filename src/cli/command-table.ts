// The one table of the operator's commands: options, help texts and examples all come from it. Runs nothing.
import type { parseArgs } from 'node:util';

type OptionText = { value?: string; text: string };

/** Every option that some command takes. With `value` it takes one, named so in the help. */
const options = {
  'tenant-name': { value: 'NAME', text: 'name of the tenant' },
  name: { value: 'NAME', text: 'name of the tenant or application' },
  tenant: { value: 'ID', text: 'id of the tenant; not needed where there is only one' },
  'owner-email': { value: 'ADDRESS', text: 'also invites this person as the owner, and prints the link' },
  email: { value: 'ADDRESS', text: 'e-mail address of the person' },
  permissions: {
    value: 'LIST',
    text: 'permissions of the key, comma-separated; all if neither these nor rules are given',
  },
  rules: { value: 'JSON', text: 'access rules of the key, as an array' },
  args: { value: 'JSON', text: 'what the code gets as args; {} if not given' },
  configuration: { value: 'JSON', text: 'what the code gets as configuration; {} if not given' },
  json: { text: 'prints JSON, one object a line' },
  'print-sql': { text: 'prints it on standard output; nothing is connected to' },
  check: { text: 'compares the file and writes nothing' },
} as const satisfies Record<string, OptionText>;

export type OptionName = keyof typeof options;

type CommandText = {
  summary: string;
  /** More sentences, for its own help. */
  more?: string;
  operand?: string;
  required?: readonly OptionName[];
  optional?: readonly OptionName[];
  examples: readonly string[];
};

const table = {
  bootstrap: {
    summary: 'makes the first tenant of an empty vault, and its API key',
    more: 'The key is printed once. A vault that has a tenant already is not changed.',
    required: ['tenant-name'],
    optional: ['permissions', 'rules', 'owner-email', 'json'],
    examples: ['bootstrap --tenant-name Payments --owner-email ada@example.com'],
  },
  'tenants create': {
    summary: 'makes a further tenant, with an application and its API key',
    required: ['name'],
    optional: ['permissions', 'rules', 'owner-email', 'json'],
    examples: ['tenants create --name Payments --json'],
  },
  'tenants list': {
    summary: 'lists the tenants with their ids',
    optional: ['json'],
    examples: ['tenants list'],
  },
  'keys create': {
    summary: 'makes an application with an API key in a tenant',
    more: 'The key is printed once.',
    optional: ['tenant', 'name', 'permissions', 'rules', 'json'],
    examples: [
      'keys create --name Checkout --permissions token:create',
      `keys create --name Reader --rules '[{"description":"Cards","priority":1,"container":"/pci/","transform":"reveal","permissions":["token:read"]}]'`,
    ],
  },
  'keys list': {
    summary: 'lists the API keys of a tenant by their public part, with their applications',
    optional: ['tenant', 'json'],
    examples: ['keys list'],
  },
  'keys revoke': {
    summary: 'ends an API key',
    more: 'KEY is its public part, as keys list prints it. Running servers refuse the key within a second. The application stays.',
    operand: 'KEY',
    optional: ['tenant', 'json'],
    examples: ['keys revoke svc_live_4fQz81LmN0bVxT2c'],
  },
  'owner invite': {
    summary: 'prints a link for the owner of a tenant that has none yet',
    required: ['email'],
    optional: ['tenant', 'json'],
    examples: ['owner invite --email ada@example.com'],
  },
  'password reset': {
    summary: 'gives a person a temporary password, and ends their sessions',
    required: ['email'],
    optional: ['json'],
    examples: ['password reset --email ada@example.com'],
  },
  'formulas install': {
    summary: 'installs or updates the official formulas',
    optional: ['json'],
    examples: ['formulas install'],
  },
  migrate: { summary: 'applies pending migrations to the database', examples: ['migrate'] },
  doctor: {
    summary: 'checks what a start needs, and says how to fix it',
    more: 'Exits with 1 when a check fails. A warning is no failure.',
    optional: ['json'],
    examples: ['doctor', 'doctor --json'],
  },
  setup: {
    summary: 'writes .env and secrets/ with random secrets for docker compose',
    more: 'A file that exists is not changed. What an .env of an earlier release has is taken from it.',
    examples: ['setup'],
  },
  'db roles': {
    summary: 'prints the SQL that makes the roles of the database',
    more: 'psql runs it as a superuser, with a password in its environment for each role that is wanted: OWNER_PASSWORD (owns the tables and migrates), SERVER_PASSWORD (serves), SUPPORT_PASSWORD (reads tenants, applications and the audit log).',
    required: ['print-sql'],
    examples: ['db roles --print-sql | OWNER_PASSWORD=... SERVER_PASSWORD=... psql -d strongroom'],
  },
  'reactor run': {
    summary: 'runs a JavaScript file in the sandbox, without a vault',
    operand: 'FILE',
    optional: ['args', 'configuration', 'json'],
    examples: [`reactor run charge.js --args '{"amount":1250}'`],
  },
  openapi: {
    summary: 'writes openapi/openapi.json, or compares it',
    optional: ['check'],
    examples: ['openapi --check'],
  },
  readme: { summary: "writes the README's table of variables again", examples: ['readme'] },
} as const satisfies Record<string, CommandText>;

export type CommandName = keyof typeof table;

const texts: Record<CommandName, CommandText> = table;
const names = Object.keys(table) as CommandName[];

const PROGRAM = 'npm run -s strongroom --';

/** What parseArgs takes: the options of all commands. */
export const parseOptions = {
  ...(Object.fromEntries(
    Object.entries(options).map(([name, option]) => [name, { type: 'value' in option ? 'string' : 'boolean' }]),
  ) as { [Name in OptionName]: { type: (typeof options)[Name] extends { value: string } ? 'string' : 'boolean' } }),
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
} as const;

/** The options of a command line, as they were read. */
export type Values = ReturnType<typeof parseArgs<{ options: typeof parseOptions; allowPositionals: true }>>['values'];

const aligned = (rows: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n');
};

const optionWords = (name: OptionName): string => {
  const option: OptionText = options[name];
  return option.value === undefined ? `--${name}` : `--${name} ${option.value}`;
};

const summaries = (of: readonly CommandName[]): string =>
  aligned(of.map((name) => [[name, texts[name].operand].filter(Boolean).join(' '), texts[name].summary]));

/** The help of everything. */
export const usage = `${PROGRAM} COMMAND [OPTIONS]

The operator's commands. Each takes its database and keys from the same environment as the server.

${summaries(names)}

  COMMAND --help  options and examples of a command
  --version       the version of this release
`;

/** The help of one command. */
export const helpOf = (name: CommandName): string => {
  const { summary, more, operand, required = [], optional = [], examples } = texts[name];
  const synopsis = [name, operand, ...required.map(optionWords), ...optional.map((each) => `[${optionWords(each)}]`)];
  const rows = [...required, ...optional].map((each) => [optionWords(each), options[each].text] as const);
  return [
    `${PROGRAM} ${synopsis.filter(Boolean).join(' ')}\n`,
    `${summary[0]?.toUpperCase()}${summary.slice(1)}.${more === undefined ? '' : ` ${more}`}\n`,
    ...(rows.length > 0 ? [`${aligned(rows)}\n`] : []),
    `Examples:\n${examples.map((example) => `  ${PROGRAM} ${example}`).join('\n')}\n`,
  ].join('\n');
};

/** The commands that begin with a word, such as `tenants`; undefined where none does. */
export const groupHelp = (word: string): string | undefined => {
  const found = names.filter((name) => name.startsWith(`${word} `));
  return found.length === 0 ? undefined : `${PROGRAM} ${word} COMMAND\n\n${summaries(found)}\n`;
};

/** The command that words name, and the words behind it. */
export const findCommand = (words: readonly string[]): { name: CommandName; operands: string[] } | undefined => {
  for (const length of [2, 1]) {
    const wanted = words.slice(0, length).join(' ');
    const name = names.find((each) => each === wanted);
    if (name !== undefined && words.length >= length) return { name, operands: words.slice(length) };
  }
  return undefined;
};

/** What is wrong with the use of a command, in words; undefined where nothing is. */
export const misuseOf = (
  name: CommandName,
  given: readonly string[],
  operands: readonly string[],
): string | undefined => {
  const { operand, required = [], optional = [] } = texts[name];
  const known: readonly string[] = [...required, ...optional];
  const unknown = given.find((each) => !known.includes(each));
  if (unknown !== undefined) return `${name} has no option --${unknown}.`;
  const missing = required.find((each) => !given.includes(each));
  if (missing !== undefined) return `The option --${missing} is needed.`;
  if (operand !== undefined && operands.length === 0) return `${name} needs ${operand}.`;
  const surplus = operands[operand === undefined ? 0 : 1];
  return surplus === undefined ? undefined : `${name} takes no "${surplus}".`;
};
