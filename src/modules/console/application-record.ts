// The state of an application's form: what was typed into its fields, as a body of the API, and the API's errors by field.
import type { RateLimit } from '../../platform/base/application-limits.ts';
import { DAY_MS } from '../../platform/base/times.ts';
import { isPermission, type Permission } from '../access/permissions.ts';
import { fieldOfBound } from './bound-fields.ts';
import { type FieldProblems, linesOf, listOfLines, numberedLines, numberOf } from './forms.ts';
import { bodyOfJob, CUSTOM, isJob, jobs } from './key-jobs.ts';
import {
  areRulesChosen,
  isByText,
  readRules,
  ruleField,
  type RuleRow,
  rulesOfForm,
  typedRulesOf,
} from './rule-rows.ts';
import type { ApiAnswer } from './visit.ts';
import { problemsByField, versionOf } from './resource-pages.ts';

/** An application as the API shows it. */
export type Application = {
  id: string;
  name: string;
  type: string;
  permissions: string[];
  rules: unknown[];
  allowed_hosts?: string[];
  rate_limit?: RateLimit;
  daily_reveals?: number;
  daily_uses?: number;
  echo_guard?: string;
  allowed_origins?: string[];
  containers?: string[];
  creates_per_minute?: number;
  /** Only where the key was created. */
  key?: string;
  last_used_at?: string;
  created_at: string;
  created_by?: string;
  modified_at?: string;
  modified_by?: string;
};

/** Fields of the form that are text, by name. */
const textFields = [
  'name',
  'type',
  'rules',
  'allowed_hosts',
  'requests_per_second',
  'burst',
  'daily_reveals',
  'daily_uses',
  'echo_guard',
  'allowed_origins',
  'container',
  'creates_per_minute',
  // Fields of a new one: what its key is for, when the key ends in days, and the networks that may use it.
  'job',
  'ends',
  'allowed_addresses',
] as const;

export type TextField = (typeof textFields)[number];

export type TypedApplication = Record<TextField, string> & {
  /** Beside the rules as JSON. */
  rows: readonly RuleRow[];
  /** The rules that the form began with. */
  stored: readonly unknown[];
  permissions: ReadonlySet<Permission>;
  /** A random id of the form: a form that is sent twice makes one application or key. */
  form_id: string;
  /** The version that the form began with, so that changes of others are not overwritten. Empty for a new application. */
  seen: string;
};

/** Long texts of the form, which are shown again if the session has ended. */
export const keptFields: readonly TextField[] = ['name', 'rules', 'allowed_hosts', 'allowed_origins'];

/** The field of a permission's checkbox. */
export const permissionField = (permission: Permission): string => `permission.${permission}`;

/** Days until a new key ends. Empty: it does not. */
export const ends = [
  ['30', 'in 30 days'],
  ['90', 'in 90 days'],
  ['365', 'in a year'],
  ['', 'never'],
] as const;

const DEFAULT_END = '90';

export const emptyForm = (form_id: string): TypedApplication => ({
  ...(Object.fromEntries(textFields.map((name) => [name, ''])) as Record<TextField, string>),
  type: 'private',
  job: jobs[0][0],
  ends: DEFAULT_END,
  ...typedRulesOf([]),
  permissions: new Set(),
  form_id,
  seen: '',
});

const textOf = (value: number | undefined): string => (value === undefined ? '' : String(value));

/** The form of a stored application. */
export const formOf = (application: Application, form_id: string): TypedApplication => {
  const { rate_limit, rules } = application;
  return {
    name: application.name,
    type: application.type,
    ...typedRulesOf(rules),
    allowed_hosts: (application.allowed_hosts ?? []).join('\n'),
    requests_per_second: textOf(rate_limit?.requests_per_second),
    burst: textOf(rate_limit?.burst),
    daily_reveals: textOf(application.daily_reveals),
    daily_uses: textOf(application.daily_uses),
    echo_guard: application.echo_guard ?? '',
    allowed_origins: (application.allowed_origins ?? []).join('\n'),
    container: application.containers?.[0] ?? '',
    job: CUSTOM,
    ends: '',
    allowed_addresses: '',
    creates_per_minute: textOf(application.creates_per_minute),
    permissions: new Set(application.permissions.filter(isPermission)),
    form_id,
    seen: versionOf(application),
  };
};

/** @param field reads a typed field by its name. @param stored the rules of a stored application. */
export const readForm = (
  field: (name: string) => string,
  offered: readonly Permission[],
  { form_id, stored }: Pick<TypedApplication, 'form_id' | 'stored'>,
): TypedApplication => ({
  ...(Object.fromEntries(textFields.map((name) => [name, linesOf(field(name))])) as Record<TextField, string>),
  name: field('name').trim(),
  container: field('container').trim(),
  job: isJob(field('job')) ? field('job') : CUSTOM,
  ...readRules(field, linesOf(field('rules')), stored),
  permissions: new Set(offered.filter((permission) => field(permissionField(permission)) !== '')),
  form_id,
  seen: field('seen'),
});

/** What was chosen beside a job that stands for other rights, or that has no use for it. */
export const jobProblems = (typed: TypedApplication): FieldProblems => {
  const problems = new Map<string, string[]>();
  if (typed.job === CUSTOM) return problems;
  if (typed.permissions.size > 0 || areRulesChosen(typed))
    problems.set('job', ['must be Custom where permissions or rules are chosen']);
  if (typed.job === 'code' && typed.container !== '') problems.set('container', ['must be empty: code is in none']);
  return problems;
};

/** The body for the API. @throws SyntaxError for rules that `rulesRefusal` refuses. */
export const bodyOfForm = (typed: TypedApplication): Record<string, unknown> => {
  const ofJob = bodyOfJob(typed.job, typed.container);
  const requests_per_second = numberOf(typed.requests_per_second);
  const burst = numberOf(typed.burst);
  return {
    name: typed.name,
    type: typed.type,
    permissions: [...typed.permissions],
    rules: rulesOfForm(typed),
    allowed_hosts: listOfLines(typed.allowed_hosts),
    rate_limit: requests_per_second === undefined && burst === undefined ? undefined : { requests_per_second, burst },
    daily_reveals: numberOf(typed.daily_reveals),
    daily_uses: numberOf(typed.daily_uses),
    echo_guard: typed.echo_guard === '' ? undefined : typed.echo_guard,
    allowed_origins: listOfLines(typed.allowed_origins),
    containers: typed.container === '' ? undefined : [typed.container],
    creates_per_minute: numberOf(typed.creates_per_minute),
    ...ofJob,
  };
};

/** The settings of a new key; undefined for none. @param now when it is made. */
export const keySettings = ({ ends: days, allowed_addresses }: TypedApplication, now: Date): object | undefined => {
  const isListed = ends.some(([value]) => value === days);
  const end = isListed ? new Date(now.getTime() + Number(days) * DAY_MS).toISOString() : days;
  const networks = listOfLines(allowed_addresses);
  if (days === '' && !networks) return undefined;
  return { ...(days !== '' && { expires_at: end }), ...(networks && { allowed_addresses: networks }) };
};

const fieldNames: ReadonlySet<string> = new Set([...textFields, 'permissions']);

/** The field of a path of the API's body within the bound of a rule; undefined for other paths, and for rules that are JSON. */
const findFieldOfBound = (typed: TypedApplication, place: string): string | undefined => {
  const [, index, rest] = /^rules\[(\d+)\]\.bound_to(\..+)$/.exec(place) ?? [];
  return rest === undefined || isByText(typed) ? undefined : ruleField(Number(index), fieldOfBound(rest));
};

/** The field of a place of the API's body. */
const fieldOfPlace = ({ job }: TypedApplication, place: string): string => {
  if (place === 'expires_at') return 'ends';
  // The rule of a job has nothing of its own but its container.
  if (job !== CUSTOM && place.startsWith('rules')) return 'container';
  if (place === 'rate_limit') return 'requests_per_second';
  const name = place.replace(/^rate_limit\./, '').replace(/[.[].*$/, '');
  const field = name === 'containers' ? 'container' : name;
  return fieldNames.has(field) ? field : '';
};

/** Says where in a field of several lines or rules an error is. */
const sentenceOf = (typed: TypedApplication, place: string, sentence: string): string => {
  const [, name = '', index = '', rest = ''] = /^(\w+)\[(\d+)\]\.?(.*)$/.exec(place) ?? [];
  if (name === 'rules' && typed.job === CUSTOM) return `Rule ${Number(index) + 1}${rest && `, ${rest}`}: ${sentence}.`;
  if (name !== 'allowed_hosts' && name !== 'allowed_origins' && name !== 'allowed_addresses') return sentence;
  return `Line ${numberedLines(typed[name])[Number(index)]?.line ?? ''} ${sentence}.`;
};

/** The API's errors by field of the form. */
export const problemsOfForm = (typed: TypedApplication, answer: ApiAnswer): FieldProblems =>
  problemsByField(
    answer,
    (place) => findFieldOfBound(typed, place) ?? fieldOfPlace(typed, place),
    (sentence, place) => (findFieldOfBound(typed, place) === undefined ? sentenceOf(typed, place, sentence) : sentence),
  );
