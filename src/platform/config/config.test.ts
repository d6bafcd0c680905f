import { totalmem } from 'node:os';
import { describe, expect, test } from 'vitest';
import { countWorkers, hasRoomForHeavy } from './server.ts';
import { findMisspelledVariables, loadConfig } from './config.ts';

const mailOf = (environment: Record<string, string>) => loadConfig(environment).mail;

describe('SMTP_URL', () => {
  test.for([
    ['smtp://mail', { host: 'mail', port: 587, secure: false, requireTls: true, user: undefined }],
    ['smtp://mail.example.com:2525/', { host: 'mail.example.com', port: 2525, secure: false, requireTls: true }],
    ['smtps://mail.example.com', { host: 'mail.example.com', port: 465, secure: true, requireTls: false }],
    ['smtp://[::1]:25', { host: '::1', port: 25 }],
    ['smtp://ada%40example.com:p%3A%2F%40ss%25w%C3%B6rd@mail', { user: 'ada@example.com', password: 'p:/@ss%wörd' }],
  ] as const)('%s is read as it is meant', ([url, expected]) => {
    expect(mailOf({ SMTP_URL: url })).toMatchObject({ kind: 'smtp', ...expected });
  });

  test.for([
    'mail.example.com:587',
    'http://mail.example.com',
    'smtp://',
    'smtp:///path',
    'smtp://mail/path',
    'smtp://mail?tls=off',
    'smtp://mail#x',
    'smtp://mail:99999',
    'smtp://user:p%ss@mail',
    'smtp://user:p%FF@mail',
    'smtp://user@mail',
    'smtp://:password@mail',
    'smtp://user:pass/word@mail',
    'smtp://ma%0ail',
  ])('%s is refused, and not repeated', (url) => {
    expect(() => loadConfig({ SMTP_URL: url })).toThrow(/SMTP_URL: must be like smtp:\/\/user:password@host:587/);
    expect(() => loadConfig({ SMTP_URL: url })).not.toThrow(/pass\/word|p%ss/);
  });

  test('is spoken to in the clear only where SMTP_TLS=off says so', () => {
    expect(mailOf({ SMTP_URL: 'smtp://mail', SMTP_TLS: 'off' })).toMatchObject({ requireTls: false });
  });

  test('not set is a file in development, and no mail in production', () => {
    expect(mailOf({ DATA_DIR: '/x' })).toMatchObject({ kind: 'files', directory: '/x/outbox' });
    expect(mailOf(production)).toBeUndefined();
  });

  test('in production comes with a sender, and with the links of mails', () => {
    const environment = { ...production, SMTP_URL: 'smtp://mail' };
    expect(() => loadConfig(environment)).toThrow(/MAIL_FROM: needed[\s\S]*PUBLIC_URL: needed/);
  });
});

const production = {
  NODE_ENV: 'production',
  MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
  DATABASE_URL: 'postgresql://localhost/x',
};

describe('DRAIN_SECONDS', () => {
  test('not set is 5 in production and 0 in development', () => {
    expect([loadConfig(production).drainMs, loadConfig({}).drainMs]).toEqual([5000, 0]);
    expect(loadConfig({ ...production, DRAIN_SECONDS: '0' }).drainMs).toBe(0);
    expect(loadConfig({ DRAIN_SECONDS: '20' }).drainMs).toBe(20_000);
  });

  test.for(['-1', '1.5', 'abc', '301'])('%s is refused', (DRAIN_SECONDS) => {
    expect(() => loadConfig({ DRAIN_SECONDS })).toThrow(/DRAIN_SECONDS: .*0 to 300/);
  });
});

describe('DATABASE_URL', () => {
  test.for([
    'postgresql://vault:secret@one:5432,two:5432/vault',
    'postgres://vault:secret@one,two/vault?target_session_attrs=primary',
    'postgresql://vault:secret@/vault?host=one,two',
    'postgresql://vault:secret@one/vault?port=5432%2C5433',
  ])('with several hosts is refused, without the password: %s', (DATABASE_URL) => {
    const load = () => loadConfig({ ...production, DATABASE_URL });
    expect(load).toThrow('DATABASE_URL: must name one host');
    expect(load).not.toThrow('secret');
  });

  test.for(['postgresql://vault:a,b@one/vault', 'postgresql://one/va,ult?options=-c%20search_path=a,b'])(
    'may have commas elsewhere: %s',
    (DATABASE_URL) => {
      expect(loadConfig({ ...production, DATABASE_URL }).databaseUrl).toBe(DATABASE_URL);
    },
  );
});

describe('MAIL_FROM', () => {
  test.for([
    ['vault@example.com', '', 'vault@example.com'],
    ['<vault@example.com>', '', 'vault@example.com'],
    ['Strongroom <vault@example.com>', 'Strongroom', 'vault@example.com'],
    ['  The Vault of Bücher   <vault@example.com> ', 'The Vault of Bücher', 'vault@example.com'],
    ['"Vault, Inc. <x@y.example>" <vault@example.com>', 'Vault, Inc. <x@y.example>', 'vault@example.com'],
    ['"The \\"Vault\\"" <vault@example.com>', 'The "Vault"', 'vault@example.com'],
    ['Vault <vault@bücher.example>', 'Vault', 'vault@xn--bcher-kva.example'],
  ] as const)('%s is one sender', ([text, name, address]) => {
    expect(mailOf({ SMTP_URL: 'smtp://mail', MAIL_FROM: text })?.from).toEqual({ name, address });
  });

  test.for([
    'Strongroom',
    'vault@',
    'a@example.com, b@example.com',
    'Vault, Inc. <vault@example.com>',
    'A <a@example.com> B <b@example.com>',
    'A <a@example.com>, b@example.com',
    'A <a@example.com',
    '"A <a@example.com>',
    'A <<a@example.com>>',
    'A\r\nBcc: b@example.com <a@example.com>',
    'A <a@example.com\r\nBcc: b@example.com>',
    'A <a@b@example.com>',
    'Group: a@example.com;',
    'größe@example.com',
    'a@exa%6dple.com',
  ])('%j is refused', (text) => {
    expect(() => loadConfig({ MAIL_FROM: text })).toThrow('MAIL_FROM: must be one address');
  });
});

describe('PUBLIC_URL', () => {
  test.for(['https://vault.example.com', 'https://vault.example.com/', 'http://127.0.0.1:8080', 'http://localhost'])(
    '%s is where people of a production server may sign in',
    (url) => {
      expect(loadConfig({ ...production, PUBLIC_URL: url }).publicUrl).toBe(new URL(url).origin);
    },
  );

  test.for(['http://vault.example.com', 'HTTP://10.0.0.1', 'http://127.example.com', 'http://localhost.example.com'])(
    '%s is not: others read along',
    (url) => {
      expect(() => loadConfig({ ...production, PUBLIC_URL: url })).toThrow('PUBLIC_URL: must begin with https://');
    },
  );

  test.for(['vault.example.com', 'https://vault.example.com/path', 'https://user@vault.example.com', 'ftp://x'])(
    '%s is no origin',
    (url) => {
      expect(() => loadConfig({ PUBLIC_URL: url })).toThrow('PUBLIC_URL: must be an origin');
    },
  );
});

describe.each(['VAULT_ADDR', 'AWS_KMS_ENDPOINT'])('%s', (name) => {
  test.for(['https://keys.example.com:8200', 'http://127.0.0.1:8200', 'http://[::1]:8200'])('may be %s', (url) => {
    expect(() => loadConfig({ [name]: url })).not.toThrow();
  });

  test.for(['http://keys.example.com:8200', 'http://127.example.com', 'ftp://localhost', 'localhost:8200'])(
    'is not %s: others read along',
    (url) => {
      expect(() => loadConfig({ [name]: url })).toThrow(`${name}: must be an https:// address`);
    },
  );
});

test('LOG_CHECKPOINT_URL has no credentials, with which no request is sent', () => {
  expect(() => loadConfig({ LOG_CHECKPOINT_URL: 'https://logs.example.com/in?key=x' })).not.toThrow();
  for (const url of [
    'https://user@logs.example.com',
    'https://user:x@logs.example.com/',
    'https://:x@logs.example.com',
  ])
    expect(() => loadConfig({ LOG_CHECKPOINT_URL: url })).toThrow('LOG_CHECKPOINT_URL: must have no user name');
  expect(() => loadConfig({ LOG_CHECKPOINT_URL: 'logs' })).toThrow('LOG_CHECKPOINT_URL: must be an https:// address');
});

describe('SESSION_IDLE and SIGN_IN_LOCKOUT', () => {
  test('are 15 and 30 minutes where nothing is set, and any time within their bounds', () => {
    expect(loadConfig({})).toMatchObject({ sessionIdleMs: 15 * 60_000, signInLockoutMs: 30 * 60_000 });
    expect(loadConfig({ SESSION_IDLE: '2m', SIGN_IN_LOCKOUT: '24h' })).toMatchObject({
      sessionIdleMs: 120_000,
      signInLockoutMs: 86_400_000,
    });
  });

  test.for([
    [{ SESSION_IDLE: '119' }, 'SESSION_IDLE: must be from 2m to 12h'],
    [{ SESSION_IDLE: '13h' }, 'SESSION_IDLE: must be from 2m to 12h'],
    [{ SIGN_IN_LOCKOUT: '59s' }, 'SIGN_IN_LOCKOUT: must be from 1m to 24h'],
    [{ SIGN_IN_LOCKOUT: '25h' }, 'SIGN_IN_LOCKOUT: must be from 1m to 24h'],
    [{ SIGN_IN_LOCKOUT: 'never' }, 'SIGN_IN_LOCKOUT: must be a number of seconds'],
  ] as const)('%j is refused', ([environment, problem]) => {
    expect(() => loadConfig(environment)).toThrow(problem);
  });
});

test('a variable that looks like a misspelled one of ours is named with its correction', () => {
  const found = findMisspelledVariables({
    SANDBOX_JAILL: 'secret',
    MASTERKEY: 'secret',
    SANDBOX_NONSENSE_AT_ALL: '1',
    PGHOST: 'x',
    PGPORT: '1',
    HOSTNAME: 'x',
    PATH: '/bin',
    MASTER_KEY_FILE: '/run/key',
  });
  expect(found).toEqual([
    'SANDBOX_JAILL is no variable of Strongroom and has no effect: did you mean SANDBOX_JAIL?',
    'MASTERKEY is no variable of Strongroom and has no effect: did you mean MASTER_KEY?',
    'SANDBOX_NONSENSE_AT_ALL is no variable of Strongroom and has no effect',
  ]);
});

describe.each(['PUBLIC_HOSTS', 'PROXY_ALLOWED_HOSTS'] as const)('%s', (name) => {
  const listOf = (text: string) => {
    const { ownHosts, allowedHosts } = loadConfig({ [name]: text }).egress;
    return name === 'PUBLIC_HOSTS' ? ownHosts : allowedHosts;
  };

  test.for([
    ['vault.example.com', ['vault.example.com']],
    [' a.example.com , *.example.org,', ['a.example.com', '*.example.org']],
    ['VAULT.Example.com.,bücher.example,payments', ['VAULT.Example.com.', 'bücher.example', 'payments']],
    ['_x.example.com,3com.example,1.2.3.example', ['_x.example.com', '3com.example', '1.2.3.example']],
  ] as const)('takes names of hosts: %s', ([text, expected]) => {
    expect(listOf(text)).toEqual(expected);
  });

  test.for([
    'https://vault.example.com',
    'vault.example.com:443',
    'vault.example.com/',
    'good.example,https://vault.example.com',
    '*',
    '*.',
    '*.*.example.com',
    'a.*.example.com',
    'user@vault.example.com',
    'vault..example.com',
    '0x7f.0x1',
    'foo.0x10',
    '10.0x1',
    '127.0.0.1',
    '[::1]',
    'vault example.com',
    '-x-.example',
    ',',
    `${'a'.repeat(64)}.example`,
  ])('refuses what would match no host, without repeating it: %s', (text) => {
    const start = () => loadConfig({ [name]: text, PROXY_PORTS: 'x' });
    // With all other problems at once.
    expect(start).toThrow(
      new RegExp(
        `${name}: must be host names without scheme, port or path[\\s\\S]*PROXY_PORTS|PROXY_PORTS[\\s\\S]*${name}: must be`,
      ),
    );
    expect(start).not.toThrow(/vault|127/);
  });
});

describe('SANDBOX_MEMORY_TOTAL_MB', () => {
  test('is by default a quarter of the memory, and room for two executors at least', () => {
    const { memoryTotalMb } = loadConfig({}).sandbox;
    expect(memoryTotalMb).toBeGreaterThanOrEqual(600);
    expect(memoryTotalMb).toBeLessThanOrEqual(Math.max(600, totalmem() / 4 / 1024 / 1024));
    expect(loadConfig({ SANDBOX_MEMORY_TOTAL_MB: '2400' }).sandbox.memoryTotalMb).toBe(2400);
  });

  test('below two executors at their limit stops the start', () => {
    const problem = 'SANDBOX_MEMORY_TOTAL_MB: must be at least 856, for two executors.';
    expect(() => loadConfig({ SANDBOX_MEMORY_TOTAL_MB: '855', SANDBOX_MEMORY_MB: '256' })).toThrow(problem);
  });

  test('takes the place of SANDBOX_EXECUTORS_MAX, which stops the start', () => {
    expect(() => loadConfig({ SANDBOX_EXECUTORS_MAX: '8' })).toThrow(
      /SANDBOX_EXECUTORS_MAX: is gone: .* Set SANDBOX_MEMORY_TOTAL_MB/,
    );
  });
});

describe('WORKERS', () => {
  test('auto has a heavy worker where a core and its memory are there beside the others', () => {
    expect(hasRoomForHeavy(2, 1_550 + 600, 600, 1)).toBe(true);
    expect(hasRoomForHeavy(2, 2_250 + 600, 600, 2)).toBe(true);
    expect(hasRoomForHeavy(2, 2_249 + 600, 600, 2)).toBe(false);
    expect(hasRoomForHeavy(1, 64_000, 600, 1)).toBe(false);
    expect(loadConfig({ HEAVY_WORKER: 'off' }).hasHeavyWorker).toBe(false);
    expect(loadConfig({ HEAVY_WORKER: 'on' }).hasHeavyWorker).toBe(true);
    expect(() => loadConfig({ HEAVY_WORKER: 'yes' })).toThrow('HEAVY_WORKER');
  });

  test('auto is two workers where two cores and their memory are, else one', () => {
    expect(countWorkers(2, 1_600 + 600, 600)).toBe(2);
    expect(countWorkers(16, 64_000, 600)).toBe(2);
    expect(countWorkers(1, 64_000, 600)).toBe(1);
    expect(countWorkers(2, 1_599 + 600, 600)).toBe(1);
  });

  test('is auto in production, and one process in development', () => {
    const production = {
      NODE_ENV: 'production',
      DATABASE_URL: 'postgresql://user:password@db.test/vault',
      MASTER_KEY: Buffer.alloc(32, 1).toString('base64'),
    };
    expect(loadConfig(production).workers).toBe(loadConfig({ WORKERS: 'auto' }).workers);
    expect(loadConfig({ ...production, WORKERS: '3' }).workers).toBe(3);
    expect(loadConfig({}).workers).toBe(1);
  });

  test.for(['0', '-1', 'abc', '1.5', '1000', 'AUTO'])('with WORKERS=%s is refused', (WORKERS) => {
    expect(() => loadConfig({ WORKERS })).toThrow('WORKERS: must be a whole number from 1 to 64, or auto');
  });
});

test('SANDBOX_WALL_MS is at most as long as the longest response of a destination', () => {
  expect(loadConfig({ SANDBOX_WALL_MS: '150000' }).sandbox.wallMs).toBe(150_000);
  expect(() => loadConfig({ SANDBOX_WALL_MS: '150001' })).toThrow(/SANDBOX_WALL_MS: .*100 to 150000/);
});

test('a root key is 32 bytes in base64, base64url or hex, written out whole', () => {
  const key = Buffer.from(Array.from({ length: 32 }, (_, index) => (index * 37 + 251) % 256));
  const written = key.toString('base64');
  for (const text of [written, written.slice(0, -1), key.toString('base64url'), key.toString('hex'), `${written}\n`])
    expect(loadConfig({ MASTER_KEY: text }).rootKey?.equals(key), text).toBe(true);
  const mixed = `-${written.slice(1, 20)}+${written.slice(21)}`;
  const notWhole = `${written.slice(0, 42)}B=`;
  for (const text of [
    `${written.slice(0, 20)} ${written.slice(20)}`,
    `!${written}`,
    `${written}=`,
    `${written}AAAA`,
  ].concat(written.slice(1), mixed, notWhole, key.toString('hex').slice(1), key.subarray(1).toString('base64')))
    expect(() => loadConfig({ MASTER_KEY: text }), text).toThrow('MASTER_KEY: must be 32 random bytes');
});

describe('a development server in a container', () => {
  const onNetwork = { HOST: '0.0.0.0', ALLOW_DEV_ON_NETWORK: '1', DATA_DIR: '/data' };
  const STRONGROOM_COMMAND = 'docker exec CONTAINER strongroom';

  test('reaches the echo server of its own loopback; other networks and production do not', () => {
    expect(loadConfig(onNetwork).egress.development).toEqual({ echoFile: undefined });
    expect(loadConfig({ ...onNetwork, STRONGROOM_COMMAND }).egress.development).toEqual({
      echoFile: '/data/echo.json',
    });
    expect(loadConfig({ ...onNetwork, ...production, STRONGROOM_COMMAND }).egress.development).toBeUndefined();
  });

  test('has a key that scripts know; production has none, nor a vault that gets another key', () => {
    const STRONGROOM_DEV_KEY = 'svc_test_key';
    expect(loadConfig({ STRONGROOM_DEV_KEY }).devKey).toBe(STRONGROOM_DEV_KEY);
    expect(() => loadConfig({ ...production, STRONGROOM_DEV_KEY })).toThrow(/STRONGROOM_DEV_KEY: is for development/);
    expect(() => loadConfig({ STRONGROOM_DEV_KEY, BOOTSTRAP_API_KEY_FILE: '/key' })).toThrow(/must not be beside/);
  });

  test('has endpoints for tests in one process; production and workers have none', () => {
    const TEST_ENDPOINTS = 'on';
    expect(loadConfig({}).testEndpoints).toBe(false);
    expect(loadConfig({ TEST_ENDPOINTS, WORKERS: 'auto' })).toMatchObject({ testEndpoints: true, workers: 1 });
    expect(() => loadConfig({ ...production, TEST_ENDPOINTS })).toThrow(
      /TEST_ENDPOINTS: is for development only: a key/,
    );
    expect(() => loadConfig({ TEST_ENDPOINTS, WORKERS: '2' })).toThrow(/TEST_ENDPOINTS: needs a server of one process/);
    const TEST_TEMPLATE_DIR = '/templates';
    expect(() => loadConfig({ TEST_TEMPLATE_DIR })).toThrow(/TEST_TEMPLATE_DIR: .*needs TEST_ENDPOINTS=on/);
    const both = { TEST_ENDPOINTS, TEST_TEMPLATE_DIR, DATABASE_URL: 'postgresql://localhost/vault' };
    expect(() => loadConfig(both)).toThrow(/TEST_TEMPLATE_DIR: must not be beside DATABASE_URL/);
    expect(() => loadConfig({ ...both, TEST_TEMPLATE_DIR: 'here' })).toThrow(/TEST_TEMPLATE_DIR: must be the absolute/);
  });
});
