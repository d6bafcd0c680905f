// The operator's commands: their options, help texts and examples.
import { DELETED_TENANT_GRACE_MS } from '../platform/base/times.ts';

export type OptionText = { value?: string; text: string };

/** The options of all commands. One with `value` takes a value of that name in the help. */
export const options = {
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
  expires: { value: 'TIME', text: 'when the key ends, such as 2027-03-01T00:00:00Z; it does not if not given' },
  after: { value: 'DURATION', text: 'how long the old key still works, such as 15m or 24h; not at all if not given' },
  limits: { value: 'JSON', text: 'rate_limit, daily_reveals and daily_uses of the key, as an object' },
  args: { value: 'JSON', text: 'what the code gets as args; {} if not given' },
  configuration: { value: 'JSON', text: 'what the code gets as configuration; {} if not given' },
  to: { value: 'RECIPIENT', text: 'public key of age that the file is encrypted to, such as age1...' },
  identity: { value: 'KEYFILE', text: 'file with the secret key of age, as age-keygen writes it' },
  erasures: { value: 'LIST', text: 'file of erasures export: what it names is deleted again' },
  verify: { text: 'restores into a scratch database, checks it, prints a report and drops it' },
  format: { value: 'FORMAT', text: 'csv, jsonl, stripe, basis-theory, spreedly or strongroom' },
  id: { value: 'COLUMN', text: 'column with the id of the source, which becomes the id of the token' },
  map: {
    value: 'LIST',
    text: 'where columns go: number=card_number,expiration_month=month,metadata.customer=customer',
  },
  type: { value: 'TYPE', text: 'type of the tokens of --map; card if not given' },
  'number-format': { value: 'FORMAT', text: 'strict, or loose: numbers may have blanks and dashes' },
  decrypt: { value: 'KEYFILE', text: 'FILE is encrypted with age or OpenPGP, and this file has the secret key' },
  'passphrase-file': { value: 'FILE', text: 'passphrase of a key of OpenPGP; asked in the terminal if not given' },
  result: { value: 'FILE', text: 'file to write with the ids of the tokens; FILE.result if not given' },
  'dry-run': { text: 'checks every row and creates no token' },
  all: { text: 'all tenants' },
  encryption: { text: 'lists root keys and the keys of tenants, with how many values are sealed under each' },
  shares: { value: 'N', text: 'how many shares are made' },
  threshold: { value: 'K', text: 'how many of them make the key again, two at least' },
  new: { text: 'splits a new key, for a vault that is to be made' },
  drop: { text: 'drops the shares that were given' },
  status: { text: 'prints how many shares were given' },
  'public-key': { value: 'KEY', text: 'what erasures key has printed' },
  month: { value: 'MONTH', text: 'archives this month only, such as 2026-08' },
  keep: { text: 'writes the files and drops nothing' },
  key: { value: 'PUBLIC', text: 'public keys of the log as logs key prints them, comma-separated' },
  archives: { value: 'DIRECTORY', text: 'verifies the archives in it too: rows that the log says are there' },
  checkpoints: { value: 'FILE', text: 'checkpoints that you hold, as LOG_CHECKPOINT_FILE has them' },
  proof: { value: 'FILE', text: 'verifies the proof of one row, as logs prove prints it' },
  database: { text: 'verifies the rows in the database' },
  json: { text: 'prints JSON, one object a line' },
  'print-sql': { text: 'prints it on standard output; nothing is connected to' },
  check: { text: 'compares the file and writes nothing' },
} as const satisfies Record<string, OptionText>;

export type OptionName = keyof typeof options;

export type CommandText = {
  summary: string;
  /** Further sentences for its own help. */
  more?: string;
  operand?: string;
  /** Whether the command reads or writes its operand, which is a file or a directory. */
  file?: 'read' | 'written';
  /** Whether the command also runs without its operand. */
  isOperandOptional?: boolean;
  required?: readonly OptionName[];
  optional?: readonly OptionName[];
  examples: readonly string[];
};

export const table = {
  start: {
    summary: 'starts the server',
    more: 'What npm start does in a checkout. The options are environment variables (docs/operations/configuration.md).',
    examples: ['start'],
  },
  version: {
    summary: 'prints the version, and what a report of a problem should name',
    more: 'The commit if it is known, Node and its libraries, the PostgreSQL client, and the system. It connects to nothing.',
    optional: ['json'],
    examples: ['version', 'version --json'],
  },
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
  'api-keys create': {
    summary: 'makes an application with an API key in a tenant',
    more: 'The key is printed once.',
    optional: ['tenant', 'name', 'permissions', 'rules', 'limits', 'json'],
    examples: [
      'api-keys create --name Checkout --permissions token:create',
      `api-keys create --name Support --permissions token:read --limits '{"daily_reveals":200}'`,
      `api-keys create --name Reader --rules '[{"description":"Cards","priority":1,"container":"/pci/","transform":"reveal","permissions":["token:read"]}]'`,
    ],
  },
  'api-keys list': {
    summary: 'lists the API keys of a tenant by their public part, with their applications and ends',
    optional: ['tenant', 'json'],
    examples: ['api-keys list'],
  },
  'api-keys add': {
    summary: 'adds an API key to an application, whose other keys go on to work',
    more: 'APPLICATION is the id of the application, as api-keys list prints it. The key is printed once.',
    operand: 'APPLICATION',
    optional: ['tenant', 'name', 'expires', 'json'],
    examples: ['api-keys add 6c0f5b0e-94a1-4c6e-8a63-1d2f7c1b9e30 --name Frankfurt --expires 2027-03-01T00:00:00Z'],
  },
  'api-keys rotate': {
    summary: 'adds an API key like another one, and ends the other: at once, or after a time',
    more: 'KEY is its public part, as api-keys list prints it. The new key has its application, name and addresses, and is printed once.',
    operand: 'KEY',
    optional: ['tenant', 'after', 'json'],
    examples: ['api-keys rotate svc_live_4fQz81LmN0bVxT2c --after 24h'],
  },
  'api-keys revoke': {
    summary: 'ends one API key',
    more: 'KEY is its public part, as api-keys list prints it. Running servers refuse the key within a second. The application and its other keys stay.',
    operand: 'KEY',
    optional: ['tenant', 'json'],
    examples: ['api-keys revoke svc_live_4fQz81LmN0bVxT2c'],
  },
  'keys list': {
    summary: 'lists the API keys of a tenant by their public part, with their applications; or encryption keys',
    more: 'With --encryption it lists the root keys and the keys of one tenant or all, with their ages and the number of values under each.',
    optional: ['tenant', 'encryption', 'json'],
    examples: ['keys list', 'keys list --encryption'],
  },
  'keys rotate-root': {
    summary: 'wraps every key of the vault under the root key MASTER_KEY, while servers run',
    more: 'All servers must have the new key as MASTER_KEY and the old one as MASTER_KEY_PREVIOUS before. A run that was stopped continues when it is repeated. Afterwards the old key opens nothing of this database; backups from before still need it.',
    optional: ['json'],
    examples: ['keys rotate-root'],
  },
  'keys rotate-tenant': {
    summary: 'makes a new data key for a tenant, or for all',
    more: 'The key seals after ten minutes. Then the servers re-seal in the background what is sealed under older keys, and delete these.',
    optional: ['tenant', 'all', 'json'],
    examples: ['keys rotate-tenant --tenant 0b7d8f0c-6f0e-4a55-8d1c-3f5f1f0e7c11', 'keys rotate-tenant --all'],
  },
  'keys split': {
    summary: 'splits the root key into shares for several persons, and prints them',
    more: 'Splits MASTER_KEY, or a new key with --new. A vault that is split already is split again: the shares are asked for. Each share is printed once.',
    required: ['shares', 'threshold'],
    optional: ['new', 'json'],
    examples: ['keys split --shares 3 --threshold 2', 'keys split --shares 5 --threshold 3 --new'],
  },
  'keys combine': {
    summary: 'prints the root key that shares make',
    more: 'It reads shares from the terminal or standard input, as many as MASTER_KEY_SHARES says. For a vault that is no longer to be split.',
    examples: ['keys combine'],
  },
  unseal: {
    summary: 'gives one share of the root key to a running, sealed server',
    more: 'The share is read from the terminal, where it is not shown, or from standard input. Run it as the user of the server, on its host.',
    optional: ['status', 'drop', 'json'],
    examples: ['unseal', 'unseal --status', 'unseal --drop'],
  },
  seal: {
    summary: 'makes a running server forget the root key and all keys of tenants',
    more: 'Requests get a 503 until the server is unsealed again. Needs MASTER_KEY_SHARES.',
    optional: ['json'],
    examples: ['seal'],
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
  'second-factor reset': {
    summary: 'removes the second factor of a person who lost the device, and ends their sessions',
    more: 'The person signs in with the password alone, and adds a device at once where their tenant requires one.',
    required: ['email'],
    optional: ['json'],
    examples: ['second-factor reset --email ada@example.com'],
  },
  'sso bind': {
    summary: "binds an e-mail domain to a tenant, whose provider then signs in that domain's people",
    more: 'Check first that the domain belongs to the tenant: its administrators decide from then on who signs in with such an address. A domain is bound to one tenant at most.',
    operand: 'DOMAIN',
    optional: ['tenant', 'json'],
    examples: ['sso bind example.com --tenant 3f6c1f0e-7a4b-4d2c-9b1e-5d8a2c4e6f70'],
  },
  'sso unbind': {
    summary: 'ends the binding of an e-mail domain',
    more: 'No one signs in by single sign-on with such an address any more. Sessions that have begun go on until they end.',
    operand: 'DOMAIN',
    optional: ['json'],
    examples: ['sso unbind example.com'],
  },
  'sso list': {
    summary: 'lists the e-mail domains that are bound to tenants',
    optional: ['json'],
    examples: ['sso list'],
  },
  'sso remove': {
    summary: 'removes the provider of a tenant, so that its members sign in by passwords again',
    more: 'For a provider that does not work any more, where the tenant accepts no passwords. It ends the sessions that began by single sign-on.',
    optional: ['tenant', 'json'],
    examples: ['sso remove --tenant 3f6c1f0e-7a4b-4d2c-9b1e-5d8a2c4e6f70'],
  },
  'formulas install': {
    summary: 'installs or updates the official formulas',
    optional: ['json'],
    examples: ['formulas install'],
  },
  import: {
    summary: 'creates tokens from a file of another system, under its ids',
    more: 'Rows that are stored already are not written again, and a run that was stopped continues. RESULT.faults has the numbers of refused rows, with reasons. Exits with 1 when rows were refused or the import could not end, and with 2 for wrong options or files.',
    operand: 'FILE',
    file: 'read',
    required: ['format'],
    optional: [
      'tenant',
      'id',
      'map',
      'type',
      'number-format',
      'decrypt',
      'passphrase-file',
      'result',
      'dry-run',
      'json',
    ],
    examples: [
      'import cards.csv --format csv --id card_id --map number=card_number,expiration_month=month,expiration_year=year --dry-run',
      'import cards.csv --format csv --id card_id --map number=pan,expiration=exp --number-format loose',
      'import stripe.csv.age --format stripe --decrypt key.txt --result stripe-tokens.csv',
    ],
  },
  export: {
    summary: 'writes all tokens of a tenant to a file encrypted with age',
    more: 'The file has the values of tokens as lines of JSON, as of one moment, without security codes and expired tokens. The audit log gets a row first. A file that exists is not overwritten.',
    operand: 'FILE',
    file: 'written',
    required: ['to'],
    optional: ['tenant', 'json'],
    examples: ['export tokens.jsonl.age --to age1...'],
  },
  migrate: {
    summary: 'applies pending migrations to the database',
    examples: ['migrate'],
  },
  backup: {
    summary: 'writes the vault into an encrypted file, while servers run',
    more: 'The file has every table as of one moment, without security codes and without the root key. A file that exists is not overwritten.',
    operand: 'FILE',
    file: 'written',
    required: ['to'],
    examples: ['backup vault-2026-11-24.age --to age1...'],
  },
  restore: {
    summary: 'restores a backup into a database without tenants',
    more: 'All of it or nothing. It needs the root key of the vault, and a role that may make tables. --verify leaves the database alone.',
    operand: 'FILE',
    file: 'read',
    required: ['identity'],
    optional: ['erasures', 'verify'],
    examples: [
      'restore vault-2026-11-24.age --identity backup.key --verify',
      'restore vault-2026-11-24.age --identity backup.key --erasures erasures-2026-11-25',
    ],
  },
  'erasures export': {
    summary: 'writes the list of what was deleted, for a restore',
    more: 'The list has kinds, ids and times, and no values. Export it often, and keep it elsewhere.',
    operand: 'FILE',
    file: 'written',
    examples: ['erasures export erasures-2026-11-25'],
  },
  'erasures list': {
    summary: 'lists deleted tenants, with whether their erasure certificate was issued',
    optional: ['json'],
    examples: ['erasures list'],
  },
  'erasures certificate': {
    summary: 'prints the signed certificate of what was destroyed with a tenant',
    more: `TENANT is the id of the deleted tenant. The certificate is issued when no row of it is left, ${DELETED_TENANT_GRACE_MS / 60_000} minutes after the deletion at the earliest.`,
    operand: 'TENANT',
    examples: ['erasures certificate 0b7d8f0c-6f0e-4a55-8d1c-3f5f1f0e7c11 > certificate.json'],
  },
  'erasures verify': {
    summary: 'verifies an erasure certificate without a vault',
    operand: 'FILE',
    file: 'read',
    required: ['public-key'],
    optional: ['json'],
    examples: ['erasures verify certificate.json --public-key 9xRm...='],
  },
  'erasures key': {
    summary: 'prints the public key that erasure certificates are verified with',
    examples: ['erasures key'],
  },
  'erasures replay': {
    summary: 'deletes again what a list names, after a recovery that was no restore of a backup',
    more: 'For point-in-time recovery, before servers start. It deletes the records of the list, and no later ones with the same ids.',
    operand: 'FILE',
    file: 'read',
    examples: ['erasures replay erasures-2026-11-25'],
  },
  'logs archive': {
    summary: 'writes old months of the audit log into files, and drops them from the database',
    more: 'DIRECTORY gets a compressed file and a manifest for each month that is older than LOG_RETENTION_MONTHS. A file is verified on disk before its month is dropped. It needs the role that owns the tables, and the root key, since it signs what it drops.',
    operand: 'DIRECTORY',
    file: 'written',
    optional: ['month', 'keep', 'json'],
    examples: ['logs archive /srv/archive', 'logs archive /srv/archive --month 2026-08 --keep'],
  },
  'logs read': {
    summary: 'prints the rows of an archive as lines of JSON, once its hashes are verified',
    more: 'It needs no database. The manifest must be beside the file.',
    operand: 'FILE',
    file: 'read',
    optional: ['tenant'],
    examples: ['logs read /srv/archive/audit-log-2026-08.jsonl.gz --tenant 0193a5f0-0000-4000-8000-000000000000'],
  },
  'logs export': {
    summary: 'writes the audit log of a tenant with what proves it, to be verified elsewhere',
    more: 'The file has the signed rows that are in the database as lines of JSON, with leaf hashes and checkpoints. A file that exists is not overwritten.',
    operand: 'FILE',
    file: 'written',
    optional: ['tenant', 'json'],
    examples: ['logs export audit-log.jsonl --tenant 0193a5f0-0000-4000-8000-000000000000'],
  },
  'logs verify': {
    summary: 'verifies an export or an archive of the audit log against its signed checkpoints',
    more: 'It names the first row that was changed, removed, added, moved or cut off, and exits with 1. FILE comes from logs export, or is the FILE.jsonl.gz of logs archive, and needs no database. --database verifies the rows in the database, of one tenant or all; rows that were archived with --archives. --proof verifies a proof that logs prove printed.',
    operand: 'FILE',
    file: 'read',
    isOperandOptional: true,
    optional: ['key', 'checkpoints', 'archives', 'proof', 'database', 'tenant', 'json'],
    examples: [
      'logs verify audit-log.jsonl --key "$PUBLIC_KEY" --checkpoints checkpoints.jsonl',
      'logs verify --database --archives /srv/archive --checkpoints checkpoints.jsonl',
      'logs verify --proof row.tlog-proof --key "$PUBLIC_KEY"',
    ],
  },
  'logs prove': {
    summary: 'prints a proof that a row is in the signed audit log',
    more: 'ROW is the id of the row: `id` of an entry in GET /logs?entity_id=ID or in logs export. The proof has the row, and is verified by logs verify --proof, and by tools for C2SP tlog-proof.',
    operand: 'ROW',
    optional: ['tenant'],
    examples: ['logs prove 0193a5f0-aaaa-7000-8000-000000000000 > row.tlog-proof'],
  },
  'logs key': {
    summary: 'prints the public key that verifies the audit log',
    more: 'With --tenant in the form that tools for C2SP logs read.',
    optional: ['tenant'],
    examples: ['logs key'],
  },
  'logs keygen': {
    summary: 'makes a key that signs the audit log, and prints its public key',
    more: 'Name FILE in LOG_SIGNING_KEY_FILE, and the earlier public key (see logs key) in LOG_SIGNING_KEYS_PREVIOUS. It needs no database.',
    operand: 'FILE',
    file: 'written',
    examples: ['logs keygen /etc/strongroom/log-signing-key.pem'],
  },
  doctor: {
    summary: 'checks what a start needs, and says how to fix it',
    more: 'Exits with 1 when a check fails. A warning is no failure.',
    optional: ['json'],
    examples: ['doctor', 'doctor --json'],
  },
  setup: {
    summary: 'writes .env and secrets/ with random secrets for docker compose',
    more: 'Into the working directory; npm run setup writes into deploy/compose/. A file that exists is not changed.',
    examples: ['setup'],
  },
  'db roles': {
    summary: 'prints the SQL that makes the roles of the database',
    more: 'psql runs it as a superuser, with a password in its environment for each role that is wanted: OWNER_PASSWORD (owns the tables and migrates), SERVER_PASSWORD (serves), SUPPORT_PASSWORD (reads tenants, applications and the audit log).',
    required: ['print-sql'],
    examples: ['db roles --print-sql | OWNER_PASSWORD=... SERVER_PASSWORD=... psql -d strongroom'],
  },
  'db distribute': {
    summary: 'spreads the tables that grow over the workers of a Citus cluster, by tenant',
    more: 'Needs the role that owns the tables, the extension citus and a worker. Stop the servers first. What is done already is left, so it can be run again: after an upgrade, and after each rebalance, which gives rights on the audit log back.',
    examples: ['db distribute'],
  },
  'reactor run': {
    summary: 'runs a JavaScript file in the sandbox, without a vault',
    more: 'FILE may be -, for standard input.',
    operand: 'FILE',
    file: 'read',
    optional: ['args', 'configuration', 'json'],
    examples: [`reactor run charge.js --args '{"amount":1250}'`, 'reactor run - < charge.js'],
  },
  openapi: {
    summary: 'writes openapi/openapi.json, or compares it',
    optional: ['check'],
    examples: ['openapi --check'],
  },
  readme: {
    summary: 'writes the generated tables of variables and commands in docs/operations again',
    examples: ['readme'],
  },
} as const satisfies Record<string, CommandText>;

/** Names of before, which go on to work until 1.0 and are in no help. */
export const aliases: Readonly<Record<string, CommandName>> = {
  'keys create': 'api-keys create',
  'keys revoke': 'api-keys revoke',
};

/** What a first look at the help shows. */
export const firstCommands: readonly CommandName[] = [
  'start',
  'doctor',
  'version',
  'migrate',
  'bootstrap',
  'owner invite',
  'api-keys create',
  'keys rotate-root',
  'backup',
  'restore',
  'import',
  'logs verify',
];

export type CommandName = keyof typeof table;
