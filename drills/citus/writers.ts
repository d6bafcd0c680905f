// Clients that create tokens of one tenant until they are stopped.
import type { RunningServer } from '../../bench/servers.ts';
import { headersOf } from '../../bench/turns.ts';

const WRITERS = 8;
/** Until all of them write. */
export const WRITERS_START_MS = 1000;

export type Writers = {
  /** Ids of the tokens that were acknowledged so far. */
  acknowledged: string[];
  /** @throws unless tokens were written and no request was refused. */
  stop(): Promise<void>;
};

export const startWriters = ({ credentials: { base_url, api_key } }: RunningServer): Writers => {
  const acknowledged: string[] = [];
  let failed = 0;
  let isStopped = false;
  const body = JSON.stringify({ type: 'token', data: 'written under load' });
  const write = async (): Promise<void> => {
    while (!isStopped) {
      const response = await fetch(`${base_url}/tokens`, { method: 'POST', headers: headersOf(api_key), body });
      const made = (await response.json()) as { id: string };
      if (response.status === 201) acknowledged.push(made.id);
      else failed += 1;
    }
  };
  const writers = Array.from({ length: WRITERS }, write);
  return {
    acknowledged,
    async stop() {
      isStopped = true;
      await Promise.all(writers);
      if (acknowledged.length === 0 || failed > 0)
        throw new Error(`${acknowledged.length} tokens were acknowledged, ${failed} requests refused`);
    },
  };
};
