// Expressions and literal texts that a tenant's code made with `svc.expression` and `svc.literal`. A request of code is read
// with these alone: `{{` that came from args, tokens or answers is never read as an expression there.
import { ExpressionError } from './expression-error.ts';
import { countPlaceholder, type Expression, scanTemplate, type Template } from './template.ts';

export type CodedText = { literal: string } | { id: string; filter?: string | null | undefined };

/** The sandbox draws the UUID for each run, so only code of that run can write a mark. */
export const CODED_MARK = /svc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]{1,9}/;

const mark = new RegExp(`\\{\\{(${CODED_MARK.source})\\}\\}`, 'g');

const anyMark = new RegExp(CODED_MARK.source, 'g');

const WANTED =
  'must have no {{ but what svc.expression(id, filter) makes; other text that holds {{ must be wrapped in svc.literal(text)';

/** What code marked in one request, by its marks. */
export type CodedTexts = {
  /** @throws ExpressionError for `{{` outside of a mark, and for an expression that is not well formed. */
  scan(text: string): Template;
  /** Whether a scanned text had each of the marks. */
  isComplete(): boolean;
  /** Whether a text that would go out still has one of the marks. */
  isIn(text: string): boolean;
};

type Coded = Pick<Expression, 'head' | 'filters' | 'literal'> & { draws: boolean };

/** One id and its filters; nothing in either can end the expression or begin another. @throws ExpressionError. */
const expressionOf = (id: string, filter: string): Coded => {
  const { parts, draws } = scanTemplate(filter.trim() === '' ? `{{${id}}}` : `{{${id}|${filter}}}`);
  const [only] = parts;
  if (parts.length !== 1 || typeof only !== 'object' || only.head !== id.trim() || only.head.startsWith('token:'))
    throw new ExpressionError('unknown_head', 'must give svc.expression one id of a token, and filters apart from it');
  return { ...only, draws };
};

const readCoded = (text: CodedText): Coded =>
  'literal' in text
    ? { head: '', filters: [], literal: text.literal, draws: false }
    : expressionOf(text.id, text.filter ?? '');

export const createCodedTexts = (marked: ReadonlyMap<string, CodedText>): CodedTexts => {
  const read = new Map<string, Coded>();
  const scan = (text: string): Template => {
    const template: Template = { parts: [], draws: false };
    let done = 0;
    let placeholders = 0;
    const addText = (between: string): void => {
      if (between.includes('{{')) throw new ExpressionError('not_coded', WANTED, done + between.indexOf('{{'));
      if (between !== '') template.parts.push(between);
    };
    for (const { 0: whole, 1: name = '', index } of text.matchAll(mark)) {
      const given = marked.get(name);
      if (!given) continue;
      addText(text.slice(done, index));
      placeholders = countPlaceholder(placeholders);
      const { draws, ...coded } = read.get(name) ?? readCoded(given);
      read.set(name, { draws, ...coded });
      template.parts.push({ ...coded, offset: index });
      template.draws ||= draws;
      done = index + whole.length;
    }
    addText(text.slice(done));
    if (template.parts.length === 0) template.parts.push('');
    return template;
  };
  const isIn = (text: string): boolean => {
    for (const [name] of text.matchAll(anyMark)) if (marked.has(name)) return true;
    return false;
  };
  return { scan, isComplete: () => read.size === marked.size, isIn };
};
