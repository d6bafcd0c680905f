// Resets passwords by mail in tests: a vault with a real mail server, requests for links, and what the mails say.
import { Secret, TOTP } from 'otpauth';
import { expect } from 'vitest';
import { consoleUrlOf } from '../../src/platform/config/config.ts';
import { sendDueMails } from '../../src/modules/people/send-mails.ts';
import { type ConsoleServer, startConsole } from './console.ts';
import { type Browser, openBrowser, PASSWORD } from './people.ts';
import type { Answer, TestServer } from './server.ts';
import { type ReceivedMail, startSmtp } from './smtp.ts';

export const BASE_URL = 'https://vault.example.com';
export const ASK_PATH = '/console/sign-in/forgotten';
export const NEW_PASSWORD = 'a better one than before';

const LINK = /^https:\/\/vault\.example\.com(\/console\/sign-in\/reset\/[0-9A-Za-z]{32})$/m;

export type ResetServer = ConsoleServer & {
  mails: ReceivedMail[];
  /** Asks for a link, and does the work in the background. */
  ask(email: string, headers?: Record<string, string>): Promise<Answer>;
  /** Sends what waits. @returns the mails to an address so far, the oldest first. */
  mailsTo(email: string): Promise<ReceivedMail[]>;
  /** Asks, and reads the path of the link from the newest mail. */
  linkFor(email: string, headers?: Record<string, string>): Promise<string>;
};

export const askForReset = async (
  server: Pick<TestServer, 'request' | 'ctx'>,
  email: string,
  headers: Record<string, string> = {},
): Promise<Answer> => {
  const answer = await openBrowser(server).post(ASK_PATH, { email }, headers);
  // Does the work in the background.
  await server.ctx.refusals.finishBackground();
  return answer;
};

export const startResetServer = async (environment: Record<string, string> = {}): Promise<ResetServer> => {
  const smtp = await startSmtp();
  const server = await startConsole(
    { SMTP_URL: smtp.url, MAIL_FROM: 'Strongroom <vault@example.com>', PUBLIC_URL: BASE_URL, ...environment },
    { ca: smtp.ca },
  );
  const ask = (email: string, headers: Record<string, string> = {}) => askForReset(server, email, headers);
  const mailsTo = async (email: string): Promise<ReceivedMail[]> => {
    await sendDueMails(server.ctx, consoleUrlOf(server.ctx.config, server.base_url));
    return smtp.mails.filter(({ to }) => to.includes(email));
  };
  return {
    ...server,
    mails: smtp.mails,
    ask,
    mailsTo,
    linkFor: async (email, headers) => {
      expect((await ask(email, headers)).status).toBe(200);
      const [, path = ''] = LINK.exec((await mailsTo(email)).at(-1)?.text ?? '') ?? [];
      expect(path).not.toBe('');
      return path;
    },
    close: async () => {
      await server.close();
      await smtp.close();
    },
  };
};

export const resetBy = (
  server: Pick<TestServer, 'request'>,
  path: string,
  new_password = NEW_PASSWORD,
): Promise<Answer> => openBrowser(server).post(path, { new_password });

export const statusOfSignIn = async (
  server: Pick<TestServer, 'request'>,
  email: string,
  password: string,
): Promise<number> => (await openBrowser(server).post('/console/sign-in', { email, password })).status;

export const requireDevice = async (
  server: Pick<TestServer, 'request'>,
  tenant: { api_key: string },
  value: boolean,
): Promise<void> => {
  const json = { name: 'Vaulters', settings: { require_second_factor: String(value) } };
  const { status, text } = await server.request('PUT', '/tenants/self', { key: tenant.api_key, json });
  expect(status, text).toBe(200);
};

/** Sets up an authenticator app for a member who is signed in. @returns what shows its codes. */
export const addDevice = async (server: Pick<TestServer, 'ctx'>, browser: Browser): Promise<() => string> => {
  const path = '/console/account/second-factor';
  const csrf = await browser.csrf('/console/account');
  expect((await browser.post(path, { csrf, current_password: PASSWORD })).status).toBe(303);
  const [, key = ''] = /data-key>([A-Z2-7]{32})</.exec((await browser.get('/console/account')).text) ?? [];
  const app = new TOTP({ secret: Secret.fromBase32(key) });
  const code = () => app.generate({ timestamp: server.ctx.now().getTime() });
  expect((await browser.post(`${path}/confirm`, { csrf, code: code() })).status).toBe(200);
  return code;
};
