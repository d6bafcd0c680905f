// The names that processes give their connections, by which others see that a server or a command is connected.

export const POOL_NAME = 'strongroom';
export const NOTICES_NAME = 'strongroom notices';

/** Matches the connections of servers and commands. */
export const ANY_PROCESS = '^strongroom( notices)?$';
