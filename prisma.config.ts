import { defineConfig } from 'prisma/config';

// For Prisma's own command line on a developer's machine. The server migrates itself (src/platform/maintenance/migrate.ts).
export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations' },
  datasource: { url: process.env['DATABASE_URL'] ?? 'postgresql://localhost/strongroom' },
});
