// Keeps what was typed on a reactor's page: the code with its formula, name and configuration with the reactor, by the API.
// What the API refuses is told beside its field, and nothing that was typed is lost.
import { problemsNotice, comeAgain, problemsByPlace } from './forms.ts';
import {
  configurationOf,
  type Editor,
  type Formula,
  isCodeChanged,
  isConfigurationChanged,
  type Reactor,
  withReactor,
} from './reactor-record.ts';
import { notice } from './shell.ts';
import { type ApiAnswer, isSuccess, problemLines, type Visit } from './visit.ts';

export type Saved = { editor: Editor; status: number };

/** The author's line in the API's words for code that does not compile. */
const lineOf = (sentences: readonly string[]): number | undefined => {
  const [, line] = /^does not compile: line (\d{1,6})\b/.exec(sentences.join('\n')) ?? [];
  return line === undefined ? undefined : Number(line);
};

const refused = (editor: Editor, heading: string, answer: ApiAnswer): Saved => {
  const problems = problemsByPlace(answer);
  const lines = [...problemLines(answer), comeAgain(answer)].filter((line) => line !== undefined);
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

/** All of the formula but its code stays as it is. */
const saveCode = (visit: Visit, { reactor, code }: Editor): Promise<ApiAnswer> => {
  const { id, name, description, icon, configuration, request_parameters } = reactor.formula;
  const json = { name, description, icon, type: 'private', code, configuration, request_parameters };
  return visit.api({ method: 'PUT', url: `/reactor-formulas/${id}`, json, withAllGrants: true });
};

const saveReactor = (visit: Visit, editor: Editor): Promise<ApiAnswer> => {
  const { id, application } = editor.reactor;
  const json = {
    name: editor.name,
    configuration: configurationOf(editor),
    application: application && { id: application.id },
  };
  return visit.api({ method: 'PUT', url: `/reactors/${id}`, json, withAllGrants: true });
};

/** Writes what was changed. Nothing is written over that somebody else changed since the page was made. */
export const saveEditor = async (visit: Visit, typed: Editor): Promise<Saved> => {
  let editor = typed;
  const { seen } = withReactor(editor, editor.reactor);
  if (editor.seen !== seen && (isCodeChanged(editor) || isConfigurationChanged(editor)))
    return {
      editor: {
        ...editor,
        seen,
        above: notice(
          'warn',
          'Somebody changed this reactor since the page was opened. What you typed is below and is not saved: save again to replace theirs.',
        ),
      },
      status: 409,
    };
  if (isCodeChanged(editor)) {
    const answer = await saveCode(visit, editor);
    if (!isSuccess(answer)) return refused(editor, 'The code was not saved.', answer);
    editor = withReactor(editor, { ...editor.reactor, formula: answer.body as Formula });
  }
  if (isConfigurationChanged(editor)) {
    const answer = await saveReactor(visit, editor);
    if (!isSuccess(answer)) return refused(editor, 'Name and configuration were not saved.', answer);
    editor = withReactor(editor, answer.body as Reactor);
  }
  return { editor: { ...editor, above: notice('good', 'Saved.') }, status: 200 };
};
