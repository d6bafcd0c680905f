// The names that processes give their connections, from which others tell how old a process is.

/** Raised by a release that adds a step to src/contract.ts. Version 1 named its connections without a number. */
const GENERATION = 2;

export const POOL_NAME = `strongroom ${GENERATION}`;
export const NOTICES_NAME = `strongroom ${GENERATION} notices`;

/** Matches the connections of servers and commands of any version. */
export const ANY_PROCESS = '^strongroom( [0-9]+)?( notices)?$';

/** @param name of a connection that ANY_PROCESS matches. */
export const isOlder = (name: string): boolean => Number(/ (\d+)/.exec(name)?.[1] ?? 1) < GENERATION;
