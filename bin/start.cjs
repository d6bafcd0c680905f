'use strict';
// Starts the server: npm start, systemd units and images all come through here. dist/node-24.js finds the right Node.
// On a machine with much memory V8 lets garbage pile up before it looks: after 100,000 tokens 180 MB more than there is in
// use. With this it looks sooner. The command line sets the rest (bin/start.sh, Dockerfile): semi-spaces of 16 MB keep what
// lives for one request from growing old, one thread collects it, for waking helpers takes longer than their help saves,
// and nothing is made old at once because things like it lived long: it would keep alive all that it points to, which is
// the rest of its request, until the next full collection (bench/README.md).
require('v8').setFlagsFromString('--heap-growing-percent=40');

// Variables that are set already win over .env; without such a file nothing is said.
if (require('fs').existsSync('.env')) process.loadEnvFile();

import('../dist/main.js').catch(function (error) {
  console.error(
    error.code === 'ERR_MODULE_NOT_FOUND' ? 'Strongroom is not built: npm run build (' + error.message + ')' : error,
  );
  process.exit(1);
});
