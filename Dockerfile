# Build with everything, run with what is needed. glibc: the native packages are built for it.
FROM node:24-bookworm-slim AS build
WORKDIR /app
# Prisma looks for the version of OpenSSL, and warns where there is none.
RUN apt-get update && apt-get install -y --no-install-recommends openssl && rm -rf /var/lib/apt/lists/*
COPY package.json package-lock.json .npmrc tsconfig.json tsconfig.build.json prisma.config.ts ./
COPY prisma ./prisma
COPY bin ./bin
COPY src ./src
COPY formulas ./formulas
COPY packages ./packages
# The image has Node 24 and is given a database: what runs needs neither optional package; the compiler needs its own.
# Of isolated-vm, its archive of itself and the binaries for other systems stay behind; so do the links to our own packages,
# whose scripts are in dist/.
RUN npm ci && npm prune --omit=dev --omit=optional --ignore-scripts && \
    rm -rf node_modules/@strongroom && cd node_modules/isolated-vm && \
    rm -rf *.tgz prebuilds/darwin-* prebuilds/win32-*

FROM node:24-bookworm-slim
LABEL org.opencontainers.image.title="Strongroom" \
      org.opencontainers.image.description="A self-hostable vault for card, bank and personal data" \
      org.opencontainers.image.licenses="Apache-2.0"
# bubblewrap adds to the wall around tenants' code where the container may make namespaces; perl-base, which starts executors,
# is part of the base image.
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap tini && rm -rf /var/lib/apt/lists/*
WORKDIR /app
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/bin ./bin
COPY --from=build /app/prisma/migrations ./prisma/migrations
COPY --from=build /app/formulas ./formulas
COPY --from=build /app/package.json ./
# For `db roles --print-sql`.
COPY deploy/postgres/roles.sql ./deploy/postgres/roles.sql
COPY LICENSE ./
USER node
EXPOSE 8080
STOPSIGNAL SIGTERM
# The first check runs after one interval, and `docker compose up --wait` waits for it. The classic builder refuses
# --start-interval.
HEALTHCHECK --interval=3s --timeout=3s --start-period=20s CMD ["node", "bin/healthcheck.cjs"]
# `docker run IMAGE` serves; `docker run IMAGE bootstrap ...` is the operator's command line.
# Linux drops a SIGKILL that process 1 sends to itself, and the watchdog of the event loop ends the server by one.
ENTRYPOINT ["tini", "--", "node", "--disable-sigusr1", "--min-semi-space-size=16", "--max-semi-space-size=16", "bin/entrypoint.cjs"]
