// What has changed in the database, for the caches that remember it: announced in this process, and between processes by notices.

/** A change, with the id that caches know it by: of the application, the member, or the tenant (also of `runnable`). */
export type Change = {
  /** `runnable`: formulas, reactors or proxies of a tenant. */
  subject: 'application' | 'member' | 'runnable' | 'tenant';
  id: string;
};

/** `anything`: notices may have been missed. */
export type Announced = Change | 'anything';

export type Changes = {
  on(listener: (change: Announced) => void): void;
  announce(change: Announced): void;
};

/** The text of a notice. */
export const noticeOf = ({ subject, id }: Change): string => `${subject} ${id}`;

const subjects: ReadonlySet<string> = new Set<Change['subject']>(['application', 'member', 'runnable', 'tenant']);

/** The id of a change to the runnables of every tenant: official formulas belong to all. */
export const EVERY_TENANT = 'all';

/** @returns undefined for a notice of another version of the server that this one does not know. */
export const changeOf = (notice: string): Announced | undefined => {
  const [subject = '', id = ''] = notice.split(' ');
  return subjects.has(subject) ? ({ subject, id } as Change) : undefined;
};

export const createChanges = (): Changes => {
  const listeners: ((change: Announced) => void)[] = [];
  const announce = (change: Announced): void => {
    for (const listener of listeners) listener(change);
  };
  return { on: (listener) => void listeners.push(listener), announce };
};
