// What published clients of the earlier API send beyond the schemas, and how the server treats it (docs/earlier-clients.md).
// Token requests have the same in modules/tokens/earlier-tokens.ts.

/** Attributes of an application: some clients send a whole one instead of its id. */
const applicationNames = [
  'tenant_id',
  'name',
  'type',
  'key',
  'keys',
  'permissions',
  'rules',
  'allowed_hosts',
  'expires_at',
  'created_by',
  'created_at',
  'modified_by',
  'modified_at',
];

export type Earlier = {
  /** Null counts as absent; a value is a 400. */
  notSupported?: readonly string[];
  /** Further attributes of an object, by its name. They are ignored. */
  notRead?: Readonly<Record<string, readonly string[]>>;
  /** Attributes that are the id of another attribute, unless the request has that one too. */
  idOf?: Readonly<Record<string, string>>;
  /** Null in `idOf` removes. */
  isPatch?: boolean;
};

const newApplication: Earlier = { notSupported: ['expires_at'] };
const application: Earlier = { notSupported: ['expires_at', 'create_key'] };
const reactor: Earlier = { notSupported: ['runtime'], notRead: { application: applicationNames } };
const proxy: Earlier = {
  notSupported: ['request_reactor_id', 'response_reactor_id', 'timeout', 'proxy_host'],
  notRead: { application: applicationNames },
  idOf: { application_id: 'application' },
};

/** By method and path of the operation. */
export const earlierBodies: Readonly<Record<string, Earlier>> = {
  'POST /token-intents': { notSupported: ['encrypted'] },
  'POST /applications': newApplication,
  'PUT /applications/:id': application,
  'POST /reactors': reactor,
  'PUT /reactors/:id': reactor,
  'PATCH /reactors/:id': reactor,
  'POST /reactors/:id/react': { notSupported: ['callback_url'] },
  'POST /proxies': proxy,
  'PUT /proxies/:id': proxy,
  'PATCH /proxies/:id': { ...proxy, isPatch: true },
};

export const earlierQueries: Readonly<Record<string, Earlier>> = {
  'GET /applications': { notSupported: ['start'] },
  'GET /applications/:id/keys': { notSupported: ['type'] },
};
