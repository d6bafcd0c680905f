// Deploys the code of a reactor, and saves its name and configuration, by the API, and shows its errors next to the fields.
import { problemsNotice, tryAgain, problemsByPlace } from './forms.ts';
import {
  configurationOf,
  type Editor,
  type Formula,
  isCodeChanged,
  isSettingChanged,
  type Reactor,
  withReactor,
} from './reactor-record.ts';
import { notice } from './shell.ts';
import { type ApiAnswer, isSuccess, problemLines, type Visit } from './visit.ts';

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
        above: notice(
          'warn',
          'This reactor was changed since the page was opened. Your changes are below and are not saved. Deploy or save again to overwrite the other changes.',
        ),
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
