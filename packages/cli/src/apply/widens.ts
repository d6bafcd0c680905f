// Says in words what a step of a plan allows that was not allowed before. In doubt it says more, not less.
import { summarizeRights } from '../../../../src/modules/access/rights-summary.ts';
import { type RightsRecord, rightsOf } from '../rights.ts';
import type { Value } from './check.ts';
import { canonical, isSame } from './compare.ts';
import type { Step } from './plan.ts';

type Attributes = Record<string, Value>;

/** Limits and hosts are compared as numbers and lists: a sentence cannot tell the wider one. */
const COMPARED = /^(?:get at most|use at most|send them to|be used by)/;

const sentencesOf = (attributes: Attributes): string[] => {
  const given = Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== null));
  const rights = rightsOf({
    type: 'private',
    permissions: [],
    ...given,
    rules: canonical('rules', given['rules']),
  } as unknown as RightsRecord);
  return summarizeRights(rights).can.filter((sentence) => !COMPARED.test(sentence));
};

const asTexts = (value: Value | undefined): string[] | undefined =>
  Array.isArray(value) ? value.map(String) : undefined;

/** A list that limits, where none limits nothing. */
const listWidens = (
  before: Value | undefined,
  after: Value | undefined,
  any: string,
  some: (added: string) => string,
): string[] => {
  const [old, now] = [asTexts(before), asTexts(after)];
  if (old === undefined) return [];
  if (now === undefined) return [any];
  const added = now.filter((each) => !old.includes(each));
  return added.length === 0 ? [] : [some(added.join(', '))];
};

const limitWidens = (noun: string, before: Value | undefined, after: Value | undefined): string[] => {
  const [old, now] = [before ?? Infinity, after ?? Infinity].map(Number) as [number, number];
  if (now <= old) return [];
  return [`may now get ${now === Infinity ? `${noun} without a limit` : `${now} ${noun}`}, before ${old}`];
};

/** Attributes of a bound that say where values may go. */
const DESTINATIONS = ['hosts', 'proxies', 'reactors'];

/** Whether a bound allows no use that another one refuses. In doubt it does. */
const isNarrower = (inner: Attributes, outer: Attributes): boolean => {
  const isDestined = DESTINATIONS.some((name) => outer[name] !== undefined);
  const goesElsewhere = DESTINATIONS.some((name) => inner[name] !== undefined && outer[name] === undefined);
  const staysOpen = DESTINATIONS.every((name) => inner[name] === undefined);
  if (isDestined && (goesElsewhere || staysOpen)) return false;
  return Object.entries(outer).every(([name, limit]) => {
    const given = inner[name];
    if (given === undefined) return name === 'reactors' || (name === 'proxies' && outer['hosts'] === undefined);
    if (Array.isArray(limit)) return (asTexts(given) ?? []).every((each) => limit.includes(each));
    return name === 'allowance' ? isSame(name, given, limit) : (given as number | string) <= (limit as number | string);
  });
};

/** New rules, in which a bound that only narrows is the bound of before: it gives nothing. */
const withoutNarrowing = (before: Value, after: Value): Value => {
  const sameRule = (rule: Value): string => {
    const { container, conditions, transform, permissions } = rule as Attributes;
    return JSON.stringify([container, conditions, transform, permissions]);
  };
  return (after as Attributes[]).map((rule) => {
    const old = (before as Attributes[]).find((each) => sameRule(each) === sameRule(rule));
    const [inner, outer] = [rule['bound_to'], old?.['bound_to']] as (Attributes | undefined)[];
    return inner && outer && isNarrower(inner, outer) ? { ...rule, bound_to: outer } : rule;
  });
};

const applicationWidens = (before: Attributes | undefined, after: Attributes): string[] => {
  const old = before === undefined ? [] : sentencesOf(before);
  const rules = withoutNarrowing(canonical('rules', before?.['rules']), canonical('rules', after['rules']));
  const gained = sentencesOf({ ...after, rules }).filter(
    (sentence) => !old.includes(sentence) && !old.includes(sentence.replace('the masks of', 'the values of')),
  );
  const may = gained.map((sentence) => `may now ${sentence}`);
  const of = (attributes: Attributes | undefined, name: string): Value | undefined =>
    attributes && canonical(name, attributes[name]);
  const rate = (attributes: Attributes): Value | undefined =>
    (attributes['rate_limit'] as Attributes | null | undefined)?.['requests_per_second'];
  const origins = (asTexts(after['allowed_origins']) ?? []).filter(
    (each) => !(asTexts(before?.['allowed_origins']) ?? []).includes(each),
  );
  return [
    ...may,
    ...(origins.length > 0 ? [`may now be used by pages of ${origins.join(', ')}`] : []),
    ...(before === undefined
      ? []
      : [
          ...listWidens(
            of(before, 'allowed_hosts') ?? undefined,
            of(after, 'allowed_hosts') ?? undefined,
            'may now send to any host',
            (added) => `may now send to ${added}`,
          ),
          ...limitWidens('values a day', before['daily_reveals'], after['daily_reveals']),
          ...limitWidens('uses of tokens a day', before['daily_uses'], after['daily_uses']),
          ...limitWidens('requests a second', rate(before), rate(after)),
        ]),
  ];
};

const hostOf = (url: Value | undefined): string =>
  URL.canParse(String(url)) ? new URL(String(url)).host : 'its destination';

const isMask = (value: Value | undefined): boolean => (value as Attributes | null | undefined)?.['type'] === 'mask';

/** Code that runs with permissions, and is other code than before. */
const codeWidens = (before: Attributes | undefined, after: Attributes, attributes: string[]): string[] => {
  const application = after['application'];
  const codeOf = (value: Value | undefined): Value | undefined =>
    typeof value === 'string' || isMask(value) ? value : (value as Attributes | null | undefined)?.['code'];
  const isOther = attributes.some((name) => {
    const code = codeOf(after[name]);
    return typeof code === 'string' && code !== codeOf(before?.[name]);
  });
  return before !== undefined && isOther && typeof application === 'string' && application === before['application']
    ? [`its code changes, and has the permissions of ${JSON.stringify(application)}`]
    : [];
};

const GUARDS: Value[] = ['off', 'mask', 'block'];

/** What is seen of values for longer, or by others, than before. */
const careWidens = (before: Attributes, after: Attributes): string[] => {
  const guardOf = ({ echo_guard }: Attributes): number => GUARDS.indexOf(echo_guard ?? null);
  const { until } = (before['cvc'] ?? {}) as Attributes;
  return [
    ...(until === 'answered' && !isSame('cvc', before['cvc'], after['cvc'])
      ? ['security codes live on after other answers']
      : []),
    ...(guardOf(after) < guardOf(before) ? ['responses may have values that were sent'] : []),
  ];
};

const proxyWidens = (before: Attributes | undefined, after: Attributes): string[] => {
  const isOpen = (attributes: Attributes | undefined): boolean => attributes?.['require_auth'] === false;
  const findsExpressions = (attributes: Attributes): boolean => attributes['expressions'] !== 'off';
  const host = hostOf(after['destination_url']);
  const application = after['application'];
  return [
    ...(before === undefined || hostOf(before['destination_url']) !== host ? [`sends requests to ${host}`] : []),
    ...(isOpen(after) && !isOpen(before) ? ['whoever has its key may use it, without an API key'] : []),
    ...(before !== undefined && findsExpressions(after) && !findsExpressions(before)
      ? ['puts the values of tokens into requests']
      : []),
    ...(typeof application === 'string' && application !== before?.['application']
      ? [
          `its transforms have the permissions of ${JSON.stringify(application)}${isOpen(after) ? ', also for clients without an API key' : ''}`,
        ]
      : []),
    ...codeWidens(before, after, ['request_transform', 'response_transform']),
    ...(isMask(before?.['response_transform']) && !isMask(after['response_transform'])
      ? ['responses are not masked any more']
      : []),
    ...(before === undefined ? [] : careWidens(before, after)),
    ...listWidens(
      before?.['allowed_hosts'] ?? undefined,
      after['allowed_hosts'] ?? undefined,
      'its requests may go to any host',
      (added) => `its requests may now go to ${added}`,
    ),
  ];
};

const webhookWidens = (before: Attributes | undefined, after: Attributes): string[] => {
  const host = hostOf(after['url']);
  const container = canonical('container', after['container']);
  return [
    ...(before === undefined || hostOf(before['url']) !== host ? [`sends events to ${host}`] : []),
    ...(container !== null && container !== canonical('container', before?.['container'])
      ? [`sends the masks of tokens below ${String(container)}`]
      : []),
    ...(before === undefined
      ? []
      : listWidens(before['events'], after['events'], 'sends all events', (added) => `sends events of ${added}`)),
  ];
};

const reactorWidens = (before: Attributes | undefined, after: Attributes): string[] => {
  const application = after['application'];
  return typeof application === 'string' && application !== before?.['application']
    ? [`its code has the permissions of ${JSON.stringify(application)}`]
    : codeWidens(before, after, ['code']);
};

const tenantWidens = ({ settings }: Attributes, changed: Attributes): string[] => {
  const given = changed['settings'] as Attributes | undefined;
  const isLost = (name: string, asks: string): boolean =>
    given !== undefined && name in given && (settings as Attributes | undefined)?.[name] === asks;
  return [
    ...(isLost('require_second_factor', 'true') ? ['members do not need a second factor any more'] : []),
    ...(isLost('reveal_reason', 'required') ? ['members see values without a reason'] : []),
  ];
};

export const widensOf = ({ kind, current, changed }: Pick<Step, 'kind' | 'current' | 'changed'>): string[] => {
  const before = current?.attributes;
  const after = { ...before, ...changed };
  switch (kind) {
    case 'application':
      return applicationWidens(before, after);
    case 'proxy':
      return proxyWidens(before, after);
    case 'reactor':
      return reactorWidens(before, after);
    case 'webhook':
      return webhookWidens(before, after);
    case 'tenant':
      return tenantWidens(before ?? {}, changed);
    default:
      return [];
  }
};
