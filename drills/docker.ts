// Tests the Docker path of docs/operations/docker.md on a real engine: builds the image, starts it by compose, runs a reactor,
// looks for secrets in the environment, and starts again on the same data. Skipped where Docker, Compose or a base image is
// missing; a stand-in for a base image is any image with its name. Usage: npm run drill:docker
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { COMPOSE_COMMANDS } from '../src/cli/setup.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
/** As docker-compose.yml publishes it. */
const BASE_URL = 'http://127.0.0.1:8080';
/** A build installs all packages, on a slow line too. */
const COMMAND_TIMEOUT_MS = 20 * 60_000;
const CARD = '4242424242424242';

const say = (text: string): void => void process.stderr.write(`${text}\n`);

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

/** What the Dockerfile and compose begin with. */
const baseImages = new Set(
  [
    ...read('Dockerfile').matchAll(/^ARG \w+_IMAGE=(\S+)/gm),
    ...read('docker-compose.yml').matchAll(/^ {4}image: (\S+)$/gm),
  ]
    .map(([, image]) => image as string)
    .filter((image) => !image.startsWith('strongroom:')),
);

/** @returns why it cannot be tried here; undefined where it can. */
const whyNot = (): string | undefined => {
  const works = (...args: string[]) => spawnSync('docker', args, { timeout: COMMAND_TIMEOUT_MS }).status === 0;
  if (!works('version')) return 'no Docker engine answers';
  if (!works('compose', 'version')) return 'docker has no compose';
  const missing = [...baseImages].filter((image) => !works('image', 'inspect', image) && !works('pull', image));
  return missing.length > 0 ? `there is no image ${missing.join(', ')}, and none can be pulled` : undefined;
};

const check = (holds: boolean, sentence: string): void => {
  if (!holds) throw new Error(`not so: ${sentence}`);
  say(`ok      ${sentence}`);
};

/** What git would commit, in a directory of its own: its .env and secrets are not yours. */
const copyCheckout = (to: string): void => {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const files = execFileSync('git', list, { cwd: root, encoding: 'utf8' }).split('\0').filter(Boolean);
  for (const file of files) cpSync(join(root, file), join(to, file));
};

const walk = async (directory: string): Promise<void> => {
  const environment = { ...process.env, COMPOSE_PROJECT_NAME: 'strongroom-drill' };
  /** @returns what a command printed, errors last. */
  const run = (command: string): string => {
    const [program = '', ...args] = command.split(' ');
    const { status, stdout, stderr } = spawnSync(program, args, {
      cwd: directory,
      env: environment,
      encoding: 'utf8',
      timeout: COMMAND_TIMEOUT_MS,
      maxBuffer: 1 << 26,
    });
    if (status !== 0) throw new Error(`${command} ended with ${status}\n${stdout}\n${stderr}`);
    return stdout + stderr;
  };
  const ask = async (api_key: string, method: string, path: string, json?: unknown): Promise<any> => {
    const response = await fetch(BASE_URL + path, {
      method,
      // The server is started again between requests: a connection that is kept would be one to the old one.
      headers: { 'svc-api-key': api_key, 'content-type': 'application/json', connection: 'close' },
      ...(json !== undefined && { body: JSON.stringify(json) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status}\n${await response.text()}`);
    return response.json();
  };
  const [up, bootstrap] = COMPOSE_COMMANDS;
  const secrets = (): string[] =>
    readdirSync(join(directory, 'secrets')).map((name) =>
      readFileSync(join(directory, 'secrets', name), 'utf8').trim(),
    );

  try {
    run(`${process.execPath} ${join(root, 'src/cli/main.ts')} setup`);
    const began = performance.now();
    const built = run(up);
    check(!/prisma:warn/.test(built), `${up}: ${Math.round((performance.now() - began) / 1000)} s, without warnings`);

    const { api_key } = JSON.parse(
      run(`${bootstrap} --json`)
        .split('\n')
        .find((line) => line.startsWith('{')) ?? '',
    );
    check(String(api_key).startsWith('svc_live_'), 'bootstrap prints a key');
    const card = await ask(api_key, 'POST', '/tokens', { type: 'card', data: { number: CARD } });
    check(card.data.number === `XXXXXXXXXXXX${CARD.slice(-4)}`, 'a card is tokenized');
    const formula = await ask(api_key, 'POST', '/reactor-formulas', {
      name: 'Last four',
      type: 'private',
      code: 'module.exports = async ({ args }) => ({ raw: args.card.number.slice(-4) });',
      configuration: [],
      request_parameters: [{ name: 'card.number', type: 'string' }],
    });
    const reactor = await ask(api_key, 'POST', '/reactors', {
      name: 'Last four',
      formula: { id: formula.id },
      configuration: {},
    });
    const react = async (): Promise<unknown> =>
      (await ask(api_key, 'POST', `/reactors/${reactor.id}/react`, { args: { card: `{{ ${card.id} }}` } })).raw;
    check((await react()) === CARD.slice(-4), 'a reactor runs on it');
    const wall = /"wall":"([^"]*)"/.exec(run('docker compose logs --no-color api'))?.[1] ?? 'none';
    check(wall.includes('Landlock and seccomp'), `the wall around its code: ${wall}`);

    const environments =
      run('docker compose exec -T api cat /proc/1/environ') +
      run(`docker inspect ${run('docker compose ps --quiet api').trim()}`);
    const passwords = secrets().map((secret) => /:([^:@]+)@/.exec(secret)?.[1] ?? secret);
    check(environments.includes('MASTER_KEY_FILE=/run/secrets/master_key'), 'the server reads its key from a file');
    check(
      !passwords.some((secret) => environments.includes(secret)),
      'no secret is in its environment, nor in docker inspect',
    );
    check(!run('docker compose run --rm -T api doctor').includes('✘'), 'doctor finds no failure');
    check(run('docker compose run --rm -T api keys create --name Checkout').includes('svc_live_'), 'keys create works');

    run('docker compose restart');
    run('docker compose up --wait');
    check((await react()) === CARD.slice(-4), 'the data is there after a restart');
    run('docker compose down');
    const again = performance.now();
    run('docker compose up --wait');
    const seconds = Math.round((performance.now() - again) / 1000);
    check((await react()) === CARD.slice(-4), `the data is there after down and up, which took ${seconds} s`);
  } catch (error) {
    say(
      spawnSync('docker', ['compose', 'logs', '--no-color', '--tail', '40'], {
        cwd: directory,
        env: environment,
        encoding: 'utf8',
      }).stdout,
    );
    throw error;
  } finally {
    // Whatever it says: an error before it is what is told.
    spawnSync('docker', ['compose', 'down', '--volumes', '--remove-orphans', '--rmi', 'local'], {
      cwd: directory,
      env: environment,
    });
  }
};

const reason = whyNot();
if (reason !== undefined) say(`skipped: ${reason}`);
else {
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-docker-'));
  try {
    copyCheckout(directory);
    await walk(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
