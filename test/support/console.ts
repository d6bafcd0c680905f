// The console as a member uses it: a real server, somebody who came by an invitation, and a browser without scripts that
// keeps cookies and sends a form with what its page put into it.
import { get as getOverHttp } from 'node:http';
import { expect } from 'vitest';
import type { Overrides } from '../../src/context.ts';
import { cookieHeader, join, type Joined, openBrowser } from './people.ts';
import { type Answer, type SharedServer, startServer, type TestServer, type TestTenant, useServer } from './server.ts';

export type Browser = Pick<Joined, 'email' | 'member_id' | 'user_id'> & {
  /** A page. What its forms bring along is remembered. */
  get(path: string): Promise<Answer>;
  /** Sends a form of the last page; `csrf` among the fields stands in place of the page's. */
  post(path: string, fields?: Record<string, string>, headers?: Record<string, string>): Promise<Answer>;
  /** Goes where an answer leads. */
  follow(answer: Answer): Promise<Answer>;
  /** Bytes that a first visit transfers: the page and all of ours that it loads. */
  weigh(path: string): Promise<number>;
};

type Members = {
  /** Somebody new becomes a member and is signed in. */
  signIn(options?: { tenant?: TestTenant; email?: string }): Promise<Browser>;
  /** Somebody who is nobody. */
  anonymous(): Pick<Browser, 'get' | 'post'>;
};

export type ConsoleServer = TestServer & Members;
export type SharedConsole = SharedServer & Members;

export const startConsole = async (
  environment: Record<string, string> = {},
  overrides: Overrides = {},
  options: Parameters<typeof startServer>[2] = {},
): Promise<ConsoleServer> => withMembers(await startServer(environment, overrides, options));

/** As `useServer`. */
export const useConsole = async (): Promise<SharedConsole> => withMembers(await useServer());

/** A server with people and their browsers. */
export const withMembers = <Server extends SharedServer>(server: Server): Server & Members => {
  const browserOf = (within: ReturnType<typeof openBrowser>): Pick<Browser, 'get' | 'post' | 'follow' | 'weigh'> => {
    let csrf: string | undefined;
    const read = (answer: Answer): Answer => {
      csrf = /name="csrf" value="([^"]+)"/.exec(answer.text)?.[1] ?? csrf;
      return answer;
    };
    const get = async (path: string) => read(await within.get(path));
    return {
      get,
      post: async (path, fields = {}, headers = {}) => {
        const sent = { ...(csrf !== undefined && { csrf }), ...fields };
        return read(await within.post(path, sent, headers));
      },
      follow: async (answer) => {
        expect(answer.status, answer.text).toBe(303);
        return get(answer.headers.get('location') ?? '');
      },
      weigh: async (path) => {
        const page = await transfer(server.base_url + path, cookieHeader(within.cookies));
        const loads = new Set([...page.text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, from]) => from));
        expect(loads.size).toBeGreaterThanOrEqual(3);
        let { bytes } = page;
        for (const from of loads) bytes += (await transfer(server.base_url + from, {})).bytes;
        return bytes;
      },
    };
  };

  return {
    ...server,
    signIn: async (options = {}) => {
      const { browser, email, member_id, user_id } = await join(server, options);
      const pages = browserOf(browser);
      await pages.get('/console/tokens');
      return { ...pages, email, member_id, user_id };
    },
    anonymous: () => browserOf(openBrowser(server)),
  };
};

type Transferred = { bytes: number; text: string };

/** An answer as it comes, before anything unpacks it. */
const transfer = (url: string, headers: Record<string, string>): Promise<Transferred> =>
  new Promise((resolve, reject) => {
    const request = getOverHttp(url, { headers: { ...headers, 'accept-encoding': 'gzip' } }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        expect(response.statusCode, url).toBe(200);
        const whole = Buffer.concat(chunks);
        resolve({ bytes: whole.byteLength, text: whole.toString('utf8') });
      });
    });
    request.on('error', reject);
  });

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };

export const unescaped = (text: string): string =>
  text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => entities[name] as string);

const tag = /<[^>]*>/g;

/** What a person reads of a page. */
export const textOf = (page: string): string => unescaped(page.replace(tag, ''));

/** The tags of a page with the names of their attributes, in order: the same for two pages that differ in text alone. */
export const skeletonOf = (page: string): string[] =>
  (page.match(tag) ?? []).map((each) => each.replace(/="[^"]*"/g, ''));

/** What stands in a field of a page: as a browser takes it from an input's value, or a textarea without its first line end. */
export const fieldIn = (page: string, name: string): string | undefined => {
  const area = new RegExp(`<textarea[^>]* name="${name}"[^>]*>\\n?([^<]*)</textarea>`).exec(page)?.[1];
  const input = new RegExp(`<input[^>]* name="${name}"[^>]* value="([^"]*)"`).exec(page)?.[1];
  const found = area ?? input;
  return found === undefined ? undefined : unescaped(found);
};
