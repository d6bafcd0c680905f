// The services that functions of the answers module take.
import type { PeopleContext } from '../people/context.ts';

export type AnswersContext = PeopleContext;
