// Deploys and saves a reactor, and runs it or a draft of its code once as the member, by the API.
// Shows errors next to the fields, and a bounded result with card numbers masked.
import { STATUS_CODES } from 'node:http';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { maskedText, shownText, shownValue } from '../code/shown.ts';
import { jsonRefusal, problemsByPlace, problemsNotice, tryAgain } from './forms.ts';
import {
  configurationOf,
  type Editor,
  type Formula,
  isCodeChanged,
  isConfigurationChanged,
  isSettingChanged,
  type Reactor,
  withReactor,
} from './reactor-record.ts';
import { changedNotice } from './resource-pages.ts';
import { badge, notice, shownBlock } from './shell.ts';
import { type ApiAnswer, errorLines, isSuccess, problemLines, type Visit } from './visit.ts';

// Deploys the code of a reactor, and saves its name and configuration, by the API, and shows its errors next to the fields.

type Saved = { editor: Editor; status: number };

/** The line of a compile error in the API's message. */
export const lineOf = (sentences: readonly string[]): number | undefined => {
  const [, line] = /^does not compile: line (\d{1,6})\b/.exec(sentences.join('\n')) ?? [];
  return line === undefined ? undefined : Number(line);
};

const refused = (editor: Editor, heading: string, answer: ApiAnswer): Saved => {
  const problems = problemsByPlace(answer);
  const lines = [...problemLines(answer), tryAgain(answer)].filter((line) => line !== undefined);
  return {
    editor: {
      ...editor,
      problems,
      codeLine: lineOf(problems.get('code') ?? []),
      above: problemsNotice(heading, lines),
    },
    status: answer.status,
  };
};

/** Changes the code only; the other attributes of the formula stay. */
const saveCode = (visit: Visit, { reactor, code, note }: Editor): Promise<ApiAnswer> => {
  const { id, name, description, icon, configuration, request_parameters } = reactor.formula;
  const json = {
    name,
    description,
    icon,
    type: 'private',
    code,
    configuration,
    request_parameters,
    ...(note !== '' && { note }),
  };
  return visit.api({ method: 'PUT', url: `/reactor-formulas/${id}`, json, withAllGrants: true });
};

/** The code of a reactor that was created with it, with nothing else. */
const saveOwnCode = (visit: Visit, { reactor, code }: Editor): Promise<ApiAnswer> =>
  visit.api({ method: 'PATCH', url: `/reactors/${reactor.id}`, json: { code }, withAllGrants: true });

const saveReactor = (visit: Visit, editor: Editor): Promise<ApiAnswer> => {
  const { id, application, code } = editor.reactor;
  const echo_guard = editor.echo_guard === '' ? null : editor.echo_guard;
  // No contract names the values of its configuration: this page does not show them.
  if (code !== undefined)
    return visit.api({
      method: 'PATCH',
      url: `/reactors/${id}`,
      json: { name: editor.name, echo_guard },
      withAllGrants: true,
    });
  const json = {
    name: editor.name,
    configuration: configurationOf(editor),
    application: application && { id: application.id },
    echo_guard,
  };
  return visit.api({ method: 'PUT', url: `/reactors/${id}`, json, withAllGrants: true });
};

/**
 * Saves what was changed, unless the reactor was changed by others since the page was opened.
 * @param isDeploy the code too. Without it the typed code stays on the page alone.
 */
export const saveEditor = async (visit: Visit, typed: Editor, isDeploy: boolean): Promise<Saved> => {
  let editor = typed;
  const { seen } = withReactor(editor, editor.reactor);
  const isDeployed = isDeploy && isCodeChanged(editor);
  if (editor.seen !== seen && (isDeployed || isSettingChanged(editor)))
    return {
      editor: {
        ...editor,
        seen,
        above: changedNotice('reactor', 'Deploy or save'),
      },
      status: 409,
    };
  if (isDeployed) {
    const isOwn = editor.reactor.code !== undefined;
    const answer = await (isOwn ? saveOwnCode(visit, editor) : saveCode(visit, editor));
    if (!isSuccess(answer)) return refused(editor, 'The code was not deployed.', answer);
    const saved = isOwn ? (answer.body as Reactor) : { ...editor.reactor, formula: answer.body as Formula };
    editor = { ...withReactor(editor, saved), note: '' };
  }
  if (isSettingChanged(editor)) {
    const answer = await saveReactor(visit, editor);
    if (!isSuccess(answer)) return refused(editor, 'Name and configuration were not saved.', answer);
    editor = withReactor(editor, answer.body as Reactor);
  }
  return {
    editor: { ...editor, above: notice('good', isDeployed ? 'Deployed. Takes effect now.' : 'Saved.') },
    status: 200,
  };
};

type Answer = {
  status: number;
  type: string;
  text: string;
  /** The line where the code threw, from a header. */
  line: number | undefined;
  /** The name of the error that it threw, likewise. */
  error: string | undefined;
  ms: number;
};

/** The API's response, unless the code made a response of its own. */
type Result = { raw?: unknown; tokens?: unknown; logs?: { level: string; text: string }[] };

type Problem = { title?: string; detail?: string; errors?: Record<string, string[]> };

const jsonIn = ({ type, text }: Answer): unknown => {
  // Code may declare JSON and send something else.
  try {
    return /json/.test(type) ? (JSON.parse(text) as unknown) : undefined;
  } catch {
    return undefined;
  }
};

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isResult = (answer: Answer, body: unknown): body is Result =>
  answer.status === 200 &&
  isObject(body) &&
  Object.keys(body).every((name) => name === 'raw' || name === 'tokens' || name === 'logs');

const resultBlocks = ({ raw, tokens, logs }: Result): HtmlValue => [
  raw === undefined && tokens === undefined && html`<p>The code returned nothing.</p>`,
  raw !== undefined && shownBlock('raw', shownValue(raw)),
  tokens !== undefined && shownBlock('tokens', shownValue(tokens)),
  logs && shownBlock('Console', shownText(logs.map(({ level, text }) => `${level}: ${text}`).join('\n'))),
];

const problemBlocks = ({ title, detail, errors }: Problem, { line, error }: Answer): HtmlValue => {
  const lines = errorLines(errors ?? {});
  return [
    html`<p><strong>${maskedText(detail ?? title ?? 'The run failed.')}</strong>${line !== undefined && ` in line ${line}`}${error !== undefined && html`: <code>${error}</code>`}</p>`,
    lines.length > 0 && html`<ul class="words">${lines.map((line) => html`<li>${shownText(line).text}</li>`)}</ul>`,
  ];
};

const MASKED =
  'Text that looks like a card number or a security code is masked here. Everything else is as the code returned it.';

/** What ran: the typed code; the deployed code; or the deployed code below which other code is typed. */
type Ran = 'draft' | 'deployed' | 'other';

const outcomeOf = (answer: Answer, body: unknown, ran: Ran): Html => {
  const { status, ms, type } = answer;
  const isProblem = status >= 400 && isObject(body) && type.includes('problem+json');
  const isFine = status < 400;
  return html`<section class="card result" id="result" aria-labelledby="result-heading">
<div class="heading" role="${isFine ? 'status' : 'alert'}"><h2 id="result-heading">Result</h2>
<p class="facts">${ran === 'draft' && badge('draft', 'warn')} ${badge(`${status} ${STATUS_CODES[status] ?? ''}`.trim(), isFine ? 'good' : 'bad')} <span class="quiet">${Math.round(ms)} ms</span></p></div>
${ran === 'other' && html`<p class="hint">The code below is not deployed: this is what the deployed code did.</p>`}
${
  isResult(answer, body)
    ? resultBlocks(body)
    : isProblem
      ? problemBlocks(body as Problem, answer)
      : shownBlock(
          `The code's own response${type === '' ? '' : `, ${type}`}`,
          body === undefined ? shownText(answer.text) : shownValue(body),
        )
}
<p class="quiet">${MASKED}</p>
</section>`;
};

/** Errors of a draft that does not compile, and of a configuration that does not fit, shown next to their fields. */
const fieldProblems = (body: unknown): Editor['problems'] => {
  const { errors } = (isObject(body) ? body : {}) as Problem;
  const isOfField = (place: string): boolean => place === 'code' || place.startsWith('configuration');
  const entries = Object.entries(isObject(errors) ? errors : {}).filter(([place]) => isOfField(place));
  // The texts may be those of the code.
  return new Map(entries.map(([place, sentences]) => [place, sentences.map(maskedText)]));
};

/** The body of a request. Args are as typed, because to parse them would round long numbers. */
const payloadOf = (args: string, draft: Record<string, unknown>): string => {
  const members = Object.entries(draft).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{${[...members, ...(args.trim() === '' ? [] : [`"args":${args}`])].join()}}`;
};

/** What differs from the deployed reactor. */
const draftOf = (editor: Editor): Record<string, unknown> => ({
  ...(isCodeChanged(editor) && { code: editor.code }),
  // No contract names the values of the configuration of own code: this page does not show them.
  ...(editor.reactor.code === undefined &&
    isConfigurationChanged(editor) && { configuration: configurationOf(editor) }),
});

const invoke = async ({ actAs }: Visit, editor: Editor, isDraft: boolean): Promise<Answer> => {
  const began = performance.now();
  const asked = {
    method: 'POST' as const,
    url: `/reactors/${editor.reactor.id}/${isDraft ? 'test' : 'react'}`,
    headers: { 'content-type': 'application/json' },
    payload: payloadOf(editor.args, isDraft ? draftOf(editor) : {}),
  };
  // A draft acts with the permissions of the application: they are compared with all rights of the member, as in a deploy.
  const answer = await (isDraft ? actAs(asked, true) : actAs(asked));
  const line = String(answer.headers['svc-code-line'] ?? '');
  const error = answer.headers['svc-code-error'];
  return {
    status: answer.statusCode,
    type: String(answer.headers['content-type'] ?? ''),
    text: answer.payload,
    line: /^\d{1,6}$/.test(line) ? Number(line) : undefined,
    error: typeof error === 'string' ? error : undefined,
    ms: performance.now() - began,
  };
};

/** Runs the deployed reactor, or the typed code without deploying it, with the typed args. */
export const runReactor = async (visit: Visit, editor: Editor, isDraft: boolean): Promise<Editor> => {
  const refusal = editor.args.trim() === '' ? undefined : jsonRefusal(editor.args);
  if (refusal)
    return {
      ...editor,
      problems: new Map([['args', [`The arguments ${refusal.sentence}. Nothing was run.`]]]),
      argsLine: refusal.line,
    };
  const answer = await invoke(visit, editor, isDraft);
  const body = jsonIn(answer);
  const ran: Ran = isDraft ? 'draft' : isCodeChanged(editor) ? 'other' : 'deployed';
  const problems = fieldProblems(body);
  return {
    ...editor,
    problems,
    codeLine: ran === 'other' ? undefined : (answer.line ?? lineOf(problems.get('code') ?? [])),
    above: [editor.above, outcomeOf(answer, body, ran)],
  };
};
