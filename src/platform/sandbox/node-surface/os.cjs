// Node's os, which says the same of every machine: nothing of the real one is known in here.
'use strict';

module.exports = {
  EOL: '\n',
  arch: () => 'x64',
  platform: () => 'linux',
  type: () => 'Linux',
  release: () => '',
  hostname: () => 'localhost',
  homedir: () => '/',
  tmpdir: () => '/tmp',
  endianness: () => 'LE',
  cpus: () => [],
  networkInterfaces: () => ({}),
  totalmem: () => 0,
  freemem: () => 0,
  uptime: () => 0,
  loadavg: () => [0, 0, 0],
};
