// A small load balancer: sends requests over kept connections to the servers whose /readyz answers 200.
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

export type Sent = { status: number; connection: string | undefined; isReused: boolean };

/** A request over the connections of an agent. @throws if the connection breaks before the whole response is there. */
export const send = async (agent: Agent | false, url: string, headers = {}, body?: string): Promise<Sent> => {
  const sent = request(url, { agent, headers, method: body === undefined ? 'GET' : 'POST' });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'end');
  const { connection } = response.headers;
  return { status: response.statusCode as number, connection, isReused: sent.reusedSocket };
};

/** Failed checks after which the balancer sends no more requests to a server. */
const CHECKS_FAILED_MAX = 3;
const CHECK_MS = 100;
const CLIENTS = 8;

/** Sends requests to the servers whose /readyz answers 200, over connections that are kept, until told to stop. */
export const balance = (urls: string[], api_key: string) => {
  const inUse = new Set<string>();
  const answers: (Sent & { url: string })[] = [];
  const failures: unknown[] = [];
  const agents = urls.map(() => new Agent({ keepAlive: true, maxSockets: CLIENTS }));
  let isDone = false;
  const check = async (url: string): Promise<void> => {
    for (let failed = 0; !isDone; await pause(CHECK_MS)) {
      const { status } = await send(false, `${url}/readyz`).catch(() => ({ status: 0 }));
      failed = status === 200 ? 0 : failed + 1;
      if (failed === 0) inUse.add(url);
      if (failed >= CHECKS_FAILED_MAX) inUse.delete(url);
    }
  };
  const ask = async (client: number): Promise<void> => {
    for (let round = client; !isDone; round += 1) {
      const url = [...inUse].at(round % Math.max(inUse.size, 1));
      if (url === undefined) {
        await pause(CHECK_MS);
        continue;
      }
      const headers = { 'svc-api-key': api_key, 'content-type': 'application/json' };
      try {
        const answer = await send(agents[urls.indexOf(url)] as Agent, `${url}/tokenize`, headers, '"x"');
        answers.push({ ...answer, url });
      } catch (error) {
        failures.push(error);
      }
    }
  };
  const work = [...urls.map(check), ...Array.from({ length: CLIENTS }, (_, client) => ask(client))];
  return {
    answers,
    failures,
    inUse,
    stop: async () => {
      isDone = true;
      await Promise.all(work);
      for (const agent of agents) agent.destroy();
    },
  };
};
