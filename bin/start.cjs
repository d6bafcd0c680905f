'use strict';
// Starts the server: npm start, systemd units and images all come through here. dist/node-24.js finds the right Node.
import('../dist/main.js').catch(function (error) {
  console.error(
    error.code === 'ERR_MODULE_NOT_FOUND' ? 'Strongroom is not built: npm run build (' + error.message + ')' : error,
  );
  process.exit(1);
});
