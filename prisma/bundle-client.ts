// Bundles the generated Prisma client and its runtime into dist, so that production installs without @prisma/client.
// That package has query compilers for five databases in four formats (72 MB), of which the client loads one (4.5 MB).
import { copyFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

const outdir = path('../dist/generated/prisma');
rmSync(outdir, { recursive: true, force: true });
await build({
  entryPoints: [path('../src/generated/prisma/client.ts')],
  outdir,
  bundle: true,
  // The compiler stays in a file of its own, which is loaded with the first query.
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  // The runtime is CommonJS and requires modules of Node.
  banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
  logLevel: 'error',
});
copyFileSync(path('../node_modules/@prisma/client/LICENSE'), `${outdir}/LICENSE`);
