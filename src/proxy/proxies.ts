// Stored proxies: a fixed destination, with code before and behind it. All that says where a request goes and what happens
// to it is sealed at rest, its key too; nobody lends a proxy an application that may what they may not. Forwards nothing.
import type { Caller } from '../access/caller.ts';
import { coversHosts, hostsOf } from '../access/allowed-hosts.ts';
import { hostsNotHeld } from '../access/grants.ts';
import { newProxyKey } from '../access/proxy-keys.ts';
import { mayAnywhere } from '../access/rules.ts';
import { logRow, type Operation } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { type ClientCertificate, describeCertificate, parseClientCertificate } from '../crypto/client-certificate.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { StoredApplication } from '../db/applications.ts';
import type { PlannedProxy, StoredProxy } from '../db/proxies.ts';
import { EgressFault } from '../egress/fault.ts';
import { fieldErrors, invalidInput, notFound } from '../errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../paging.ts';
import { checkCode } from '../runtime/code.ts';
import { configurationName, ELEMENTS_MAX } from '../runtime/formula-fields.ts';
import { isCutShort, pageTooLarge } from '../runtime/formulas.ts';
import { checkApplication, checkApplications, type Configuration, textProblems } from '../runtime/reactors.ts';
import { formatPath } from '../vault/json.ts';
import { forgetting } from './proxy-finder.ts';
import { openRoute, type ProxyRoute, sealRoute } from './proxy-route.ts';
import { namesKey, NO_KEY } from './target.ts';

/** Room for a chain of several certificates, or for the largest key in use. */
export const PEM_LENGTH_MAX = 20_000;

/** background.md section 1. */
export const DESTINATION_URL_LENGTH_MAX = 400;

type Transform = { code: string };

/** As the wire knows it. What is undefined is left out. */
export type ProxyRecord = {
  id: string;
  tenant_id: string;
  /** Only for those who may read proxies. */
  key: string | undefined;
  name: string;
  destination_url: string;
  require_auth: boolean;
  request_transform: Transform | undefined;
  response_transform: Transform | undefined;
  application_id: string | undefined;
  /** Null where none was given. */
  configuration: Configuration | null;
  allowed_hosts: string[] | undefined;
  client_certificate: { certificate: string; fingerprint_sha256: string; expires_at: string } | undefined;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

export type ProxyInput = {
  name: string;
  destination_url: string;
  /** Code. */
  request_transform: string | undefined;
  response_transform: string | undefined;
  application_id: string | undefined;
  /** Not looked at yet. */
  configuration: Record<string, unknown> | null;
  require_auth: boolean;
  allowed_hosts: string[] | undefined;
  /** Not looked at yet. Null for none; undefined leaves a change what there is. */
  client_certificate?: ClientCertificate | null | undefined;
};

const proxyNotFound = () => notFound('proxy');

const transformOf = (code: string | undefined): Transform | undefined => (code === undefined ? undefined : { code });

const shownCertificate = ({ certificate }: ClientCertificate): ProxyRecord['client_certificate'] => {
  const { fingerprint_sha256, expires_at } = describeCertificate(certificate);
  return { certificate, fingerprint_sha256, expires_at: expires_at.toISOString() };
};

const recordOf = (caller: Caller, row: Omit<StoredProxy, 'sealed'>, route: ProxyRoute): ProxyRecord => ({
  id: row.id,
  tenant_id: caller.tenant_id,
  // Whoever has it may use the proxy, and needs no other key where it asks for none.
  key: mayAnywhere(caller, 'proxy:read') ? route.key : undefined,
  name: row.name,
  destination_url: route.destination_url,
  require_auth: row.require_auth,
  request_transform: transformOf(route.request_transform),
  response_transform: transformOf(route.response_transform),
  application_id: row.application_id ?? undefined,
  configuration: route.has_configuration || Object.keys(route.configuration).length > 0 ? route.configuration : null,
  allowed_hosts: hostsOf(row.allowed_hosts),
  client_certificate: route.client_certificate && shownCertificate(route.client_certificate),
  created_by: row.created_by ?? undefined,
  created_at: row.created_at.toISOString(),
  modified_by: row.modified_by ?? undefined,
  modified_at: row.modified_at?.toISOString(),
});

const logOf = (ctx: Context, caller: Caller, operation: Operation, entity_ids: string[]) =>
  logRow(ctx, caller, { operation, entity_type: 'proxy', entity_ids });

type Problem = [path: string, sentence: string];

/** What egress says against a destination. */
const refusalOf = (ctx: Context, url: string, allowLists?: string[][]): string | undefined => {
  try {
    ctx.egress.check(url, allowLists);
    return undefined;
  } catch (error) {
    if (error instanceof EgressFault) return error.message;
    throw error;
  }
};

/** A destination is looked at without a look-up; what its name leads to is looked at with each request. */
const destinationProblems = (ctx: Context, { destination_url, allowed_hosts }: ProxyInput): Problem[] => {
  const path = 'destination_url';
  // The parser would read past these, and read another URL than a person does.
  if (!/^https?:\/\/[^\s\p{Cc}\p{Cs}\\]+$/iu.test(destination_url))
    return [[path, 'must be an https URL without blanks, control characters and backslashes']];
  const refusal = refusalOf(ctx, destination_url);
  if (refusal !== undefined) return [[path, refusal]];
  const problems: Problem[] = [];
  if (destination_url.includes('#')) problems.push([path, 'must not have a fragment']);
  if (namesKey(new URL(destination_url))) problems.push([path, NO_KEY]);
  if (allowed_hosts && refusalOf(ctx, destination_url, [allowed_hosts]) !== undefined)
    problems.push(['allowed_hosts', 'must cover the host of destination_url']);
  return problems;
};

/** As of a reactor whose formula declares what is there. */
const configurationProblems = (given: Record<string, unknown>): Problem[] => {
  const entries = Object.entries(given);
  if (entries.length > ELEMENTS_MAX) return [['configuration', `must have at most ${ELEMENTS_MAX} entries`]];
  const problems = entries.flatMap(([name, value]): Problem[] => {
    const path = formatPath(['configuration', name]);
    const fair = configurationName.safeParse(name);
    if (!fair.success) return [[path, fair.error.issues[0]?.message ?? 'is not valid']];
    return ['string', 'number', 'boolean'].includes(typeof value)
      ? []
      : [[path, 'must be text, a number or a boolean']];
  });
  return problems.length > 0 ? problems : textProblems(given as Configuration);
};

/** A route as the body has it. Undefined in `client_certificate`: it says nothing of it. */
type CheckedInput = Omit<ProxyRoute, 'key' | 'client_certificate'> & {
  client_certificate: ClientCertificate | null | undefined;
};

/** @throws forbidden for hosts beyond the caller's; invalidInput with all that is wrong; as checkCode. */
const checkInput = async (ctx: Context, caller: Caller, input: ProxyInput): Promise<CheckedInput> => {
  // Others would send through it, and they may be held to nothing.
  if (!coversHosts(caller.allowed_hosts, input.allowed_hosts)) throw hostsNotHeld('proxy');
  const { destination_url, request_transform, response_transform } = input;
  const certificate = input.client_certificate ? parseClientCertificate(input.client_certificate) : undefined;
  const problems = [
    ...destinationProblems(ctx, input),
    ...configurationProblems(input.configuration ?? {}),
    ...(certificate?.problems ?? []).map(([field, sentence]): Problem => [`client_certificate.${field}`, sentence]),
  ];
  if (problems.length > 0) throw invalidInput(fieldErrors(problems));
  const codes = Object.entries({ request_transform, response_transform }).flatMap(([name, code]) =>
    code === undefined ? [] : [[`${name}.code`, code] as const],
  );
  await checkCode(
    ctx,
    caller,
    { of: 'transform', result: '{ body: req.args.body, headers: req.args.headers }' },
    codes,
  );
  return {
    destination_url,
    request_transform,
    response_transform,
    configuration: (input.configuration ?? {}) as Configuration,
    has_configuration: input.configuration !== null,
    client_certificate: input.client_certificate ? certificate?.parsed : input.client_certificate,
  };
};

/** A proxy as it is to be written, with its log row and its record. */
const planOf = (
  ctx: Context,
  caller: Caller,
  keys: TenantKeys,
  operation: 'create' | 'update',
  row: Omit<StoredProxy, 'sealed'>,
  route: ProxyRoute,
): PlannedProxy<ProxyRecord> => {
  const { id, name, require_auth, allowed_hosts, application_id } = row;
  const result = recordOf(caller, row, route);
  const sealed = sealRoute(ctx, caller.tenant_id, keys, id, route);
  const at = row.modified_at ?? row.created_at;
  return {
    fields: { name, require_auth, allowed_hosts, sealed, application_id, at, by: caller.actor_id },
    log: logOf(ctx, caller, operation, [id]),
    answer: caller.keep?.(result),
    result,
  };
};

const columnsOf = ({ name, require_auth, allowed_hosts }: ProxyInput, application: StoredApplication | undefined) => ({
  name,
  require_auth,
  allowed_hosts: allowed_hosts ?? null,
  application_id: application?.id ?? null,
});

/**
 * Makes a proxy, with a key of its own.
 * @throws invalidInput; unprocessable for a transform that does not compile; notFound for an application that is unknown
 * or another tenant's, both alike; forbidden for one that may what the caller may not.
 */
export const createProxy = async (ctx: Context, caller: Caller, input: ProxyInput): Promise<ProxyRecord> => {
  const { application_id } = input;
  const { client_certificate, ...route } = await checkInput(ctx, caller, input);
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const { key, digest } = newProxyKey(ctx);
  const id = ctx.newUuid();
  const made = { id, created_at: ctx.now(), created_by: caller.actor_id, modified_at: null, modified_by: null };
  return ctx.db.for(caller).addProxy({ id, digest, application_id }, (application) => {
    checkApplication(caller, application_id, application);
    const row = { ...made, ...columnsOf(input, application) };
    return planOf(ctx, caller, keys, 'create', row, {
      ...route,
      key,
      client_certificate: client_certificate ?? undefined,
    });
  });
};

/** Reads one. @throws notFound for an unknown and a foreign id, both alike. */
export const getProxy = async (ctx: Context, caller: Caller, id: string): Promise<ProxyRecord> => {
  const { tenant_id } = caller;
  const db = ctx.db.for(caller);
  const row = await db.findProxy(id);
  if (!row) throw proxyNotFound();
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  await db.insertLogs([logOf(ctx, caller, 'read', [id])]);
  return recordOf(caller, row, openRoute(ctx, tenant_id, keys, id, row.sealed));
};

/** A page, newest first. @param input.ids only these; @param input.name see db/names.ts; undefined for all. */
export const listProxies = async (
  ctx: Context,
  caller: Caller,
  input: { ids: string[] | undefined; name: string | undefined; page: PageRequest },
): Promise<Page<ProxyRecord>> => {
  const { tenant_id } = caller;
  const db = ctx.db.for(caller);
  const { ids, name } = input;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { pagination, rows } = await readPage(input.page, {
    page: countThenList(
      () => db.countProxies({ ids, name }),
      (offset, limit) => db.listProxies({ ids, name }, offset, limit),
    ),
  });
  if (rows.some(isCutShort)) throw pageTooLarge('proxies');
  const shown = rows.map(({ id }) => id);
  if (shown.length > 0) await db.insertLogs([logOf(ctx, caller, 'read', shown)]);
  const data = rows.map((row) => recordOf(caller, row, openRoute(ctx, tenant_id, keys, row.id, row.sealed)));
  return { pagination, data };
};

/**
 * Changes all of a proxy but its key, and its client certificate where nothing is said of it. Whoever changes a proxy says
 * what is done with the rights of its application: they must hold all of them, of the one that it had and of the one that
 * it gets.
 * @throws notFound; as createProxy.
 */
export const changeProxy = async (
  ctx: Context,
  caller: Caller,
  id: string,
  input: ProxyInput,
): Promise<ProxyRecord> => {
  const { tenant_id } = caller;
  const { application_id } = input;
  const { client_certificate, ...route } = await checkInput(ctx, caller, input);
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const modification = { modified_at: ctx.now(), modified_by: caller.actor_id };
  const changed = await forgetting(ctx, tenant_id, () =>
    ctx.db.for(caller).changeProxy(id, application_id, (stored, applications) => {
      checkApplications(caller, application_id, applications);
      const { sealed, ...columns } = stored;
      const kept = openRoute(ctx, tenant_id, keys, id, sealed);
      const row = { ...columns, ...columnsOf(input, applications.after), ...modification };
      return planOf(ctx, caller, keys, 'update', row, {
        ...route,
        key: kept.key,
        client_certificate:
          client_certificate === undefined ? kept.client_certificate : (client_certificate ?? undefined),
      });
    }),
  );
  if (!changed) throw proxyNotFound();
  return changed;
};

/** Removes a proxy, and ends its key. @throws notFound. */
export const deleteProxy = async (ctx: Context, caller: Caller, id: string): Promise<void> => {
  const log = logOf(ctx, caller, 'delete', [id]);
  const isGone = await forgetting(ctx, caller.tenant_id, () => ctx.db.for(caller).deleteProxy(id, log));
  if (!isGone) throw proxyNotFound();
};
