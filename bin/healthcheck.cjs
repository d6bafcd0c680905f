'use strict';
// Exits 0 when the server of this container serves requests.
const url = `http://127.0.0.1:${process.env.PORT || 8080}/readyz`;
fetch(url, { signal: AbortSignal.timeout(2500) }).then(
  (response) => process.exit(response.ok ? 0 : 1),
  () => process.exit(1),
);
