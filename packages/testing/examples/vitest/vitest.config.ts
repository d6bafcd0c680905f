// The configuration of the example, apart from that of this repository.
import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { include: ['*.test.ts'] } });
