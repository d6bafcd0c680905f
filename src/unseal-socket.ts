// The channel by which operators seal and unseal a running server: a Unix socket that only its user can open.
import { once } from 'node:events';
import { chmod, lstat, rm, stat } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { StartError } from './platform/base/errors.ts';
import { makeDirectory } from './platform/base/files.ts';

/** A share has about 110 characters, with hyphens. */
const REQUEST_BYTES_MAX = 1_024;
/** The command sends its request at once. */
const REQUEST_MS_MAX = 5_000;
/** Connections that have sent no request yet: a few operators. One more ends the oldest, which may never send one. */
const SILENT_MAX = 16;
/** Bytes of the address of a Unix socket in Linux, with the zero at its end. */
const PATH_BYTES_MAX = 108;

export const UNSEAL_REQUESTS = ['share', 'status', 'drop', 'seal'] as const;
export type UnsealRequest = (typeof UNSEAL_REQUESTS)[number];

/** What the server says. A fault is a sentence for the operator. */
export type UnsealAnswer =
  | { state: 'sealed'; sets: { set?: string | undefined; given: number; needed: number }[] }
  | { state: 'unsealed' | 'unsealing' | 'sealing' }
  | { fault: string };

/** Answers a request. @param share the text of a share, which is overwritten; empty for other requests. */
export type UnsealHandler = (request: UnsealRequest, share: Buffer) => Promise<UnsealAnswer>;

const pathProblem = (path: string): string | undefined =>
  Buffer.byteLength(path) < PATH_BYTES_MAX
    ? undefined
    : `The path of the socket ${path} is too long: ${PATH_BYTES_MAX - 1} bytes at most. Set UNSEAL_SOCKET to a shorter one.`;

const unlessAbsent = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== 'ENOENT') throw error;
};

const isOwnOrRoots = (uid: number): boolean => uid === 0 || uid === process.getuid?.();

/** Who may write the directory of the socket can put a socket of their own in its place, and would be given the shares. */
const directoryProblem = async (path: string): Promise<string | undefined> => {
  const directory = dirname(path);
  const { mode, uid } = await stat(directory);
  // Also with the sticky bit: while no server runs, the name is free.
  if ((mode & 0o022) === 0 && isOwnOrRoots(uid)) return undefined;
  return `Other users may write the directory ${directory}, so they could put a socket of their own at ${path}. Take that right away (chmod go-w), or set UNSEAL_SOCKET to a path in a new directory, which the server makes for itself.`;
};

/** Reads until the end of the line. A share is never a string here, so that it can be overwritten. */
const readRequest = async (socket: Socket): Promise<Buffer | undefined> => {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > REQUEST_BYTES_MAX || chunk.includes(0x0a)) break;
  }
  const bytes = Buffer.concat(chunks);
  for (const chunk of chunks) chunk.fill(0);
  const end = bytes.indexOf(0x0a);
  return end === -1 ? undefined : bytes.subarray(0, end);
};

/** @param isHeard called when the request is there. */
const answerOn = async (socket: Socket, handle: UnsealHandler, isHeard: () => void): Promise<void> => {
  socket.setTimeout(REQUEST_MS_MAX, () => socket.destroy());
  socket.on('error', () => undefined);
  const line = await readRequest(socket);
  isHeard();
  socket.setTimeout(0);
  if (!line) return void socket.destroy();
  const blank = line.indexOf(0x20);
  const word = line.toString('latin1', 0, blank === -1 ? undefined : blank);
  const request = UNSEAL_REQUESTS.find((each) => each === word);
  const share = blank === -1 ? Buffer.alloc(0) : line.subarray(blank + 1);
  const answer: UnsealAnswer = request ? await handle(request, share) : { fault: 'This is no request.' };
  line.fill(0);
  socket.end(`${JSON.stringify(answer)}\n`);
};

/** Whether a process listens on a socket. A socket file stays when its process is killed. */
const isListening = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });

/**
 * Listens on a socket. @returns what closes it, and removes its file.
 * @throws StartError where another server has it, or where something else is or could be put at its path.
 */
export const openUnsealSocket = async (path: string, handle: UnsealHandler): Promise<() => Promise<void>> => {
  const problem = pathProblem(path);
  if (problem !== undefined) throw new StartError(problem);
  await makeDirectory(dirname(path));
  const unsafe = await directoryProblem(path);
  if (unsafe !== undefined) throw new StartError(unsafe);
  const found = await lstat(path).catch(unlessAbsent);
  if (found && !found.isSocket())
    throw new StartError(`There is a file at ${path} that is no socket. Set UNSEAL_SOCKET to another path.`);
  if (await isListening(path))
    throw new StartError(`Another server has the socket ${path}. Stop it first, or set UNSEAL_SOCKET to another path.`);
  await rm(path, { force: true });
  const silent = new Set<Socket>();
  const server = createServer((socket) => {
    const [oldest] = silent;
    if (oldest && silent.size >= SILENT_MAX) {
      silent.delete(oldest);
      oldest.destroy();
    }
    silent.add(socket);
    const isHeard = (): void => void silent.delete(socket);
    socket.once('close', isHeard);
    answerOn(socket, handle, isHeard).catch(() => socket.destroy());
  });
  // listen() makes the socket at once, so no other user can open it before the mode is set.
  const mask = process.umask(0o177);
  try {
    server.listen(path);
  } finally {
    process.umask(mask);
  }
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new StartError(`The socket ${path} cannot be made (${error.code}). Set UNSEAL_SOCKET to another path.`);
  });
  await chmod(path, 0o600);
  return async () => void server.close();
};

const belongsToAnother = (path: string): string =>
  `The socket ${path} belongs to another user. Run the command as the user of the server.`;

/** @throws StartError for a socket that another user may have made. */
const checkOwner = async (path: string): Promise<void> => {
  const { uid } = await lstat(path);
  if (!isOwnOrRoots(uid)) throw new StartError(belongsToAnother(path));
  const unsafe = await directoryProblem(path);
  if (unsafe !== undefined) throw new StartError(unsafe);
};

const isAnswer = (value: unknown): value is UnsealAnswer =>
  typeof value === 'object' && value !== null && ('state' in value || 'fault' in value);

/** Sends a request to a running server. @throws StartError where none listens, where another user may, or for a fault. */
export const askUnsealSocket = async (
  path: string,
  request: UnsealRequest,
  share?: Buffer,
): Promise<Exclude<UnsealAnswer, { fault: string }>> => {
  const throwUnreachable = (error: NodeJS.ErrnoException): never => {
    if (error instanceof StartError) throw error;
    throw new StartError(
      error.code === 'EACCES'
        ? belongsToAnother(path)
        : `No server with MASTER_KEY_SHARES listens on ${path} (${error.code}). Run the command on the host, or in the container, of the server, with its DATA_DIR or UNSEAL_SOCKET.`,
    );
  };
  await checkOwner(path).catch(throwUnreachable);
  const socket = connect(path);
  try {
    await once(socket, 'connect').catch(throwUnreachable);
    const line = Buffer.concat([
      Buffer.from(share ? `${request} ` : request),
      share ?? Buffer.alloc(0),
      Buffer.of(0x0a),
    ]);
    await new Promise((resolve) => socket.write(line, resolve));
    line.fill(0);
    let text = '';
    for await (const chunk of socket) text += chunk;
    const answer: unknown = text === '' ? undefined : JSON.parse(text);
    if (!isAnswer(answer)) throw new StartError('The server ended before it answered. Its log says why.');
    if ('fault' in answer) throw new StartError(answer.fault);
    return answer;
  } finally {
    socket.destroy();
  }
};
