// Parses requests of a tenant's code, where only `svc.expression` and `svc.literal` make expressions.
// `{{` from args, tokens or responses is never parsed as an expression there.
import { ExpressionError } from './expression-error.ts';
import { countPlaceholder, type Expression, scanTemplate, type Template } from './template.ts';

export type CodedText = { literal: string } | { id: string; filter?: string | null | undefined };

/** The sandbox generates the UUID for each run, so only code of that run can write a mark. */
export const CODED_MARK = /svc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]{1,9}/;

const mark = new RegExp(`\\{\\{(${CODED_MARK.source})\\}\\}`, 'g');

const anyMark = new RegExp(CODED_MARK.source, 'g');

const WANTED =
  'must have no {{ but what svc.expression(id, filter) makes; other text that holds {{ must be wrapped in svc.literal(text)';

/** The expressions and literals that code marked in one request, by their marks. */
export type CodedTexts = {
  /** @throws ExpressionError for `{{` outside a mark, and for an invalid expression. */
  scan(text: string): Template;
  /** Whether the scanned texts contained every mark. */
  isComplete(): boolean;
  /** Whether a text that is about to be sent still contains a mark. */
  isIn(text: string): boolean;
};

type Coded = Pick<Expression, 'head' | 'filters' | 'literal'> & { draws: boolean };

/** Parses one id and its filters. Neither can end the expression or begin another. @throws ExpressionError. */
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
      const coded = marked.get(name);
      if (!coded) continue;
      addText(text.slice(done, index));
      placeholders = countPlaceholder(placeholders);
      const parsed = read.get(name) ?? readCoded(coded);
      read.set(name, parsed);
      const { draws, ...expression } = parsed;
      template.parts.push({ ...expression, offset: index });
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
