// The calls of the current SDK of Basis Theory and what comes of each: `test/current-client.test.ts` makes them, and
// docs/current-clients.md lists them.

/** A call in one of its forms. `works` is false where a rule of the vault forbids it. */
export type SdkCall = {
  /** The method, such as `tokens.create`. */
  method: string;
  form: string;
  works: boolean;
  /** Of a call that does not work: the status, why, and what to do. */
  status?: number;
  why?: string;
  instead?: string;
};

const working = (method: string, ...forms: string[]): SdkCall[] => forms.map((form) => ({ method, form, works: true }));

const refused = (method: string, form: string, status: number, why: string, instead: string): SdkCall => ({
  method,
  form,
  works: false,
  status,
  why,
  instead,
});

export const idOf = ({ method, form }: SdkCall): string => `${method}: ${form}`;

const KEYS_OF_CLIENTS = 'The vault has no keys of clients: TLS ends at it, and it encrypts what it stores.';
const RUNTIME = 'All code runs in the same sandbox, with its limits.';

export const calls: SdkCall[] = [
  ...working(
    'tokens.create',
    'any JSON',
    'a card, whose details are in `card`',
    'with all options',
    'twice under one idempotency key',
    'twice with `deduplicateToken`',
    'from a token intent',
  ),
  refused('tokens.create', 'with `encrypted`', 400, KEYS_OF_CLIENTS, 'Send `data`.'),
  ...working('tokens.get', 'by its id'),
  ...working('tokens.update', 'metadata and data', 'another container'),
  ...working('tokens.delete', 'by its id'),
  ...working('tokens.tokenize', 'values and a card'),
  ...working('tokens.detokenize', 'expressions'),
  ...working('tokens.listV2', 'all, over several pages', 'by type, container, fingerprint and metadata'),
  ...working('tokens.searchV2', 'by a query, over several pages'),

  ...working('tokenIntents.create', 'a card', 'any JSON'),
  refused('tokenIntents.create', 'with `encrypted`', 400, KEYS_OF_CLIENTS, 'Send `data`.'),
  ...working('tokenIntents.get', 'by its id'),
  ...working('tokenIntents.delete', 'by its id'),

  ...working('applications.create', 'with `createKey`', 'without a key', 'with access rules'),
  ...working('applications.list', 'all', 'by type and ids'),
  refused(
    'applications.list',
    'from a `start`',
    400,
    'Only lists of tokens and logs have a cursor.',
    'Ask by `page`, as the SDK does by itself.',
  ),
  ...working('applications.get', 'by its id'),
  ...working('applications.getByKey', 'the caller'),
  ...working('applications.update', 'name and permissions'),
  ...working('applications.delete', 'with its keys'),
  ...working('applicationKeys.create', 'a further key'),
  ...working('applicationKeys.list', 'as a plain list', 'by ids'),
  ...working('applicationKeys.get', 'by its id'),
  ...working('applicationKeys.delete', 'which ends the key'),

  ...working('reactors.create', 'with its code', 'with an application and a configuration'),
  refused('reactors.create', 'with `runtime`', 400, RUNTIME, 'Leave it out.'),
  ...working('reactors.list', 'all', 'by name and ids'),
  ...working('reactors.get', 'by its id'),
  ...working('reactors.update', 'its code'),
  ...working('reactors.patch', 'its code alone'),
  ...working('reactors.react', 'with expressions'),
  ...working('reactors.delete', 'with its code'),
  refused(
    'reactors.reactAsync',
    'in the background',
    404,
    'The vault has no background runs.',
    'Call `react`; with an idempotency key its response is kept.',
  ),
  refused('reactors.results.get', 'of a background run', 404, 'The vault has no background runs.', 'Call `react`.'),

  ...working(
    'proxies.create',
    'with a request transform',
    'with lists of one transform',
    'with a response transform of the type `mask`',
    'with `disableDetokenization`',
  ),
  refused(
    'proxies.create',
    'with two transforms in a list',
    400,
    'A proxy runs one piece of code in each direction.',
    'Write both steps into one code.',
  ),
  refused(
    'proxies.create',
    'with a transform of the type `tokenize`',
    400,
    'Only `code` and `mask` are built in.',
    'Call `svc.tokenize` in a transform with `code`.',
  ),
  ...working('proxies.list', 'all', 'by name and ids'),
  ...working('proxies.get', 'by its id'),
  ...working('proxies.update', 'its destination'),
  ...working('proxies.patch', 'its transform alone'),
  ...working('proxies.delete', 'with its key'),

  ...working('permissions.list', 'all', 'of a type of applications'),
  ...working('logs.list', 'all', 'of an entity and a time'),
  ...working('logs.getEntityTypes', 'all'),
  ...working('roles.list', 'all'),
  ...working('tenants.self.get', 'the tenant'),
  ...working('tenants.self.update', 'its name'),
  ...working('tenants.self.getUsageReports', 'counts of tokens'),
  ...working('tenants.self.delete', 'the tenant with all it has'),
  ...working('tenants.owner.get', 'the owner'),
  ...working('tenants.members.list', 'all', 'by user'),
  ...working('tenants.members.update', 'the role'),
  ...working('tenants.members.delete', 'the member'),
  ...working('tenants.invitations.create', 'by an address', 'with a role'),
  ...working('tenants.invitations.list', 'all', 'by status'),
  ...working('tenants.invitations.get', 'by its id'),
  ...working('tenants.invitations.resend', 'with a new link'),
  ...working('tenants.invitations.delete', 'which ends the link'),
  ...working('webhooks.create', 'with types of events'),
  ...working('webhooks.list', 'all'),
  ...working('webhooks.get', 'by its id'),
  ...working('webhooks.update', 'with another URL'),
  ...working('webhooks.delete', 'by its id'),
  ...working('webhooks.events.list', 'all types'),
];

/** Methods that the vault does not have, by the beginning of their names. */
export type MissingGroup = { prefixes: string[]; what: string; instead: string };

export const missing: MissingGroup[] = [
  {
    prefixes: ['sessions.'],
    what: 'Sessions with a nonce. `POST /sessions` of the vault is another operation',
    instead:
      'Collect cards with [Fields](docs/guides/collect-cards.md): your server creates a session for the page, with the origins and tokens that it is for.',
  },
  {
    prefixes: ['webhooks.ping'],
    what: 'Whether the service runs',
    instead: '`GET /ready`.',
  },
  {
    prefixes: ['applicationTemplates.'],
    what: 'Templates of applications',
    instead: 'Create applications with the permissions and rules that they need.',
  },
  {
    prefixes: ['keys.'],
    what: 'Keys of clients for encrypted requests',
    instead: 'TLS to the vault, and its encryption of what it stores, protect the same data.',
  },
  {
    prefixes: ['documents.'],
    what: 'Files',
    instead: 'Store a small file in Base64 as a token, and a large one elsewhere under a key that is a token.',
  },
  {
    prefixes: ['enrichments.'],
    what: 'Tables of issuers, and checks of bank accounts',
    instead: 'The brand and the last four digits are in `card` of a token. Ask a service for more through the proxy.',
  },
  {
    prefixes: ['threeds.', 'networkTokens.', 'accountUpdater.', 'applePay.', 'googlePay.', 'agentic.'],
    what: '3-D Secure, network tokens, account updates, wallets and agents: services of card networks',
    instead:
      'Your payment processor or a 3-D Secure server offers them. Send it the card through the [proxy](docs/guides/proxy.md), and store what it returns as a token.',
  },
  {
    prefixes: ['tenants.connections.'],
    what: 'Single sign-on by the API',
    instead: 'Set it up in the console ([single sign-on](docs/operations/single-sign-on.md)).',
  },
  {
    prefixes: ['tenants.securityContact.', 'tenants.merchants.'],
    what: 'Contacts and merchants of a hosted account',
    instead: 'The vault is yours: it has no such records.',
  },
  {
    prefixes: ['tenants.ownerTransfer'],
    what: 'Another owner',
    instead: 'The operator names the owner of a tenant.',
  },
];

const row = (...cells: string[]): string => `| ${cells.join(' | ')} |`;

const tableOf = (heads: string[], rows: string[][]): string =>
  [row(...heads), row(...heads.map(() => '---')), ...rows.map((cells) => row(...cells))].join('\n');

/** The forms of each method that work. */
const workingRows = (): string[][] =>
  [
    ...Map.groupBy(
      calls.filter(({ works }) => works),
      ({ method }) => method,
    ),
  ].map(([method, forms]) => [`\`${method}\``, forms.map(({ form }) => form).join('; ')]);

/** The text of docs/current-clients.md. Links here are from the root, as those of all files. @param version of the SDK. */
export const pageOf = (version: string): string => textOf(version).replaceAll('](docs/', '](');

const textOf = (version: string): string => {
  const working_count = calls.filter(({ works }) => works).length;
  const refusals = calls.filter(({ works }) => !works);
  return `# Clients of Basis Theory today

This page is for users of the current SDKs of Basis Theory. Clients of its API of 2022: [earlier clients](docs/earlier-clients.md).

A test makes these calls with \`@basis-theory/node-sdk\` ${version} and compares this page with what comes of them: ${working_count} forms of
calls work, and ${refusals.length} are refused. The client is given two things, and none of its code changes:

\`\`\`ts
// The vault runs with API_HEADER_PREFIXES=SVC,BT.
const client = new BasisTheoryClient({ baseUrl: 'https://vault.example.com', apiKey: process.env.VAULT_API_KEY });
\`\`\`

Without \`API_HEADER_PREFIXES\` a client can send \`SVC-API-KEY\` by its setting \`headers\`. Its \`BT-IDEMPOTENCY-KEY\` is then a 400: it would
otherwise be read by nothing ([decision 104](docs/decisions/0104-prefixes-of-headers.md)). Requests through the proxy take \`BT-PROXY-KEY\` and
\`BT-PROXY-URL\` too. An attribute that the vault does not honour is a 400 that names it.

## Calls that work

${tableOf(['Method', 'Forms'], workingRows())}

## Calls that are refused

${tableOf(
  ['Method', 'Form', 'Status', 'Why', 'Use instead'],
  refusals.map(({ method, form, status, why, instead }) => [
    `\`${method}\``,
    form,
    String(status),
    why ?? '',
    instead ?? '',
  ]),
)}

## Methods that the vault does not have

Most are a 404. \`sessions.create\` is a 400: the path has another meaning here.

${tableOf(
  ['Methods', 'What they are for', 'Use instead'],
  missing.map(({ prefixes, what, instead }) => [
    prefixes.map((each) => `\`${each}${each.endsWith('.') ? '*' : ''}\``).join(', '),
    what,
    instead,
  ]),
)}

## What differs

- A token intent is named in expressions as a token is: \`{{ <id> }}\`. Its security code lives as long as that of any card
  (\`CVC_TTL\`), it has no fingerprint, and a token that is created from it has no security code.
- \`card\` of a token has \`brand\`, \`last4\` and the expiry for callers who see the mask of the type, and \`bin\` for those who see the value.
- A reactor's code and its formula are the same: \`formula\` of the response embeds it, and no list of formulas has it.
- Transforms come back as \`request_transform\` and \`response_transform\`, also where they were sent as lists of one.
`;
};
