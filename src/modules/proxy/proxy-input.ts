// What a request says of a stored proxy: checks it before it is sealed, and puts a patch over what is stored.
import { type StoredProxy } from './rows.ts';
import type { Work } from '../access/work.ts';
import { coversHosts, hostsOf } from '../../platform/egress/allowed-hosts.ts';
import { hostsNotHeld } from '../access/grants.ts';
import { type ProxyRoute } from './proxy-finder.ts';
import type { ReactorsContext } from '../reactors/context.ts';
import { type ClientCertificate, parseClientCertificate } from '../../platform/crypto/client-certificate.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { type FieldCode, fieldErrors, invalidInput } from '../../platform/base/errors.ts';
import { checkCode } from '../code/code.ts';
import { type Code } from '../code/versions.ts';
import { type Configuration, patchConfiguration, undeclaredProblems } from '../reactors/reactors.ts';
import { holdsOwnKey, NO_API_KEY } from './own-keys.ts';
import { namesKey, NO_EXPRESSION, NO_KEY } from './target.ts';

/** Enough for a chain of several certificates, or for the largest key in use. */
export const PEM_LENGTH_MAX = 20_000;

export const DESTINATION_URL_LENGTH_MAX = 400;

/** How long a replaced key may live. */
export const GRACE_SECONDS_MAX = 86_400;

/** What a request says of a proxy and its route keeps as it is. */
type Sealed = Omit<ProxyRoute, 'key' | 'previous_key' | 'configuration' | 'client_certificate'>;

const sealedNames = Object.keys({
  destination_url: true,
  request_transform: true,
  response_transform: true,
  expressions: true,
  timeout_seconds: true,
  echo_guard: true,
  cvc: true,
  amount: true,
  idempotency_header: true,
} satisfies Record<keyof Sealed, true>) as (keyof Sealed)[];

const sealedOf = (of: Sealed): Sealed =>
  Object.fromEntries(sealedNames.map((name) => [name, of[name]])) as unknown as Sealed;

export type ProxyInput = Sealed & {
  name: string;
  application_id: string | undefined;
  /** Not validated yet. */
  configuration: Record<string, unknown> | null;
  require_auth: boolean;
  allowed_hosts: string[] | undefined;
  /** Not validated yet. Null for none; undefined keeps the current one. */
  client_certificate?: ClientCertificate | null | undefined;
  /** Note of the version of its transforms. */
  note?: string | undefined;
};

/** What null removes from a proxy. */
type Removable = Exclude<keyof Sealed, 'destination_url' | 'expressions'> | 'allowed_hosts';

/** What is left out stays. In the configuration, null removes a value. */
export type ProxyPatch = Partial<Omit<ProxyInput, Removable>> & { [Name in Removable]?: ProxyInput[Name] | null } & {
  application?: { id?: string | undefined } | null | undefined;
};

/** A validated body. If `client_certificate` is undefined, the body does not have it. */
type CheckedInput = Omit<ProxyRoute, 'key' | 'previous_key' | 'client_certificate'> & {
  client_certificate: ClientCertificate | null | undefined;
};

/** A stored proxy as a request would have it. A client certificate that is not named stays. */
export const currentOf = (
  { name, require_auth, allowed_hosts }: StoredProxy,
  route: ProxyRoute,
  application_id: string | undefined,
): ProxyInput => ({
  ...sealedOf(route),
  name,
  require_auth,
  allowed_hosts: hostsOf(allowed_hosts),
  configuration: route.configuration,
  application_id,
});

/** What the patch names, and the rest of the current state. */
export const patchedInput = (
  current: ProxyInput,
  { application, configuration, client_certificate, ...others }: ProxyPatch,
): ProxyInput => ({
  ...current,
  ...Object.fromEntries(
    Object.entries(others).flatMap(([name, value]) => (value === undefined ? [] : [[name, value ?? undefined]])),
  ),
  client_certificate,
  configuration:
    configuration === undefined
      ? current.configuration
      : configuration && patchConfiguration(current.configuration ?? {}, configuration),
  application_id: application === null ? undefined : (application?.id ?? current.application_id),
});

/** The transforms of a proxy, by the names of their properties. */
export const codeOf = ({
  request_transform,
  response_transform,
}: Pick<ProxyRoute, 'request_transform' | 'response_transform'>): Code => ({
  ...(request_transform !== undefined && { request_transform }),
  ...(response_transform !== undefined && { response_transform }),
});

export const checkTransforms = (ctx: ReactorsContext, work: Work, code: Code): Promise<void> =>
  checkCode(
    ctx,
    work,
    { of: 'transform', result: '{ body: req.args.body, headers: req.args.headers }' },
    Object.entries(code).map(([name, text]) => [`${name}.code`, text] as const),
  );

type Problem = [path: string, sentence: string, code?: FieldCode];

/** The message of egress if it refuses the destination. */
const refusalOf = (ctx: ReactorsContext, url: string, allowLists?: string[][]): string | undefined => {
  try {
    ctx.egress.check(url, allowLists);
    return undefined;
  } catch (error) {
    if (error instanceof EgressFault) return error.message;
    throw error;
  }
};

/** Checks a destination without a DNS look-up. Its addresses are checked with each request. */
const destinationProblems = (ctx: ReactorsContext, { destination_url, allowed_hosts }: ProxyInput): Problem[] => {
  const path = 'destination_url';
  // The URL parser ignores these characters, so the URL would not be what a person reads.
  if (!/^https?:\/\/[^\s\p{Cc}\p{Cs}\\]+$/iu.test(destination_url))
    return [[path, 'must be an https URL without blanks, control characters and backslashes']];
  const refusal = refusalOf(ctx, destination_url);
  if (refusal !== undefined) return [[path, refusal]];
  const problems: Problem[] = [];
  if (destination_url.includes('#')) problems.push([path, 'must not have a fragment']);
  if (destination_url.includes('{{')) problems.push([path, NO_EXPRESSION, 'bad_expression']);
  if (namesKey(new URL(destination_url), ctx.config.headerPrefixes)) problems.push([path, NO_KEY]);
  if (holdsOwnKey(destination_url)) problems.push([path, NO_API_KEY]);
  if (allowed_hosts && refusalOf(ctx, destination_url, [allowed_hosts]) !== undefined)
    problems.push(['allowed_hosts', 'must cover the host of destination_url']);
  return problems;
};

/** @throws as checkFields; as checkCode. */
export const checkInput = async (ctx: ReactorsContext, work: Work, input: ProxyInput): Promise<CheckedInput> => {
  const checked = checkFields(ctx, work, input);
  await checkTransforms(ctx, work, codeOf(input));
  return checked;
};

/** All but the code. @throws forbidden for hosts beyond the caller's; invalidInput with every invalid field. */
export const checkFields = (ctx: ReactorsContext, work: Work, input: ProxyInput): CheckedInput => {
  // Other callers, without restrictions of their own, would send requests through this proxy.
  if (!coversHosts(work.caller.allowed_hosts, input.allowed_hosts)) throw hostsNotHeld('proxy');
  const certificate = input.client_certificate ? parseClientCertificate(input.client_certificate) : undefined;
  const problems = [
    ...destinationProblems(ctx, input),
    ...undeclaredProblems(input.configuration ?? {}),
    ...(certificate?.problems ?? []).map(([field, sentence]): Problem => [`client_certificate.${field}`, sentence]),
  ];
  if (problems.length > 0) throw invalidInput(fieldErrors(problems));
  return {
    ...sealedOf(input),
    configuration: input.configuration as Configuration | null,
    client_certificate: input.client_certificate ? certificate?.parsed : input.client_certificate,
  };
};
