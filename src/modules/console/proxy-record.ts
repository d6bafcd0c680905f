// A stored proxy as the API returns it to the console's pages, and its form: what was typed, as a body of the API, with errors by field.
import { TIMEOUT_SECONDS } from '../../platform/base/times.ts';
import type { AmountRule } from '../proxy/amount-rule.ts';
import type { CodeRule } from '../proxy/code-rule.ts';
import { ELEMENTS_MAX } from '../code/formula-fields.ts';
import { type FieldProblems, linesOf, listOfLines, numberedLines, numberOf } from './forms.ts';
import { parseJson } from '../../platform/json/json.ts';
import { problemsByField } from './resource-pages.ts';
import type { ApiAnswer } from './visit.ts';

type Value = string | number | boolean;

type Transform = { code: string; type?: string; expression?: string; replacement?: string };

export type Proxy = {
  id: string;
  key?: string;
  previous_key_ends_at?: string;
  name: string;
  destination_url: string;
  require_auth: boolean;
  expressions: 'on' | 'off';
  timeout_seconds: number;
  echo_guard?: string;
  cvc?: CodeRule;
  amount?: AmountRule;
  idempotency_header?: string;
  request_transform?: Transform;
  response_transform?: Transform;
  application_id?: string;
  configuration: Record<string, Value> | null;
  allowed_hosts?: string[];
  client_certificate?: { fingerprint_sha256: string; expires_at: string };
  created_at: string;
  modified_at?: string;
};

const textFields = [
  'name',
  'destination_url',
  'allowed_hosts',
  'application_id',
  'timeout_seconds',
  'echo_guard',
  'cvc_until',
  'cvc_statuses',
  'cvc_path',
  'cvc_equals',
  'amount_value',
  'amount_currency',
  'amount_unit',
  'amount_merchant',
  'idempotency_header',
  'request_transform',
  'response_transform',
  'expression',
  'replacement',
  'certificate',
  'private_key',
  // Boxes: `yes` or empty.
  'is_open',
  'is_literal',
  'no_certificate',
] as const;

type ProxyField = (typeof textFields)[number];

/** A value of the configuration, as typed. */
export type ConfigurationRow = { name: string; type: 'text' | 'number' | 'yes or no'; value: string };

export const configurationTypes = ['text', 'number', 'yes or no'] as const;

export type ProxyForm = {
  /** Undefined for a new one. */
  proxy: Proxy | undefined;
  typed: Record<ProxyField, string>;
  rows: ConfigurationRow[];
  problems: FieldProblems;
};

/** Long texts of the form, which are shown again if the session has ended. Without secrets. */
export const keptFields: readonly ProxyField[] = ['name', 'destination_url', 'request_transform', 'response_transform'];

/** One more than the API takes, which says so. */
const ROWS_MAX = ELEMENTS_MAX + 1;

/** At the end: each save gives new ones. */
const EMPTY_ROWS = 2;

const DEFAULT_REPLACEMENT = '*';

export const rowField = (index: number, part: keyof ConfigurationRow): string => `configuration.${index}.${part}`;

const emptyRow: ConfigurationRow = { name: '', type: 'text', value: '' };

const rowOf = ([name, value]: [string, Value]): ConfigurationRow => {
  const type = typeof value === 'string' ? 'text' : typeof value === 'number' ? 'number' : 'yes or no';
  return { name, type, value: typeof value === 'boolean' ? (value ? 'yes' : 'no') : linesOf(String(value)) };
};

export const withEmptyRows = (rows: readonly ConfigurationRow[]): ConfigurationRow[] => [
  ...rows,
  ...Array.from({ length: Math.max(0, Math.min(EMPTY_ROWS, ROWS_MAX - rows.length)) }, () => emptyRow),
];

const isMask = (transform: Transform | undefined): boolean => transform?.type === 'mask';

type CodeField = 'cvc_until' | 'cvc_statuses' | 'cvc_path' | 'cvc_equals';

const typedCodeRule = (rule: CodeRule | undefined): Record<CodeField, string> => ({
  cvc_until: rule?.until === 'answered' ? 'answered' : '',
  cvc_statuses: (rule?.keep?.statuses ?? []).join(', '),
  cvc_path: rule?.keep?.when?.path ?? '',
  cvc_equals: (rule?.keep?.when?.equals ?? []).map(textOfScalar).join('\n'),
});

/** Words that a line of the form could take for a number or a word of JSON stand in quotation marks. */
const textOfScalar = (value: Scalar): string =>
  typeof value === 'string' && scalarOf(value) === value ? value : JSON.stringify(value);

type Scalar = string | number | boolean | null;

/** A number, true, false, null or a text in quotation marks, as JSON has it; another line is a text. */
const scalarOf = (line: string): Scalar => {
  const value = parseJson(line);
  return value === undefined || (typeof value === 'object' && value !== null) ? line : (value as Scalar);
};

/** Undefined for codes that live to the end of their time, and where nothing was typed that keeps them. */
const codeRuleOf = ({ cvc_until, cvc_statuses, cvc_path, cvc_equals }: Record<CodeField, string>): unknown => {
  if (cvc_until === '') return undefined;
  const statuses = cvc_statuses.split(/[\s,]+/).filter((each) => each !== '');
  const equals = (listOfLines(cvc_equals) ?? []).map(scalarOf);
  const keep = {
    ...(statuses.length > 0 && { statuses: statuses.map(numberOf) }),
    ...((cvc_path !== '' || equals.length > 0) && { when: { path: cvc_path.trim(), equals } }),
  };
  return { until: cvc_until, ...(Object.keys(keep).length > 0 && { keep }) };
};

type AmountField = 'amount_value' | 'amount_currency' | 'amount_unit' | 'amount_merchant';

const typedAmountRule = (rule: AmountRule | undefined): Record<AmountField, string> => ({
  amount_value: rule?.value ?? '',
  amount_currency: rule?.currency ?? '',
  amount_unit: rule?.unit ?? 'minor',
  amount_merchant: rule?.merchant ?? '',
});

/** Undefined where no place was typed. */
const amountRuleOf = (typed: Record<AmountField, string>): unknown => {
  const [value, currency, merchant] = [typed.amount_value, typed.amount_currency, typed.amount_merchant].map((each) =>
    each.trim(),
  );
  if (value === '' && currency === '' && merchant === '') return undefined;
  return { value, currency, unit: typed.amount_unit, ...(merchant !== '' && { merchant }) };
};

export const formOfProxy = (proxy: Proxy | undefined): ProxyForm => {
  const { request_transform, response_transform } = proxy ?? {};
  const mask = isMask(response_transform) ? response_transform : undefined;
  const typed = {
    name: proxy?.name ?? '',
    destination_url: proxy?.destination_url ?? '',
    allowed_hosts: (proxy?.allowed_hosts ?? []).join('\n'),
    application_id: proxy?.application_id ?? '',
    timeout_seconds: String(proxy?.timeout_seconds ?? TIMEOUT_SECONDS.usual),
    echo_guard: proxy?.echo_guard ?? '',
    ...typedCodeRule(proxy?.cvc),
    ...typedAmountRule(proxy?.amount),
    idempotency_header: proxy?.idempotency_header ?? '',
    request_transform: request_transform?.code ?? '',
    response_transform: mask ? '' : (response_transform?.code ?? ''),
    expression: mask?.expression ?? '',
    replacement: mask?.replacement ?? DEFAULT_REPLACEMENT,
    certificate: '',
    private_key: '',
    is_open: proxy && !proxy.require_auth ? 'yes' : '',
    is_literal: proxy?.expressions === 'off' ? 'yes' : '',
    no_certificate: '',
  };
  return { proxy, typed, rows: Object.entries(proxy?.configuration ?? {}).map(rowOf), problems: new Map() };
};

export const readProxyForm = (proxy: Proxy | undefined, field: (name: string) => string): ProxyForm => {
  const typed = Object.fromEntries(textFields.map((name) => [name, linesOf(field(name))])) as ProxyForm['typed'];
  const rows = Array.from({ length: ROWS_MAX }, (_, index): ConfigurationRow => {
    const type = configurationTypes.find((each) => each === field(rowField(index, 'type'))) ?? 'text';
    return { name: field(rowField(index, 'name')).trim(), type, value: linesOf(field(rowField(index, 'value'))) };
  });
  return { proxy, typed, rows: rows.filter(({ name, value }) => name !== '' || value !== ''), problems: new Map() };
};

const valueOfRow = ({ name, type, value }: ConfigurationRow, proxy: Proxy | undefined): Value | undefined => {
  const text = value.trim();
  if (type === 'number') return text !== '' && String(Number(text)) === text ? Number(text) : undefined;
  if (type === 'yes or no') return text === 'yes' ? true : text === 'no' ? false : undefined;
  // A textarea has no CR: a text that was not changed stays as it is stored.
  const stored = Object.hasOwn(proxy?.configuration ?? {}, name) ? proxy?.configuration?.[name] : undefined;
  return typeof stored === 'string' && linesOf(stored) === value ? stored : value;
};

const ROW_SENTENCES = {
  text: 'must be text',
  number: 'must be a number, such as 12 or -0.5; long numbers are text',
  'yes or no': 'must be yes or no',
} as const;

/** Errors that the API cannot find, because the body of a request cannot hold them. */
const problemsOfRows = ({ rows, proxy }: ProxyForm): Map<string, string[]> => {
  const problems = new Map<string, string[]>();
  rows.forEach((row, index) => {
    if (row.name === '') problems.set(rowField(index, 'name'), ['must be there, beside the value']);
    else if (rows.findIndex(({ name }) => name === row.name) < index)
      problems.set(rowField(index, 'name'), ['must be there once']);
    if (valueOfRow(row, proxy) === undefined) problems.set(rowField(index, 'value'), [ROW_SENTENCES[row.type]]);
  });
  return problems;
};

const responseOf = ({ response_transform, expression, replacement }: ProxyForm['typed']): unknown => {
  const code = response_transform === '' ? {} : { code: response_transform };
  if (expression !== '' || replacement !== DEFAULT_REPLACEMENT)
    return { type: 'mask', matcher: 'regex', ...(expression !== '' && { expression }), replacement, ...code };
  return response_transform === '' ? undefined : code;
};

const certificateOf = ({ certificate, private_key, no_certificate }: ProxyForm['typed']): unknown => {
  if (certificate !== '' || private_key !== '') return { certificate, private_key };
  return no_certificate === 'yes' ? null : undefined;
};

/** @returns the body for the API, or the errors that need no request. */
export const bodyOfProxyForm = (form: ProxyForm): { json: Record<string, unknown> } | { problems: FieldProblems } => {
  const { typed, rows, proxy } = form;
  const problems = problemsOfRows(form);
  if (typed.no_certificate === 'yes' && typed.certificate + typed.private_key !== '')
    problems.set('certificate', ['must be empty where the certificate is removed']);
  if (problems.size > 0) return { problems };
  const json = {
    name: typed.name.trim(),
    destination_url: typed.destination_url.trim(),
    allowed_hosts: listOfLines(typed.allowed_hosts),
    application: typed.application_id === '' ? null : { id: typed.application_id },
    timeout_seconds: numberOf(typed.timeout_seconds),
    echo_guard: typed.echo_guard === '' ? undefined : typed.echo_guard,
    cvc: codeRuleOf(typed),
    amount: amountRuleOf(typed),
    idempotency_header: typed.idempotency_header.trim() === '' ? undefined : typed.idempotency_header.trim(),
    request_transform: typed.request_transform === '' ? undefined : { code: typed.request_transform },
    response_transform: responseOf(typed),
    configuration: rows.length === 0 ? null : Object.fromEntries(rows.map((row) => [row.name, valueOfRow(row, proxy)])),
    require_auth: typed.is_open !== 'yes',
    expressions: typed.is_literal === 'yes' ? 'off' : 'on',
    client_certificate: certificateOf(typed),
  };
  return { json };
};

/** Fields of places whose last name is not the field. */
const renamed: Record<string, ProxyField> = {
  application: 'application_id',
  'application.id': 'application_id',
  'request_transform.code': 'request_transform',
  'response_transform.code': 'response_transform',
  'response_transform.type': 'response_transform',
  'response_transform.expression': 'expression',
  'response_transform.replacement': 'replacement',
  client_certificate: 'certificate',
  'client_certificate.certificate': 'certificate',
  'client_certificate.private_key': 'private_key',
  amount: 'amount_value',
  'amount.value': 'amount_value',
  'amount.currency': 'amount_currency',
  'amount.unit': 'amount_unit',
  'amount.merchant': 'amount_merchant',
};

/** The fields of the rule about security codes, by the last name of their places. */
const codeFields: Record<string, CodeField> = { statuses: 'cvc_statuses', path: 'cvc_path', equals: 'cvc_equals' };

const fieldOfPlace = ({ rows }: ProxyForm, place: string): string => {
  const [, name] = /^configuration\.(.+)$/.exec(place) ?? [];
  const row = rows.findIndex((each) => each.name === name);
  if (row !== -1) return rowField(row, 'value');
  const [, ofCode] = /^cvc(?:\..*?)?(?:\.(statuses|path|equals)(?:\[\d+\])?)?$/.exec(place) ?? [];
  if (/^cvc\b/.test(place)) return codeFields[ofCode ?? ''] ?? 'cvc_until';
  if (Object.hasOwn(renamed, place)) return renamed[place] as ProxyField;
  return textFields.find((field) => field === place.replace(/\[\d+\]$/, '')) ?? '';
};

/** The API's errors by field of the form. */
export const problemsOfProxyForm = (form: ProxyForm, answer: ApiAnswer): FieldProblems =>
  problemsByField(
    answer,
    (place) => fieldOfPlace(form, place),
    (sentence, place) => {
      const [, index] = /^allowed_hosts\[(\d+)\]$/.exec(place) ?? [];
      if (index === undefined) return sentence;
      return `Line ${numberedLines(form.typed.allowed_hosts)[Number(index)]?.line ?? ''} ${sentence}`;
    },
  );
