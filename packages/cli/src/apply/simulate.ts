// What the changed rights of applications would have done to their requests of the last days, for a plan.
import type { Strongroom } from '@strongroom/node';
import { isStrongroomError } from '../exit-codes.ts';
import { cleanText } from '../io.ts';
import { type BoundName, boundNamesOf, withBoundNames } from './bound-names.ts';
import type { Plan, Step } from './plan.ts';
import { idOf, type State } from './state.ts';

/** A week has each kind of day. */
const DAYS = 7;

const RIGHTS = ['permissions', 'rules', 'allowed_hosts'] as const;

type Changed = { count: number };

type Simulated = { examined: number } & Record<
  'newly_refused' | 'newly_allowed' | 'shows_more' | 'shows_less',
  Changed
>;

/** A changed application, and what became of its decisions; or why that is not known. */
export type Trial = { name: string; result: Simulated } | { name: string; problem: string };

const changesRights = ({ action, kind, changed }: Step): boolean =>
  action === 'change' && kind === 'application' && RIGHTS.some((name) => changed[name] !== undefined);

/** Asks the vault, which changes nothing. A key without `access:read` gets the sentence of the vault. */
export const tryRights = async (vault: Strongroom, { steps }: Plan, state: State): Promise<Trial[]> => {
  const trials: Trial[] = [];
  for (const { name, current, changed } of steps.filter(changesRights)) {
    const isMade = ({ kind, name: named }: BoundName): boolean => idOf(state, kind, named) !== undefined;
    if (!boundNamesOf(changed).every(isMade)) {
      trials.push({ name, problem: 'a rule names what is not made yet.' });
      continue;
    }
    const given = withBoundNames(changed, (kind, named) => idOf(state, kind, named) ?? named);
    const rights = Object.fromEntries(
      RIGHTS.flatMap((each) => (given[each] === undefined ? [] : [[each, given[each]]])),
    );
    try {
      const asked = { application_id: current?.id as string, ...rights, days: DAYS };
      trials.push({ name, result: (await vault.access.simulate(asked as never)) as Simulated });
    } catch (error) {
      if (!isStrongroomError(error)) throw error;
      trials.push({ name, problem: error.message });
    }
  }
  return trials;
};

const trialLine = (trial: Trial): string => {
  const title = `  application ${JSON.stringify(trial.name)}:`;
  if ('problem' in trial) return `${title} not tried: ${trial.problem}`;
  const { examined, newly_refused, newly_allowed, shows_more, shows_less } = trial.result;
  return `${title} of ${examined} decisions ${newly_refused.count} would be refused, ${newly_allowed.count} allowed, ${shows_more.count} would show more, ${shows_less.count} less`;
};

export const trialLines = (trials: readonly Trial[]): string[] =>
  trials.length === 0
    ? []
    : [`Tried on the last ${DAYS} days:`, ...trials.map(trialLine)].map((line) => cleanText(line));
