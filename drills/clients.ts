// Generates clients in Python, Go and Java from the document of a running server, compiles them, and runs the steps of the
// guides with each against that server. A generator whose tools are missing is skipped.
// Usage: npm run drill:clients, or npm run drill:clients -- WORDS for the generators with those words in their names.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { remove, startServer } from '../bench/servers.ts';

const OPENAPI_PYTHON_CLIENT = '0.29.1';
const OPENAPI_GENERATOR = '7.17.0';
const OAPI_CODEGEN = 'v2.8.2';
/** A first run fetches hundreds of small files. */
const COMMAND_TIMEOUT_MS = 10 * 60_000;
/** Compilers say the cause first, interpreters last; this shows both for all but the longest. */
const WORDS_LINES_MAX = 40;
/** What pip, Go and Maven say when they cannot reach what they fetch from. */
const unreachable =
  /new connection|name resolution|no such host|dial tcp|i\/o timeout|Could not transfer artifact|Unknown host|Network is unreachable/i;

const walks = fileURLToPath(new URL('./clients', import.meta.url));
const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** A generator that cannot be tried here. */
class Skipped extends Error {}

type Place = { directory: string; environment: Record<string, string> };

const wordsOf = (output: string): string => {
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const half = WORDS_LINES_MAX / 2;
  return (lines.length > WORDS_LINES_MAX ? [...lines.slice(0, half), '...', ...lines.slice(-half)] : lines).join('\n');
};

/** Runs a tool. @throws Skipped if it is not installed, or cannot fetch what it needs. */
const run = ({ directory, environment }: Place, command: string, args: string[], more: object = {}): void => {
  const { error, status, signal, stdout, stderr } = spawnSync(command, args, {
    cwd: directory,
    env: { ...process.env, ...environment, ...more },
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    timeout: COMMAND_TIMEOUT_MS,
  });
  if ((error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') throw new Skipped(`${command} is not installed`);
  if (status === 0) return;
  const words = wordsOf(`${stdout}\n${stderr}`);
  const said = `${command} ${args[0]} ended with ${status ?? signal}\n${words}`;
  throw unreachable.test(words) ? new Skipped(said) : new Error(said);
};

const inside = (place: Place, name: string): Place => {
  const directory = join(place.directory, name);
  mkdirSync(directory, { recursive: true });
  return { ...place, directory };
};

/** An environment of Python with some packages. @returns its interpreter. */
const pythonWith = (place: Place, packages: string[]): string => {
  run(place, 'python3', ['-m', 'venv', 'venv']);
  const python = join(place.directory, 'venv/bin/python');
  run(place, python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]);
  return python;
};

/** The modules of a generated package lie in the directory of the place. */
const importAndWalk = (place: Place, python: string, walk: string): void => {
  const path = { PYTHONPATH: place.directory };
  run(place, python, [join(walks, 'import_all.py'), 'strongroom_client'], path);
  run(place, python, [join(walks, walk)], path);
};

const openapiPythonClient = (place: Place): void => {
  const python = pythonWith(place, [`openapi-python-client==${OPENAPI_PYTHON_CLIENT}`]);
  const options = ['--path', '../openapi.json', '--output-path', 'strongroom_client', '--meta', 'none'];
  run(place, python, ['-m', 'openapi_python_client', 'generate', ...options]);
  importAndWalk(place, python, 'openapi_python_client.py');
};

/** Generates with OpenAPI Generator, which Maven fetches once, into the directory `client`. @returns that place. */
const openapiGenerator = (place: Place, options: string[]): Place => {
  const artifact = `org.openapitools:openapi-generator-cli:${OPENAPI_GENERATOR}`;
  const copy = [`-Dartifact=${artifact}`, '-DoutputDirectory=../generator'];
  run(place, 'mvn', ['--batch-mode', '--quiet', 'dependency:copy', ...copy]);
  const jar = `../generator/openapi-generator-cli-${OPENAPI_GENERATOR}.jar`;
  run(place, 'java', ['-jar', jar, 'generate', '-i', '../openapi.json', '-o', 'client', ...options]);
  return inside(place, 'client');
};

const openapiGeneratorPython = (place: Place): void => {
  const client = openapiGenerator(place, ['-g', 'python', '--package-name', 'strongroom_client']);
  const python = pythonWith(client, ['-r', 'requirements.txt']);
  importAndWalk(client, python, 'openapi_generator.py');
};

/** Compiles a module of Go and walks. gofmt reads all files first: a file that is no Go is not taken for a missing module. */
const vetAndWalk = (module: Place, walk: string): void => {
  cpSync(join(walks, walk), join(module.directory, 'walk'), { recursive: true });
  run(module, 'gofmt', ['-e', '-l', '.']);
  run(module, 'go', ['mod', 'tidy']);
  run(module, 'go', ['vet', './...']);
  run(module, 'go', ['run', './walk']);
};

const openapiGeneratorGo = (place: Place): void => {
  const module = ['--git-host', 'example.com', '--git-user-id', 'strongroom', '--git-repo-id', 'client'];
  vetAndWalk(openapiGenerator(place, ['-g', 'go', ...module]), 'openapi_generator_go');
};

const openapiGeneratorJava = (place: Place): void => {
  const client = openapiGenerator(place, ['-g', 'java', '--library', 'native']);
  run(client, 'mvn', ['--batch-mode', '--quiet', 'compile', 'dependency:copy-dependencies']);
  const classes = ['target/classes', 'target/dependency/*'].join(delimiter);
  run(client, 'java', ['-cp', classes, join(walks, 'OpenApiGenerator.java')]);
};

const oapiCodegen = (place: Place): void => {
  const tool = `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@${OAPI_CODEGEN}`;
  run(place, 'go', ['install', tool], { GOBIN: place.directory });
  const module = inside(place, 'module');
  run(module, 'go', ['mod', 'init', 'example.com/strongroom']);
  inside(module, 'client');
  const options = ['-generate', 'types,client', '-package', 'client', '-o', 'client/client.go'];
  run(module, join(place.directory, 'oapi-codegen'), [...options, '../../openapi.json']);
  vetAndWalk(module, 'oapi_codegen');
};

const [wanted = ''] = process.argv.slice(2);
const generators: Record<string, (place: Place) => void> = {
  [`OpenAPI Generator ${OPENAPI_GENERATOR} for Java`]: openapiGeneratorJava,
  [`OpenAPI Generator ${OPENAPI_GENERATOR} for Go`]: openapiGeneratorGo,
  [`OpenAPI Generator ${OPENAPI_GENERATOR} for Python`]: openapiGeneratorPython,
  [`oapi-codegen ${OAPI_CODEGEN}`]: oapiCodegen,
  [`openapi-python-client ${OPENAPI_PYTHON_CLIENT}`]: openapiPythonClient,
};

const directory = mkdtempSync(join(tmpdir(), 'strongroom-clients-'));
const server = await startServer();
try {
  const { base_url, api_key } = server.credentials;
  const environment = { VAULT_URL: base_url, SVC_API_KEY: api_key };
  const document = await fetch(`${base_url}/openapi.json`);
  if (!document.ok) throw new Error(`the server does not give its document: ${document.status}`);
  writeFileSync(join(directory, 'openapi.json'), await document.text());
  for (const [index, [name, walkWith]] of Object.entries(generators).entries()) {
    if (!name.includes(wanted)) continue;
    try {
      walkWith(inside({ directory, environment }, String(index)));
      say(`ok      ${name}`);
    } catch (error) {
      if (!(error instanceof Skipped)) process.exitCode = 1;
      say(`${error instanceof Skipped ? 'skipped' : 'failed '} ${name}: ${(error as Error).message}`);
    }
  }
} finally {
  await server.stop();
  remove(server.dataDir);
  rmSync(directory, { recursive: true, force: true });
}
