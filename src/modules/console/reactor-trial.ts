// Runs a reactor once by the API as the member, and shows a bounded result with card numbers masked.
import { STATUS_CODES } from 'node:http';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { jsonRefusal } from './forms.ts';
import { maskedText, shownText, shownValue } from '../code/shown.ts';
import { isCodeChanged, type Editor } from './reactor-record.ts';
import { badge, shownBlock } from './shell.ts';
import { errorLines, type Visit } from './visit.ts';

type Answer = {
  status: number;
  type: string;
  text: string;
  /** The line where the code threw, from a header. */
  line: number | undefined;
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

const problemBlocks = ({ title, detail, errors }: Problem, line: number | undefined): HtmlValue => {
  const lines = errorLines(errors ?? {});
  return [
    html`<p><strong>${maskedText(detail ?? title ?? 'The run failed.')}</strong>${line !== undefined && ` in line ${line}`}</p>`,
    lines.length > 0 && html`<ul class="words">${lines.map((line) => html`<li>${shownText(line).text}</li>`)}</ul>`,
  ];
};

const MASKED =
  'Text that looks like a card number or a security code is masked here. Everything else is as the code returned it.';

const outcomeOf = (answer: Answer, body: unknown, isOfStored: boolean): Html => {
  const { status, ms, type } = answer;
  const isProblem = status >= 400 && isObject(body) && type.includes('problem+json');
  const isFine = status < 400;
  return html`<section class="card result" id="result" aria-labelledby="result-heading">
<div class="heading" role="${isFine ? 'status' : 'alert'}"><h2 id="result-heading">Result</h2>
<p class="facts">${badge(`${status} ${STATUS_CODES[status] ?? ''}`.trim(), isFine ? 'good' : 'bad')} <span class="quiet">${Math.round(ms)} ms</span></p></div>
${isOfStored && html`<p class="hint">The code below was changed and is not saved: this is what the saved code did.</p>`}
${
  isResult(answer, body)
    ? resultBlocks(body)
    : isProblem
      ? problemBlocks(body as Problem, answer.line)
      : shownBlock(
          `The code's own response${type === '' ? '' : `, ${type}`}`,
          body === undefined ? shownText(answer.text) : shownValue(body),
        )
}
<p class="quiet">${MASKED}</p>
</section>`;
};

/** Errors of a configuration that no longer fits its formula, shown next to its fields. */
const configurationProblems = (body: unknown): Editor['problems'] => {
  const { errors } = (isObject(body) ? body : {}) as Problem;
  return new Map(Object.entries(isObject(errors) ? errors : {}).filter(([place]) => place.startsWith('configuration')));
};

const invoke = async ({ actAs }: Visit, editor: Editor): Promise<Answer> => {
  const began = performance.now();
  // As typed, because to parse it would round long numbers.
  const payload = editor.args.trim() === '' ? '{}' : `{"args":${editor.args}}`;
  const answer = await actAs({
    method: 'POST',
    url: `/reactors/${editor.reactor.id}/react`,
    headers: { 'content-type': 'application/json' },
    payload,
  });
  const line = String(answer.headers['svc-code-line'] ?? '');
  return {
    status: answer.statusCode,
    type: String(answer.headers['content-type'] ?? ''),
    text: answer.payload,
    line: /^\d{1,6}$/.test(line) ? Number(line) : undefined,
    ms: performance.now() - began,
  };
};

/** Runs the stored reactor with the typed args. */
export const runReactor = async (visit: Visit, editor: Editor): Promise<Editor> => {
  const refusal = editor.args.trim() === '' ? undefined : jsonRefusal(editor.args);
  if (refusal)
    return {
      ...editor,
      problems: new Map([['args', [`The args ${refusal.sentence}. Nothing was run.`]]]),
      argsLine: refusal.line,
    };
  const answer = await invoke(visit, editor);
  const body = jsonIn(answer);
  const isOfStored = isCodeChanged(editor);
  return {
    ...editor,
    problems: configurationProblems(body),
    codeLine: isOfStored ? undefined : answer.line,
    above: [editor.above, outcomeOf(answer, body, isOfStored)],
  };
};
