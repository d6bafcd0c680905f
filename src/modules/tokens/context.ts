// The services and rows that functions of the tokens module need.
import { type TokenRows } from './rows/batched-rows.ts';
import type { UsedContainers } from './container-warnings.ts';
import type { AccessContext } from '../access/context.ts';
import type { ExpressionEnvironment } from './expressions/expressions.ts';

export type TokensContext = AccessContext & {
  readonly tokenRows: TokenRows;
  readonly usedContainers: UsedContainers;
  readonly expressionEnvironment: ExpressionEnvironment;
};
