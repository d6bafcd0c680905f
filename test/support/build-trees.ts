// A process that builds the trees of the audit log once, to be killed while it does.
import { createContext } from '../../src/modules.ts';
import { createTreeBuilder } from '../../src/platform/audit/trees.ts';
import { loadConfig } from '../../src/platform/config/config.ts';

const offsetMs = Number(process.env['TREES_OFFSET_MS']);
const ctx = await createContext(loadConfig(), 'command', { now: () => new Date(Date.now() + offsetMs) });
await createTreeBuilder(ctx).build(process.env['TREES_HOLDER'] ?? '');
await ctx.close();
