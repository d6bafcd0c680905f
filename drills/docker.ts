// Tests what docs/operations/docker.md promises on a real engine: local testing, the image for trying, and production, each
// built and run, with a restart on the same data, a backup, and a look for secrets. Skipped where Docker, Compose or a base image
// is missing; a stand-in for a base image is any image with its name. Its images, projects, volumes and ports are its own.
// Usage: npm run drill:docker
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { apiKeysIn } from '../src/modules/access/api-keys.ts';
import { COMPOSE_COMMANDS, COMPOSE_DIRECTORY } from '../src/cli/setup.ts';
import { blocksOf, openShell, pagesWithCommands, settled } from '../test/support/pages.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
/** Beside those of a project that runs here. */
const PORT = '18080';
const BASE_URL = `http://127.0.0.1:${PORT}`;
/** A build installs all packages, on a slow line too. */
const COMMAND_TIMEOUT_MS = 20 * 60_000;
const CARD = '4242424242424242';
const DEV_IMAGE = 'strongroom-drill:dev';
const CONTAINER = 'strongroom-drill-image';

const say = (text: string): void => void process.stderr.write(`${text}\n`);

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

/** What the Dockerfile and compose begin with. */
const baseImages = new Set(
  [
    ...read('Dockerfile').matchAll(/^ARG \w+_IMAGE=(\S+)/gm),
    ...read('docker-compose.yml').matchAll(/^ {4}image: ([^'\s]+)$/gm),
    ...read(`${COMPOSE_DIRECTORY}/docker-compose.yml`).matchAll(/^ {4}image: ([^'\s&*]+)$/gm),
  ].map(([, image]) => image as string),
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
  for (const file of files) if (existsSync(join(root, file))) cpSync(join(root, file), join(to, file));
};

type Ended = { status: number | null; output: string };

/** Runs commands in a directory, with a project and an image of the drill's. */
const shellIn = (cwd: string, project: string, image: string) => {
  const variables = { COMPOSE_PROJECT_NAME: project, STRONGROOM_IMAGE: image, STRONGROOM_PORT: PORT };
  const env = { ...process.env, ...variables, STRONGROOM_MAIL_PORT: '18025' };
  const attempt = (command: string, input = ''): Ended => {
    const options = { cwd, env, input, encoding: 'utf8', timeout: COMMAND_TIMEOUT_MS, maxBuffer: 1 << 26 } as const;
    const { status, stdout, stderr } = spawnSync('sh', ['-c', command], options);
    return { status, output: stdout + stderr };
  };
  /** @returns what a command printed, errors last. */
  const run = (command: string, input?: string): string => {
    const { status, output } = attempt(command, input);
    if (status !== 0) throw new Error(`${command} ended with ${status}\n${output}`);
    return output;
  };
  return { attempt, run, env };
};

type Shell = ReturnType<typeof shellIn>;

/** Runs work, shows the end of the logs where it fails, and removes all that the project made. */
const withProject = async ({ attempt }: Shell, work: () => Promise<void>): Promise<void> => {
  try {
    await work();
  } catch (error) {
    say(attempt('docker compose logs --no-color --tail 40').output);
    throw error;
  } finally {
    // Whatever it says: an error before it is what is told.
    attempt('docker compose --profile setup down --volumes --remove-orphans');
  }
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

/** Tokenizes a card and makes a reactor. @returns what runs the reactor on the card, and whether its answer is right. */
const makeUse = async (api_key: string): Promise<() => Promise<boolean>> => {
  const card = await ask(api_key, 'POST', '/tokens', { type: 'card', data: { number: CARD } });
  check(card.data.number === `XXXXXXXXXXXX${CARD.slice(-4)}`, 'a card is tokenized');
  const formula = await ask(api_key, 'POST', '/reactor-formulas', {
    name: 'Last four',
    type: 'private',
    code: 'module.exports = async ({ args }) => ({ raw: args.card.number.slice(-4) });',
    configuration: [],
    request_parameters: [{ name: 'card.number', type: 'string' }],
  });
  const named = { name: 'Last four', formula: { id: formula.id }, configuration: {} };
  const reactor = await ask(api_key, 'POST', '/reactors', named);
  return async () =>
    (await ask(api_key, 'POST', `/reactors/${reactor.id}/react`, { args: { card: `{{ ${card.id} }}` } })).raw ===
    CARD.slice(-4);
};

/** All that the commands of the guides may use, beside Docker. */
const TOOLS = 'bash sh curl sed grep head cut tr cat mktemp date openssl docker'.split(' ');
/** Its commands read and write files of the host. */
const WITHOUT_GUIDE = 'docs/guides/import-and-export.md';

/** Runs the commands of the pages against local testing, with no Node on the path. */
const tryPages = async (clone: string, { attempt, run, env }: Shell, api_key: string): Promise<void> => {
  const tools = mkdtempSync(join(tmpdir(), 'strongroom-tools-'));
  for (const tool of TOOLS) symlinkSync(run(`command -v ${tool}`).trim(), join(tools, tool));
  run('docker compose exec -d -e PORT=8443 api node test/support/echo.ts');
  while (attempt("docker compose exec -T api bash -c '</dev/tcp/127.0.0.1/8443'").status !== 0) await pause(500);
  for (const page of pagesWithCommands.filter((each) => each !== WITHOUT_GUIDE)) {
    const shell = openShell({ ...env, PATH: tools }, clone);
    for (const { language, code, answer } of blocksOf(page)) {
      if (language !== 'sh') continue;
      const placed = code
        .replaceAll('127.0.0.1:8080', `127.0.0.1:${PORT}`)
        .replace(/^export SVC_API_KEY=.*$/m, `export SVC_API_KEY=${api_key}`)
        // What is to come of the shell's own input is no input of a command.
        .replaceAll(/npm run -s strongroom --(?!.* - <)/g, 'docker compose run --rm -T --interactive=false api')
        .replaceAll('npm run -s strongroom --', 'docker compose run --rm -T api');
      const text = await shell.run(placed);
      if (answer === undefined) continue;
      const [got, shown] = [JSON.parse(text), answer].map((each) => JSON.stringify(settled(each)));
      if (got !== shown) throw new Error(`${page} shows ${shown}, and its command printed ${got}\n${code}`);
    }
    shell.end();
    check(true, `the commands of ${page} work without Node, and print what it shows`);
  }
  rmSync(tools, { recursive: true });
};

const secondsOf = (began: number): string => `${Math.round((performance.now() - began) / 1000)} s`;

const tryLocalTesting = (clone: string): Promise<void> => {
  say('Local testing: docker compose up in a fresh clone');
  const shell = shellIn(clone, 'strongroom-drill-dev', DEV_IMAGE);
  const { attempt, run } = shell;
  return withProject(shell, async () => {
    const began = performance.now();
    run('docker compose up --build --wait');
    check(true, `up: ${secondsOf(began)}`);
    const log = run('docker compose logs --no-color --no-log-prefix api');
    const [api_key = ''] = apiKeysIn(log);
    check(
      api_key.startsWith('svc_test_') && log.includes(`${BASE_URL}/console`),
      'its log has the key and the console',
    );
    const use = await makeUse(api_key);
    check(await use(), 'a reactor runs on it');
    const invite = run('docker compose run --rm -T api admin owner invite --email ada@example.com');
    check(invite.includes(`${BASE_URL}/join/`), 'owner invite prints a link');
    await tryPages(clone, shell, api_key);
    run('docker compose down');
    const again = performance.now();
    run('docker compose up --wait');
    check(await use(), `the data is there after down and up, which took ${secondsOf(again)}`);
    run('docker compose down');
    writeFileSync(join(clone, '.env'), '# Written by setup\n');
    const { status, output } = attempt('docker compose up --no-color');
    check(status !== 0 && output.includes(COMPOSE_DIRECTORY), 'it does not start beside an .env of production');
    rmSync(join(clone, '.env'));
  });
};

const tryImage = async (clone: string): Promise<void> => {
  say('The image for trying: docker run');
  const { attempt, run } = shellIn(clone, 'none', DEV_IMAGE);
  const volume = `${CONTAINER}-data`;
  const start = async (): Promise<string> => {
    const began = performance.now();
    const words = `-p 127.0.0.1:${PORT}:8080 -e PUBLIC_URL=${BASE_URL} -v ${volume}:/data ${DEV_IMAGE}`;
    run(`docker run -d --name ${CONTAINER} ${words}`);
    for (;;) {
      const [key] = apiKeysIn(run(`docker logs ${CONTAINER}`));
      if (key !== undefined) {
        check(true, `it prints its key after ${secondsOf(began)}`);
        return key;
      }
      if (performance.now() - began > 120_000) throw new Error(run(`docker logs ${CONTAINER}`));
      await pause(200);
    }
  };
  try {
    const key = await start();
    const use = await makeUse(key);
    check(await use(), 'a reactor runs on it');
    const refused = attempt(`docker exec ${CONTAINER} strongroom logs keygen /tmp/key.pem`);
    check(refused.status === 1 && refused.output.includes('would be lost'), 'a file in its memory is refused');
    const lost = attempt(`docker exec ${CONTAINER} strongroom logs keygen /files/key.pem`);
    check(lost.status === 1 && lost.output.includes('would be lost'), 'and a file in /files without a volume');
    run(`docker rm -f ${CONTAINER}`);
    check((await start()) === key && (await use()), 'a new container on its volume has the same key and data');
    const [size = ''] = run(`docker image inspect -f '{{.Size}} {{len .RootFS.Layers}}' ${DEV_IMAGE}`)
      .trim()
      .split('\n');
    say(`        bytes and layers of the image: ${size}`);
  } finally {
    attempt(`docker rm -f ${CONTAINER}; docker volume rm ${volume}`);
  }
};

const tryProduction = (clone: string): Promise<void> => {
  say('Production: deploy/compose');
  const directory = join(clone, COMPOSE_DIRECTORY);
  const image = 'strongroom-drill:production';
  const shell = shellIn(directory, 'strongroom-drill', image);
  const { attempt, run } = shell;
  const [up, bootstrap] = COMPOSE_COMMANDS;
  const passwords = (): string[] =>
    readdirSync(join(directory, 'secrets'))
      .map((name) => readFileSync(join(directory, 'secrets', name), 'utf8').trim())
      .map((secret) => /:([^:@]+)@/.exec(secret)?.[1] ?? secret);
  return withProject(shell, async () => {
    run('docker compose run --rm setup');
    const owners = ['.', '.env', 'secrets', 'secrets/master_key'].map((path) => statSync(join(directory, path)).uid);
    check(new Set(owners).size === 1, 'setup writes the secrets, for the owner of the directory');
    const began = performance.now();
    const built = run(up);
    check(!/prisma:warn/.test(built), `${up}: ${secondsOf(began)}, without warnings`);
    const line = run(`${bootstrap} --json`)
      .split('\n')
      .find((each) => each.startsWith('{'));
    const { api_key } = JSON.parse(line ?? '');
    check(String(api_key).startsWith('svc_live_'), 'bootstrap prints a key');
    const use = await makeUse(api_key);
    check(await use(), 'a reactor runs on it');
    const log = run('docker compose logs --no-color api');
    const wall = /"wall":"([^"]*)"/.exec(log)?.[1] ?? 'none';
    check(wall.includes('Landlock and seccomp'), `the wall around its code: ${wall}`);
    check(!log.includes('/readyz'), 'health checks leave no line in its log');

    const inspected = run('docker inspect $(docker compose ps --all --quiet)');
    check(
      !passwords().some((secret) => inspected.includes(secret)),
      'no secret is in docker inspect, of any container',
    );
    const environment = run('docker compose exec -T api cat /proc/1/environ');
    check(!passwords().some((secret) => environment.includes(secret)), 'none is in the environment of the server');
    check(!run('docker compose run --rm -T api admin doctor').includes('✘'), 'doctor finds no failure');
    check(
      run('docker compose run --rm -T api admin api-keys create --name Checkout').includes('svc_live_'),
      'api-keys create works',
    );
    const second = attempt(bootstrap);
    check(
      second.output.includes('docker compose run --rm -T api admin tenants create'),
      'advice has the words of compose',
    );

    const to = `--to ${await identityToRecipient(await generateX25519Identity())}`;
    const lost = attempt(`docker compose run --rm -T api admin backup /tmp/v.age ${to}`);
    check(lost.status === 1 && lost.output.includes('would be lost'), 'a backup that would be lost is refused');
    run(`docker compose run --rm -T api admin backup /files/v.age ${to}`);
    run('docker compose cp api:/files/v.age .');
    check(statSync(join(directory, 'v.age')).size > 1_000, 'a backup to the volume comes out by docker compose cp');
    run('docker compose run --rm -T --entrypoint tee api /files/in.jsonl', '{"id":"one","data":"value"}\n');
    const imported = run('docker compose run --rm -T api admin import /files/in.jsonl --format jsonl --json');
    check(imported.includes('"created":1'), 'a file that was put there is imported');
    const piped = run(
      'docker compose run --rm -T api admin reactor run -',
      'module.exports = async () => ({ raw: 41 + 1 });',
    );
    check(piped.includes('"raw": 42'), 'reactor run - runs code from standard input');

    run('docker compose restart');
    run('docker compose up --wait');
    check(await use(), 'the data is there after a restart');
    run('docker compose down');
    const again = performance.now();
    run('docker compose up --wait');
    check(await use(), `the data is there after down and up, which took ${secondsOf(again)}`);
    say(
      `        bytes and layers of the image: ${run(`docker image inspect -f '{{.Size}} {{len .RootFS.Layers}}' ${image}`)}`,
    );
    attempt(`docker compose --profile setup down --volumes; docker image rm ${image}`);
  });
};

const reason = whyNot();
if (reason !== undefined) say(`skipped: ${reason}`);
else {
  const clone = mkdtempSync(join(tmpdir(), 'strongroom-docker-'));
  try {
    copyCheckout(clone);
    await tryLocalTesting(clone);
    await tryImage(clone);
    await tryProduction(clone);
  } finally {
    spawnSync('docker', ['image', 'rm', DEV_IMAGE]);
    rmSync(clone, { recursive: true, force: true });
  }
}
