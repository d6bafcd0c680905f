#!/usr/bin/env node
'use strict';
// The operator's command line. dist/node-24.js finds the right Node.
// Variables that are set already win over .env; without such a file nothing is said.
if (require('fs').existsSync('.env')) process.loadEnvFile();

import('../dist/cli/main.js').catch(function (error) {
  console.error(
    error.code === 'ERR_MODULE_NOT_FOUND' ? 'Strongroom is not built: npm run build (' + error.message + ')' : error,
  );
  process.exit(1);
});
