#!/usr/bin/env node
import { existsSync } from 'node:fs';

if (!existsSync(new URL('../dist/bin.js', import.meta.url))) {
  console.error('The command line is not built: npm run build');
  process.exit(1);
}
await import('../dist/bin.js');
