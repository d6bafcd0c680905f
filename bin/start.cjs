'use strict';
// Starts the server: npm start, systemd units and images all come through here. dist/node-24.js finds the right Node.
// bin/start.sh and the Dockerfile set semi-spaces of 16 MB, so that objects that live for one request die young: the figures are in
// docs/decisions/0095-collections.md.

// Variables that are set already win over .env; without such a file nothing is said.
if (require('fs').existsSync('.env')) process.loadEnvFile();

import('../dist/main.js').catch(function (error) {
  console.error(
    error.code === 'ERR_MODULE_NOT_FOUND' ? 'Strongroom is not built: npm run build (' + error.message + ')' : error,
  );
  process.exit(1);
});
