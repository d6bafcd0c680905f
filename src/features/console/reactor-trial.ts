// Runs a reactor for its page, by the API as the member, and shows what came of it: masked where it looks like a card number,
// and bounded. The run is done once; nothing here repeats it.
import { STATUS_CODES } from 'node:http';
import { html, type Html, type HtmlValue } from '../../http/html.ts';
import { maskedText, shownText, shownValue } from '../../runtime/shown.ts';
import { isCodeChanged, type Editor } from './reactor-record.ts';
import { badge, shownBlock } from './shell.ts';
import type { Console, Visit } from './visit.ts';

type Answer = {
  status: number;
  type: string;
  text: string;
  /** Where in the code it was thrown, for the API says so beside the problem. */
  line: number | undefined;
  ms: number;
};

/** What the API answers where the code did not answer for itself. */
type Result = { raw?: unknown; tokens?: unknown; logs?: { level: string; text: string }[] };
type Problem = { title?: string; detail?: string; errors?: Record<string, string[]> };

const jsonIn = ({ type, text }: Answer): unknown => {
  // Code may say that it sends JSON, and send anything.
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
  const lines = Object.entries(errors ?? {}).flatMap(([place, sentences]) =>
    sentences.map((sentence) => (place === '' || place === 'error' ? sentence : `${place}: ${sentence}`)),
  );
  return [
    html`<p><strong>${maskedText(detail ?? title ?? 'The run failed.')}</strong>${line !== undefined && ` in line ${line}`}</p>`,
    lines.length > 0 && html`<ul class="words">${lines.map((line) => html`<li>${shownText(line).text}</li>`)}</ul>`,
  ];
};

const MASKED =
  'What looks like the number or the security code of a card is masked here; everything else is as the code returned it.';

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

/** A configuration that does not fit its formula any more is told beside its fields, too. */
const configurationProblems = (body: unknown): Editor['problems'] => {
  const { errors } = (isObject(body) ? body : {}) as Problem;
  return new Map(Object.entries(isObject(errors) ? errors : {}).filter(([place]) => place.startsWith('configuration')));
};

/** What is wrong with the args before anybody is asked. */
const refusalOf = (args: string): { sentence: string; line: number | undefined } | undefined => {
  try {
    JSON.parse(args);
    return undefined;
  } catch (error) {
    // The parser's message may quote what was typed; where it is wrong is all that is taken from it.
    const [, position] = / position (\d+)/.exec((error as Error).message) ?? [];
    const line = position === undefined ? undefined : args.slice(0, Number(position)).split('\n').length;
    return { sentence: `must be JSON${line === undefined ? '' : `: look at line ${line}`}`, line };
  }
};

const ask = async ({ session, request }: Visit, { authentication }: Console, editor: Editor): Promise<Answer> => {
  const began = performance.now();
  // As typed, not parsed and written anew: a number may have more digits than a double holds.
  const payload = editor.args.trim() === '' ? '{}' : `{"args":${editor.args}}`;
  const answer = await authentication.actAs(session.caller, request, {
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

/** Runs what is stored, on the args that were typed. */
export const runReactor = async (visit: Visit, console: Console, editor: Editor): Promise<Editor> => {
  const refusal = editor.args.trim() === '' ? undefined : refusalOf(editor.args);
  if (refusal)
    return {
      ...editor,
      problems: new Map([['args', [`The args ${refusal.sentence}. Nothing was run.`]]]),
      argsLine: refusal.line,
    };
  const answer = await ask(visit, console, editor);
  const body = jsonIn(answer);
  const isOfStored = isCodeChanged(editor);
  return {
    ...editor,
    problems: configurationProblems(body),
    codeLine: isOfStored ? undefined : answer.line,
    above: [editor.above, outcomeOf(answer, body, isOfStored)],
  };
};
