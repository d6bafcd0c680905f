// POST /access/explain: what a request of an application or a member would be allowed, and by which rule. Opens and sends nothing.
import type { DailyLimit } from '../../platform/base/application-limits.ts';
import { type FieldError, forbidden, invalidInput, notFound } from '../../platform/base/errors.ts';
import { ACCESS_EXPLAINED, logRow } from '../../platform/db/audit-record.ts';
import { hostsOf } from '../../platform/egress/allowed-hosts.ts';
import { isStorableText } from '../../platform/json/json.ts';
import { type Check, ruleCheck, tokenChecks } from '../access/checks.ts';
import { findDailyCheck } from '../access/daily-counts.ts';
import { type By, type Decision, explainDecision, isOnTokens, type Subject } from '../access/explain-decision.ts';
import type { Permission } from '../access/permissions.ts';
import { findDeciderFor, mayAnywhere } from '../access/rules.ts';
import type { Work } from '../access/work.ts';
import { checkHosts, type Destination } from '../proxy/dry-run.ts';
import { openRoute, type PinnedProxy, toPinned, useOf } from '../proxy/proxy-finder.ts';
import { findUsableProxy } from '../proxy/rows.ts';
import { findBoundChecks } from '../tokens/bound-uses.ts';
import type { AnswersContext } from './context.ts';
import { findPlaces, type TokenPlace } from './rows.ts';
import { findSubject } from './subject.ts';

export type Question = {
  application_id?: string | undefined;
  member_id?: string | undefined;
  permission: Permission;
  token_id?: string | undefined;
  container?: string | undefined;
  host?: string | undefined;
  proxy_id?: string | undefined;
};

export type Explanation = {
  decision: 'allowed' | 'refused';
  by: By;
  shows: Decision['shows'];
  checks: Check[];
  skipped: Decision['skipped'];
};

/** @throws invalidInput for a question that names too much, or too little. */
const checkQuestion = (question: Question): void => {
  const { application_id, member_id, permission, token_id, container, host, proxy_id } = question;
  const errors: FieldError[] = [];
  const add = (path: string, sentence: string) => errors.push({ path, sentence, code: 'not_allowed' });
  if (application_id !== undefined && member_id !== undefined) add('member_id', 'must be left out with application_id');
  if (token_id !== undefined && container !== undefined) add('container', 'must be left out with token_id');
  if (host !== undefined && proxy_id !== undefined) add('host', 'must be left out with proxy_id, which names its host');
  if (isOnTokens(permission)) {
    if (token_id === undefined && container === undefined)
      errors.push({ path: 'token_id', sentence: 'must be there, or container', code: 'required' });
  } else {
    if (token_id !== undefined) add('token_id', 'is for permissions on tokens only');
    if (container !== undefined) add('container', 'is for permissions on tokens only');
  }
  if (permission !== 'token:use') {
    if (host !== undefined) add('host', 'is for token:use only');
    if (proxy_id !== undefined) add('proxy_id', 'is for token:use only');
  }
  if (errors.length > 0) throw invalidInput(errors);
};

/** Destination of the question. `proxy`: what a use of the proxy pins. */
type Asked = Destination & { proxy?: PinnedProxy };

const findDestination = async (
  ctx: AnswersContext,
  work: Work,
  { host, proxy_id }: Question,
): Promise<Asked | undefined> => {
  if (host !== undefined) return { url: `https://${host}/` };
  if (proxy_id === undefined) return undefined;
  const row = await findUsableProxy(work.db, proxy_id);
  if (!row) throw notFound('proxy');
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const route = openRoute(ctx, work.tenant_id, keys, row.id, row.sealed);
  return { url: route.destination_url, proxyHosts: { hosts: hostsOf(row.allowed_hosts) }, proxy: toPinned(row, route) };
};

/** A question does not say where a token stands in a request: a bound to places holds. */
const nowhere = () => [];

const findBoundCheck = async (
  ctx: AnswersContext,
  work: Work,
  { id: application_id, rights }: Subject,
  token: TokenPlace,
  destination: Asked | undefined,
): Promise<Check[]> => {
  const url = destination && URL.parse(destination.url);
  const use = url ? useOf(url, destination?.proxy, nowhere) : undefined;
  const { digest: key } = await ctx.keyring.tenantKeys(work.tenant_id);
  const { id, bound_to } = token;
  const ofRule = findDeciderFor(rights, 'token:use', token)?.bound_to;
  const asked = { use, key, application_id, now: ctx.now() };
  return [...(await findBoundChecks(work.db, [{ id, bound_to, ofRule }], asked)).values()];
};

/** In place of a token of a container: one that is not counted yet. The id of no token is empty. */
const NO_TOKEN = '';

/** The daily limit that an operation counts for. */
const limitOf = (permission: Permission, shows: Decision['shows']): DailyLimit | undefined => {
  if (permission === 'token:use') return 'daily_uses';
  const isRead = permission === 'token:read' || permission === 'token:search';
  return isRead && shows === 'value' ? 'daily_reveals' : undefined;
};

const findToken = async (work: Work, token_id: string | undefined): Promise<TokenPlace | undefined> => {
  if (token_id === undefined) return undefined;
  const token = isStorableText(token_id) ? (await findPlaces(work.db, [token_id]))[0] : undefined;
  if (!token) throw notFound('token');
  return token;
};

/**
 * Explains what the routes would decide now. Nothing is opened, sent or counted.
 * @throws invalidInput; forbidden for a question about others without `application:read`; notFound for what is not of the tenant.
 */
export const explainAccess = async (ctx: AnswersContext, work: Work, question: Question): Promise<Explanation> => {
  checkQuestion(question);
  const { application_id, member_id, permission, token_id, container } = question;
  const isAboutOthers = member_id !== undefined || (application_id !== undefined && application_id !== work.actor_id);
  if (isAboutOthers && !mayAnywhere(work, 'application:read')) throw forbidden('application:read');
  const subject = await findSubject(ctx, work, question);
  const token = await findToken(work, token_id);
  const destination = await findDestination(ctx, work, question);
  const target = token ?? (container === undefined ? undefined : { container });
  const decision = explainDecision(subject, permission, target, token);
  const limit = limitOf(permission, decision.shows);
  const checks = [
    ruleCheck(decision, permission),
    ...(token ? tokenChecks(token, ctx.now()) : []),
    ...(destination ? checkHosts(ctx, destination, subject.rights) : []),
    ...(token && permission === 'token:use' ? await findBoundCheck(ctx, work, subject, token, destination) : []),
    ...(limit ? await findDailyCheck(ctx, work, subject, limit, token ? [token.id] : [NO_TOKEN]) : []),
  ];
  const isAllowed = checks.every(({ ok }) => ok);
  const { entity_type, id } = subject;
  await work.log([logRow(ctx, work, { operation: 'read', entity_type, entity_ids: [id], message: ACCESS_EXPLAINED })]);
  const { by, shows, skipped } = decision;
  return { decision: isAllowed ? 'allowed' : 'refused', by, shows: isAllowed ? shows : 'nothing', checks, skipped };
};
